//! What the `default` recipe knows about the candidates of every question, found once for each encoder, with the
//! library's own functions: what all runs share.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use earmark::encode::Side;
use earmark::lexical::{Collection, Moments, WordScore, coverage, idf, query_words, score_text, words};
use earmark::recall::{
    AROUND, Candidate, Corpus, Evidence, FEATURES, Facts, Hindsight, Pool, Question as Asked, features, fused_score,
    top_k,
};
use earmark::vector;
use jiff::tz::TimeZone;
use rayon::prelude::*;

use crate::candidates::{Embedded, Encode};
use crate::data::{Bank, Dataset, LabMemory, Question};
use crate::text::MemoryText;

/// Candidates that are ranked.
pub const POOL: usize = 75;
/// Candidates that each arm hands over, as in the product.
const ARM: usize = 2 * POOL;

/// One question with its candidates.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Query and candidates as vectors.
    pub pool: Arc<Pool>,
    /// Rows of the bank, in pool order.
    pub rows: Vec<usize>,
    /// Keys of the memories over all banks, in pool order.
    pub keys: Vec<i64>,
    /// Features `[K x F]`; those of past feedback are 0 here.
    pub features: Vec<[f32; FEATURES]>,
    /// Candidates that are gold.
    pub gold_candidates: Vec<Candidate>,
    /// Rows that are gold.
    pub gold: Vec<usize>,
    /// The best five rows by cosine.
    pub dense_top: Vec<usize>,
    /// The best five rows by BM25.
    pub lexical_top: Vec<usize>,
}

/// Prepares every question of a set.
///
/// # Errors
/// Those of the encoder.
pub fn prepare(dataset: &Dataset, encode: &mut Encode<'_>) -> Result<Vec<Prepared>> {
    let text = MemoryText::Speaker;
    let texts: Vec<Vec<String>> =
        dataset.banks.iter().map(|bank| bank.memories.iter().map(|memory| text.of(memory)).collect()).collect();
    let memories = Embedded::new(texts.iter().flatten().map(String::as_str), Side::Memory, encode)?;
    let queries = Embedded::new(dataset.questions.iter().map(|q| q.text.as_str()), Side::Query, encode)?;
    let mut first_key = 0;
    let mut banks = Vec::new();
    for (bank, texts) in dataset.banks.iter().zip(&texts) {
        let vectors = texts.iter().map(|text| unit(memories.vector(text))).collect();
        banks.push(Index::of(bank, texts, vectors, first_key));
        first_key += bank.memories.len() as i64;
    }
    let one = |question: &Question| banks[question.bank].prepare(question, &unit(queries.vector(&question.text)));
    dataset.questions.par_iter().map(one).collect()
}

fn unit(vector: &[f32]) -> Vec<f32> {
    let mut vector = vector.to_vec();
    vector::normalize(&mut vector);
    vector
}

/// A bank as the recipe sees it.
struct Index<'a> {
    bank: &'a Bank,
    vectors: Vec<Vec<f32>>,
    facts: Vec<Facts>,
    documents: Vec<HashMap<String, u32>>,
    lengths: Vec<u32>,
    texts_with: HashMap<String, u64>,
    collection: Collection,
    first_key: i64,
}

impl<'a> Index<'a> {
    fn of(bank: &'a Bank, texts: &[String], vectors: Vec<Vec<f32>>, first_key: i64) -> Self {
        let lexical = |(memory, text): (&LabMemory, &String)| words(&format!("{}{text}", date_words(memory)));
        let indexed: Vec<Vec<String>> = bank.memories.iter().zip(texts).map(lexical).collect();
        let mut texts_with: HashMap<String, u64> = HashMap::new();
        let documents: Vec<HashMap<String, u32>> = indexed.iter().map(|words| count(words)).collect();
        documents.iter().flat_map(HashMap::keys).for_each(|word| *texts_with.entry(word.clone()).or_default() += 1);
        let lengths: Vec<u32> = indexed.iter().map(|words| words.len() as u32).collect();
        let all = lengths.iter().map(|length| u64::from(*length)).sum();
        let facts = |memory: &LabMemory| {
            let at = memory.occurred_at.and_then(|at| TimeZone::UTC.to_timestamp(at).ok());
            Facts::read(&memory.text, memory.author.as_deref(), at)
        };
        Index {
            facts: bank.memories.iter().map(facts).collect(),
            collection: Collection { texts: documents.len() as u64, words: all },
            bank,
            vectors,
            documents,
            lengths,
            texts_with,
            first_key,
        }
    }

