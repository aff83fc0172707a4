//! From a question to its candidates and everything known about them.

use std::{collections::HashSet, sync::Arc};

use super::{
    Namespace,
    learning::{Learned, features_of},
};
use crate::{
    error::Result,
    learn::logit,
    params::{Params, Recipe},
    recall::{Evidence, Pool, STATIC_WEIGHTS, features, top_k},
    record::{Memory, Scope},
    store::{Hit, Row, StoredRecall},
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
        let (dense, lexical) = self.search_arms(question, query, scope, wanted)?;
        let rows = union(&dense, &lexical);
        let gathered = self.look_up(question, query, rows, learned)?;
        Ok(best(gathered, params, wanted))
    }

    /// Both arms at once, on two threads.
    fn search_arms(&self, question: &str, query: &[f32], scope: &Scope, k: usize) -> Result<(Vec<Hit>, Vec<Hit>)> {
        if self.settings().params.recipe == Recipe::Paper {
            return Ok((self.store.search(query, k, scope)?, Vec::new()));
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
        let mut gathered = self.look_up(&recall.log.query, &recall.log.query_vector, rows, self.current()?.as_ref())?;
        for (row, features) in gathered.rows.iter().zip(&mut gathered.features) {
            let logged = features_of(recall, *row);
            if logged.len() == features.len() {
                features.copy_from_slice(logged);
            }
        }
        Ok(gathered)
    }

    fn look_up(&self, question: &str, query: &[f32], rows: Vec<Row>, learned: &Learned) -> Result<Gathered> {
        let (rows, memories): (Vec<Row>, Vec<Memory>) = self.store.memories(&rows)?.into_iter().unzip();
        let vectors = self.store.vectors(&rows)?;
        let neighbours = self.store.neighbours(&rows)?;
        let around: Vec<Row> = neighbours.iter().flatten().flatten().copied().collect();
        let around_vectors = self.store.vectors(&around)?;
        let around_words = self.store.word_scores(question, &around)?;
        let words = self.store.word_scores(question, &rows)?;
        let keys: Vec<i64> = rows.iter().map(|row| row.0).collect();
        let past = learned.past.support(query, &keys);
        let mut next_around = (0..around.len()).peekable();
        let evidence: Vec<Evidence> = (0..rows.len())
            .map(|i| {
                let mine: Vec<usize> = neighbours[i].iter().flatten().filter_map(|_| next_around.next()).collect();
                let neighbour_dense = mine.iter().map(|&n| dot(query, &around_vectors[n])).reduce(f32::max);
                Evidence {
                    dense: dot(query, &vectors[i]),
                    lexical: words[i],
                    neighbour_dense,
                    neighbour_lexical: mine.iter().map(|&n| around_words[n]).fold(0.0, f32::max),
                    past: past[i],
                    author: author_match(question, &memories[i], &memories),
                    length: memories[i].content.chars().count(),
                    is_question: memories[i].content.trim_end().ends_with('?'),
                }
            })
            .collect();
        let features = features(&evidence);
        let pool = Arc::new(Pool::from_rows(query, &vectors)?);
        Ok(Gathered { rows, memories, pool, evidence, features })
    }
}

/// 1 if the question names the memory's author, -1 if it names another author among the candidates, else 0.
fn author_match(question: &str, memory: &Memory, all: &[Memory]) -> f32 {
    let question = question.to_lowercase();
    let named = |author: &str| {
        let mut words = question.split(|c: char| !c.is_alphanumeric());
        let first = author.to_lowercase();
        let first = first.split_whitespace().next().unwrap_or("").to_owned();
        !first.is_empty() && words.any(|word| word == first)
    };
    match &memory.author {
        Some(author) if named(author) => 1.0,
        _ if all.iter().filter_map(|m| m.author.as_deref()).any(named) => -1.0,
        _ => 0.0,
    }
}

/// Rows of both arms, each once, the arms taking turns.
fn union(dense: &[Hit], lexical: &[Hit]) -> Vec<Row> {
    let longest = dense.len().max(lexical.len());
    let taking_turns = (0..longest).flat_map(|i| [dense.get(i), lexical.get(i)]).flatten();
    let mut seen = HashSet::new();
    taking_turns.map(|hit| hit.row).filter(|row| seen.insert(*row)).collect()
}

/// The best `wanted` candidates by the static ranking, best first.
fn best(gathered: Gathered, params: &Params, wanted: usize) -> Gathered {
    let scores = match params.recipe {
        Recipe::Paper => gathered.dense(),
        Recipe::Default => gathered.logits(&STATIC_WEIGHTS),
    };
    let order = top_k(&scores, wanted);
    let memories = gathered.pool.memories();
    let rows: Vec<&[f32]> = order.iter().filter_map(|&i| memories.row(i).to_slice()).collect();
    let pool = Pool::from_rows(gathered.pool.query(), &rows).map_or(gathered.pool.clone(), Arc::new);
    let pick = |i: &usize| *i;
    Gathered {
        rows: order.iter().map(|&i| gathered.rows[i]).collect(),
        memories: order.iter().map(|&i| gathered.memories[i].clone()).collect(),
        evidence: order.iter().map(|&i| gathered.evidence[i].clone()).collect(),
        features: order.iter().map(pick).map(|i| gathered.features[i].clone()).collect(),
        pool,
    }
}
