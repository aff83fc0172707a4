//! The candidates of every question, found once for each encoder: what all methods and seeds share.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Result, ensure};
use earmark::encode::Side;
use earmark::recall::{Candidate, Pool, top_k};
use earmark::vector;
use ndarray::s;
use rayon::prelude::*;

use crate::data::{Bank, Dataset, Question};
use crate::text::MemoryText;

/// Encodes distinct texts of one side, in their order; what a data set is embedded with.
pub type Encode<'a> = dyn FnMut(&[&str], Side) -> Result<Vec<Vec<f32>>> + 'a;

/// A question with its candidates.
#[derive(Debug, Clone)]
pub struct Case {
    /// Query `[d]` and the `K` candidates' vectors `[K x d]`, best first.
    pub pool: Arc<Pool>,
    /// The row of each candidate in its bank, `[K]`.
    pub rows: Vec<usize>,
    /// The candidates that are gold; all gold rows may be outside the pool.
    pub gold_candidates: Vec<Candidate>,
    /// All gold rows of the bank.
    pub gold: Vec<usize>,
    /// The source's kind of question.
    pub category: Option<String>,
}

impl Case {
    /// The bank rows of some candidates.
    pub fn rows_of(&self, candidates: &[Candidate]) -> Vec<usize> {
        candidates.iter().map(|candidate| self.rows[candidate.0]).collect()
    }

    /// The same question with its first `k` candidates.
    fn first(&self, k: usize) -> Result<Case> {
        let count = k.min(self.rows.len());
        let memories = self.pool.memories().slice(s![..count, ..]).to_owned();
        let side = self.pool.side().iter().take(count).copied().collect();
        Ok(Case {
            pool: Arc::new(Pool::new(self.pool.query().to_vec(), memories)?.with_side(side)?),
            rows: self.rows[..count].to_vec(),
            gold_candidates: self.gold_candidates.iter().copied().filter(|candidate| candidate.0 < k).collect(),
            ..self.clone()
        })
    }
}

/// Every question with its first `k` candidates.
///
/// # Errors
/// None for cases that [`find`] made.
pub fn cut(cases: &[Case], k: usize) -> Result<Cow<'_, [Case]>> {
    if cases.iter().all(|case| case.rows.len() <= k) {
        return Ok(Cow::Borrowed(cases));
    }
    cases.iter().map(|case| case.first(k)).collect::<Result<Vec<Case>>>().map(Cow::Owned)
}

/// Share of the questions whose gold memories are all among their candidates: the best that reranking can reach.
pub fn ceiling(cases: &[Case]) -> f64 {
    let reachable = cases.iter().filter(|case| case.gold_candidates.len() == case.gold.len()).count();
    reachable as f64 / cases.len().max(1) as f64
}

/// The `k` memories of each question's bank with the highest cosine to it, Eq. (1); one case a question, in order.
/// Equal texts are encoded once.
///
/// # Errors
/// Those of `encode`, or if it returns another number of vectors or a number that is not finite.
pub fn find(dataset: &Dataset, text: MemoryText, k: usize, encode: &mut Encode<'_>) -> Result<Vec<Case>> {
    choose(dataset, text, encode, &|_, scores| top_k(scores, k))
}

/// As [`find`], but each kind of memory gives an equal share of the `k` (section 5.1), all together best first.
///
/// # Errors
/// As [`find`].
pub fn find_balanced(dataset: &Dataset, text: MemoryText, k: usize, encode: &mut Encode<'_>) -> Result<Vec<Case>> {
    choose(dataset, text, encode, &|bank, scores| balanced(bank, scores, k))
}

fn balanced(bank: &Bank, scores: &[f32], k: usize) -> Vec<usize> {
    let mut kinds: Vec<Option<&str>> = bank.memories.iter().map(|memory| memory.kind.as_deref()).collect();
    let of_rows = kinds.clone();
    kinds.sort_unstable();
    kinds.dedup();
    let order = top_k(scores, scores.len());
    let mut left: HashMap<Option<&str>, usize> = kinds.iter().map(|kind| (*kind, k / kinds.len())).collect();
    let mut take = |row: &usize| {
        let places = left.entry(of_rows[*row]).or_default();
        let taken = *places > 0;
        *places = places.saturating_sub(1);
        taken
    };
    order.into_iter().filter(|row| take(row)).collect()
}

/// The rows of a bank that become candidates, best first, from the cosine of each to the question.
type Choose<'a> = dyn Fn(&Bank, &[f32]) -> Vec<usize> + Sync + 'a;

fn choose(dataset: &Dataset, text: MemoryText, encode: &mut Encode<'_>, choose: &Choose<'_>) -> Result<Vec<Case>> {
    let asked: HashSet<usize> = dataset.questions.iter().map(|question| question.bank).collect();
    let texts = |(index, bank): (usize, &Bank)| {
        let memories = bank.memories.iter().filter(|_| asked.contains(&index));
        memories.map(|memory| text.of(memory)).collect()
    };
    let texts: Vec<Vec<String>> = dataset.banks.iter().enumerate().map(texts).collect();
    let memories = Embedded::new(texts.iter().flatten().map(String::as_str), Side::Memory, encode)?;
    let queries = Embedded::new(dataset.questions.iter().map(|question| question.text.as_str()), Side::Query, encode)?;
    let case = |question: &Question| {
        let bank: Vec<&[f32]> = texts[question.bank].iter().map(|text| memories.vector(text)).collect();
        case(question, queries.vector(&question.text), &bank, &|scores| choose(&dataset.banks[question.bank], scores))
    };
    dataset.questions.par_iter().map(case).collect()
}

