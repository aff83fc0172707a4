//! From a question to its candidates and everything known about them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Namespace,
    learning::{Learned, features_of},
};
use crate::{
    error::Result,
    learn::{PastQuestion, hindsight, logit},
    params::Recipe,
    recall::{Beside, Corpus, Evidence, Facts, Pool, Question, features, fused_score, top_k},
    record::{Memory, Scope},
    store::{Hit, Row, StoredRecall, WordHits},
    vector::dot,
};

/// The candidates of one question. All lists are parallel; a place in them is a [`Candidate`](crate::recall::Candidate).
pub(super) struct Gathered {
    pub(super) rows: Vec<Row>,
    pub(super) memories: Vec<Memory>,
    pub(super) pool: Arc<Pool>,
    pub(super) evidence: Vec<Evidence>,
    /// `[K x F]`.
    pub(super) features: Vec<Vec<f32>>,
}

impl Gathered {
    /// Cosines `[K]`.
    pub(super) fn dense(&self) -> Vec<f32> {
        self.evidence.iter().map(|e| e.dense).collect()
    }

    /// `w.x` of each candidate `[K]`.
    pub(super) fn logits(&self, weights: &[f64]) -> Vec<f32> {
        let row = |x: &Vec<f32>| logit(weights, &x.iter().map(|&v| f64::from(v)).collect::<Vec<_>>()) as f32;
        self.features.iter().map(row).collect()
    }
}

impl Namespace {
    /// Finds the candidates (Eq. 1): the most similar memories, and under the `default` recipe also those that share
    /// words with the question; at most `wanted` of them, by the static ranking.
    pub(super) fn gather(
        &self,
        question: &str,
        query: &[f32],
        scope: &Scope,
        wanted: usize,
        learned: &Learned,
    ) -> Result<Gathered> {
        let params = &self.settings().params;
        let arm = if params.recipe == Recipe::Paper { wanted } else { 2 * wanted };
        let (dense, lexical) = self.search_arms(question, query, scope, arm)?;
        let corpus = match params.recipe {
            Recipe::Paper => Corpus::default(),
            Recipe::Default => self.corpus(query, &lexical)?,
        };
        let rows = union(&dense, &lexical.hits);
        let asked = Question::read(question);
        let rows = match params.recipe {
            Recipe::Paper => rows,
            Recipe::Default => self.shortlist(&asked, question, query, rows, &corpus, wanted)?,
        };
        self.look_up(&asked, question, query, rows, &corpus, learned)
    }

    fn corpus(&self, query: &[f32], words: &WordHits) -> Result<Corpus> {
        Ok(Corpus {
            dense: self.store.cosine_moments(query)?,
            lexical: words.moments,
            rare: words.rare_moments,
            best_lexical: words.best,
            mean_length: words.collection.words as f32 / words.collection.texts.max(1) as f32,
        })
    }

    /// The best `wanted` rows by the static score of meaning and words.
    fn shortlist(
        &self,
        asked: &Question,
        question: &str,
        query: &[f32],
        rows: Vec<Row>,
        corpus: &Corpus,
        wanted: usize,
    ) -> Result<Vec<Row>> {
        let vectors = self.store.vectors(&rows)?;
        let words = self.store.word_scores(question, &rows)?;
        let evidence =
            |i: usize| Evidence { dense: cosine_of(query, &vectors[i]), words: words[i], ..Evidence::default() };
        let scores: Vec<f32> = (0..rows.len()).map(|i| fused_score(asked, corpus, &evidence(i))).collect();
        Ok(top_k(&scores, wanted).into_iter().map(|i| rows[i]).collect())
    }

    /// Both arms at once, on two threads.
    fn search_arms(&self, question: &str, query: &[f32], scope: &Scope, k: usize) -> Result<(Vec<Hit>, WordHits)> {
        if self.settings().params.recipe == Recipe::Paper {
            return Ok((self.store.search(query, k, scope)?, WordHits::default()));
        }
        std::thread::scope(|threads| {
            let words = threads.spawn(|| self.store.search_words(question, k, scope));
            let dense = self.store.search(query, k, scope)?;
            let lexical = words.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((dense, lexical))
        })
    }