    fn prepare(&self, question: &Question, query: &[f32]) -> Result<Prepared> {
        let asked = Asked::read(&question.text);
        let dense: Vec<f32> = self.vectors.iter().map(|memory| vector::dot(query, memory)).collect();
        let terms = self.terms(&question.text);
        let scores = self.word_scores(&terms);
        let weights = self.weights(&terms);
        let lexical: Vec<f32> = scores.iter().map(|score| score.bm25).collect();
        let corpus = self.corpus(&dense, &scores);
        let pool = self.choose(&asked, &corpus, &dense, &scores);
        let evidence: Vec<Evidence> = pool.iter().map(|row| self.evidence(*row, &dense, &scores, &weights)).collect();
        let vectors: Vec<&[f32]> = pool.iter().map(|row| self.vectors[*row].as_slice()).collect();
        let gold = pool.iter().enumerate().filter(|(_, row)| question.gold.contains(row));
        Ok(Prepared {
            pool: Arc::new(Pool::from_rows(query, &vectors)?),
            keys: pool.iter().map(|row| self.first_key + *row as i64).collect(),
            features: features(&asked, &corpus, &evidence),
            gold_candidates: gold.map(|(place, _)| Candidate(place)).collect(),
            gold: question.gold.clone(),
            dense_top: top_k(&dense, 5),
            lexical_top: top_k(&lexical, 5),
            rows: pool,
        })
    }

    /// The question's words with the number of texts that have them: those that any text has first, rarest first.
    fn terms(&self, question: &str) -> Vec<(String, u64)> {
        let with_texts = |word: String| {
            let texts = self.texts_with.get(&word).copied().unwrap_or_default();
            (word, texts)
        };
        let mut terms: Vec<(String, u64)> = query_words(question).into_iter().map(with_texts).collect();
        terms.sort_by_key(|(_, texts)| if *texts == 0 { u64::MAX } else { *texts });
        terms
    }

    /// What each word makes up of the question, by its idf; they sum to 1.
    fn weights(&self, terms: &[(String, u64)]) -> Vec<f32> {
        let idfs: Vec<f32> = terms.iter().map(|(_, texts)| idf(self.collection, *texts)).collect();
        let all: f32 = idfs.iter().sum();
        idfs.iter().map(|idf| idf / all).collect()
    }

    fn word_scores(&self, terms: &[(String, u64)]) -> Vec<WordScore> {
        let frequency = |row: usize, word: &str| self.documents[row].get(word).copied().unwrap_or_default();
        let score = |row: usize| {
            let shared = terms.iter().map(|(word, texts)| (*texts, frequency(row, word)));
            score_text(shared, self.lengths[row], self.collection)
        };
        (0..self.documents.len()).map(score).collect()
    }

    fn corpus(&self, dense: &[f32], scores: &[WordScore]) -> Corpus {
        let moments = |values: &mut dyn Iterator<Item = f32>| {
            let (sum, squares) = values
                .fold((0.0, 0.0), |(sum, squares), x| (sum + f64::from(x), squares + f64::from(x) * f64::from(x)));
            Moments::of_sums(sum, squares, dense.len() as u64)
        };
        Corpus {
            dense: moments(&mut dense.iter().copied()),
            lexical: moments(&mut scores.iter().map(|score| score.bm25)),
            rare: moments(&mut scores.iter().map(|score| score.rare)),
            mean_length: self.collection.words as f32 / self.collection.texts.max(1) as f32,
        }
    }

    /// Rows of the pool, best first by the static score of meaning and words.
    fn choose(&self, asked: &Asked, corpus: &Corpus, dense: &[f32], scores: &[WordScore]) -> Vec<usize> {
        let lexical: Vec<f32> = scores.iter().map(|score| score.bm25).collect();
        let by_words = top_k(&lexical, ARM).into_iter().filter(|row| lexical[*row] > 0.0);
        let mut rows: Vec<usize> = top_k(dense, ARM).into_iter().chain(by_words).collect();
        rows.sort_unstable();
        rows.dedup();
        let fused = |row: &usize| {
            let evidence = Evidence { dense: dense[*row], words: scores[*row], ..Evidence::default() };
            fused_score(asked, corpus, &evidence)
        };
        let fused: Vec<f32> = rows.iter().map(fused).collect();
        top_k(&fused, POOL).into_iter().map(|place| rows[place]).collect()
    }

    fn evidence(&self, row: usize, dense: &[f32], scores: &[WordScore], weights: &[f32]) -> Evidence {
        let session = |row: usize| self.bank.memories[row].session.as_deref();
        let together = |other: &usize| session(row).is_some() && session(*other) == session(row);
        let beside = |other: Option<usize>| other.filter(|other| *other < dense.len()).filter(together);
        let around = row.saturating_sub(AROUND)..(row + AROUND + 1).min(dense.len());
        let shared = around.filter(together).fold(0, |bits, other| bits | scores[other].shared);
        Evidence {
            dense: dense[row],
            words: scores[row],
            facts: self.facts[row].clone(),
            previous: beside(row.checked_sub(1)).map(|other| dense[other]),
            next: beside(Some(row + 1)).map(|other| dense[other]),
            around: coverage(weights, shared & !scores[row].shared),
            in_session: session(row).is_some(),
            past: Hindsight::default(),
        }
    }
}

fn count(words: &[String]) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    words.iter().for_each(|word| *counts.entry(word.clone()).or_default() += 1);
    counts
}

/// The date in words, as the product's word index has it.
fn date_words(memory: &LabMemory) -> String {
    memory.occurred_at.map(|at| at.strftime("%-d %B %Y ").to_string()).unwrap_or_default()
}