fn case(question: &Question, query: &[f32], bank: &[&[f32]], choose: &dyn Fn(&[f32]) -> Vec<usize>) -> Result<Case> {
    let rows = choose(&cosines(query, bank));
    let chosen: Vec<&[f32]> = rows.iter().map(|row| bank[*row]).collect();
    let gold_candidates =
        rows.iter().enumerate().filter(|(_, row)| question.gold.contains(row)).map(|(place, _)| Candidate(place));
    Ok(Case {
        pool: Arc::new(Pool::from_rows(query, &chosen)?),
        gold_candidates: gold_candidates.collect(),
        rows,
        gold: question.gold.clone(),
        category: question.category.clone(),
    })
}

/// The cosine of each memory to the query.
pub(crate) fn cosines(query: &[f32], bank: &[&[f32]]) -> Vec<f32> {
    bank.iter().map(|memory| cosine(query, memory)).collect()
}

/// 0 where a vector is zero.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let length = vector::norm(a) * vector::norm(b);
    if length > 0.0 { vector::dot(a, b) / length } else { 0.0 }
}

/// Distinct texts and their vectors.
pub(crate) struct Embedded<'a> {
    places: HashMap<&'a str, usize>,
    vectors: Vec<Vec<f32>>,
}

impl<'a> Embedded<'a> {
    pub(crate) fn new(texts: impl Iterator<Item = &'a str>, side: Side, encode: &mut Encode<'_>) -> Result<Self> {
        let mut places = HashMap::new();
        let mut distinct = Vec::new();
        for text in texts {
            places.entry(text).or_insert_with(|| {
                distinct.push(text);
                distinct.len() - 1
            });
        }
        let vectors = encode(&distinct, side)?;
        ensure!(vectors.len() == distinct.len(), "{} texts gave {} vectors", distinct.len(), vectors.len());
        Ok(Embedded { places, vectors })
    }

    pub(crate) fn vector(&self, text: &str) -> &[f32] {
        &self.vectors[self.places[text]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Bank, LabMemory};

    fn memory(text: &str) -> LabMemory {
        LabMemory {
            id: text.into(),
            text: text.into(),
            caption: None,
            author: None,
            session: None,
            date: None,
            occurred_at: None,
            kind: None,
        }
    }

    /// The vector of "x y" is (x, y).
    fn numbers(text: &str) -> Vec<f32> {
        text.split(' ').map(|number| number.parse().unwrap()).collect()
    }

    #[test]
    fn each_question_ranks_its_own_bank_by_cosine_and_equal_texts_are_encoded_once() {
        let banks = [vec!["9 0", "1 1", "0 1"], vec!["1 1", "-1 0"]];
        let bank =
            |texts: &Vec<&str>| Bank { name: String::new(), memories: texts.iter().map(|t| memory(t)).collect() };
        let question = |bank: usize, gold: Vec<usize>| Question {
            id: String::new(),
            bank,
            text: "0 5".into(),
            gold,
            answer: None,
            category: None,
            date: None,
            conversation: String::new(),
        };
        let dataset = Dataset {
            name: String::new(),
            banks: banks.iter().map(bank).collect(),
            questions: vec![question(0, vec![0, 1]), question(1, vec![0])],
        };
        let mut encoded = 0;
        let mut encode = |texts: &[&str], _: Side| {
            encoded += texts.len();
            Ok(texts.iter().map(|text| numbers(text)).collect())
        };
        let cases = find(&dataset, MemoryText::Speaker, 2, &mut encode).unwrap();
        assert_eq!(encoded, 4 + 1);
        assert_eq!(cases[0].rows, [2, 1]);
        assert_eq!(cases[0].gold_candidates, [Candidate(1)]);
        assert_eq!(cases[1].rows, [0, 1]);
        assert_eq!(cases[1].rows_of(&[Candidate(1)]), [1]);
        assert_eq!(ceiling(&cases), 0.5);

        let first = cut(&cases, 1).unwrap();
        assert_eq!((&first[0].rows[..], first[0].pool.len(), first[0].gold_candidates.len()), (&[2][..], 1, 0));
        assert!(matches!(cut(&cases, 2).unwrap(), Cow::Borrowed(_)));
    }

    #[test]
    fn a_balanced_pool_has_as_many_of_each_kind() {
        let of_kind = |kind: &str| LabMemory { kind: Some(kind.into()), ..memory("x") };
        let memories = ["semantic", "semantic", "semantic", "episodic", "episodic"].map(of_kind).to_vec();
        let bank = Bank { name: String::new(), memories };
        assert_eq!(balanced(&bank, &[0.9, 0.8, 0.7, 0.1, 0.75], 4), [0, 1, 4, 3]);
        assert_eq!(balanced(&bank, &[0.9, 0.8, 0.7, 0.1, 0.75], 2), [0, 4]);
    }
}