    /// The candidates of a stored recall with the features they were logged with.
    pub(super) fn gather_again(&self, recall: &StoredRecall) -> Result<Gathered> {
        let rows: Vec<Row> = recall.log.candidates.iter().map(|c| c.row).collect();
        let (question, query) = (&recall.log.query, &recall.log.query_vector);
        let words = self.store.search_words(question, 0, &Scope::default())?;
        let corpus = self.corpus(query, &words)?;
        let asked = Question::read(question);
        let mut gathered = self.look_up(&asked, question, query, rows, &corpus, self.current()?.as_ref())?;
        for (row, features) in gathered.rows.iter().zip(&mut gathered.features) {
            let logged = features_of(recall, *row);
            if logged.len() == features.len() {
                features.copy_from_slice(logged);
            }
        }
        Ok(gathered)
    }

    fn look_up(
        &self,
        asked: &Question,
        question: &str,
        query: &[f32],
        rows: Vec<Row>,
        corpus: &Corpus,
        learned: &Learned,
    ) -> Result<Gathered> {
        let (rows, memories): (Vec<Row>, Vec<Memory>) = self.store.memories(&rows)?.into_iter().unzip();
        let vectors = self.store.vectors(&rows)?;
        let scores = self.store.word_scores(question, &rows)?;
        let beside = self.beside(question, query, &rows)?;
        let speaking = learned.past.speaking(query);
        let useful = self.useful_vectors(&speaking)?;
        let evidence: Vec<Evidence> = (0..rows.len())
            .map(|i| {
                let memory = &memories[i];
                Evidence {
                    dense: cosine_of(query, &vectors[i]),
                    words: scores[i],
                    facts: Facts::read(&memory.content, memory.author.as_deref(), memory.occurred_at),
                    previous: beside[i][0],
                    next: beside[i][1],
                    session: memory.session_id.as_deref().map(session_key),
                    past: hindsight(&speaking, &useful, rows[i].0, &vectors[i]),
                }
            })
            .collect();
        let features = features(asked, corpus, &evidence).iter().map(|row| row.to_vec()).collect();
        let pool = Arc::new(Pool::from_rows(query, &vectors)?);
        Ok(Gathered { rows, memories, pool, evidence, features })
    }

    /// Vectors of the memories that were useful for past questions, by key.
    fn useful_vectors(&self, speaking: &[(&PastQuestion, f32)]) -> Result<HashMap<i64, Vec<f32>>> {
        let labels = speaking.iter().flat_map(|(past, _)| &past.labels);
        let rows: Vec<Row> = labels.filter(|label| label.useful).map(|label| Row(label.key)).collect();
        let vectors = self.store.vectors(&rows)?;
        Ok(rows.iter().map(|row| row.0).zip(vectors).filter(|(_, vector)| !vector.is_empty()).collect())
    }

    /// The turns right before and after each row in its session.
    fn beside(&self, question: &str, query: &[f32], rows: &[Row]) -> Result<Vec<[Option<Beside>; 2]>> {
        let neighbours = self.store.neighbours(rows)?;
        let around: Vec<Row> = neighbours.iter().flatten().flatten().copied().collect();
        let vectors = self.store.vectors(&around)?;
        let scores = self.store.word_scores(question, &around)?;
        let known: HashMap<Row, Beside> = (0..around.len())
            .map(|i| (around[i], Beside { dense: cosine_of(query, &vectors[i]), lexical: scores[i].bm25 }))
            .collect();
        let look = |pair: &[Option<Row>; 2]| pair.map(|row| row.and_then(|row| known.get(&row).copied()));
        Ok(neighbours.iter().map(look).collect())
    }
}

/// Cosine of unit vectors; 0 for a vector that is gone.
fn cosine_of(query: &[f32], memory: &[f32]) -> f32 {
    if memory.len() == query.len() { dot(query, memory).clamp(-1.0, 1.0) } else { 0.0 }
}

fn session_key(session: &str) -> u64 {
    let hash = blake3::hash(session.as_bytes());
    u64::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
}

/// Rows of both arms, each once, the arms taking turns.
fn union(dense: &[Hit], lexical: &[Hit]) -> Vec<Row> {
    let longest = dense.len().max(lexical.len());
    let taking_turns = (0..longest).flat_map(|i| [dense.get(i), lexical.get(i)]).flatten();
    let mut seen = HashSet::new();
    taking_turns.map(|hit| hit.row).filter(|row| seen.insert(*row)).collect()
}
