//! Candidates in the order of a reranker, and a file of the scores that it gave (Table 10).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use earmark::recall::{Candidate, Pool, top_k};
use serde::{Deserialize, Serialize};

use crate::candidates::{Case, cosine};
use crate::data::Dataset;
use crate::rows;
use crate::text::MemoryText;

/// Scores the candidates of a question: one number a text, higher for better.
pub type Score<'a> = dyn Fn(&str, &[&str]) -> Result<Vec<f32>> + 'a;

/// The first `k` candidates of each question in the order of `score`. Cases are those of the set's questions, in
/// order, and may have more than `k` candidates.
///
/// The order becomes side information of the pool: cosine and side information of the candidate in place `i` add up
/// to the `i`-th best cosine of the `k`. So an adapter of zeros ranks as the reranker, on the scale of cosines, and
/// what an adapter learns moves candidates from there.
///
/// # Errors
/// Those of `score`, or if it gives another number of scores or one that is not finite.
pub fn rerank(dataset: &Dataset, text: MemoryText, cases: &[Case], k: usize, score: &Score<'_>) -> Result<Vec<Case>> {
    ensure!(cases.len() == dataset.questions.len(), "there are not as many cases as questions");
    let one = |(question, case): (&crate::data::Question, &Case)| {
        let memories = &dataset.banks[question.bank].memories;
        let texts: Vec<String> = case.rows.iter().map(|row| text.of(&memories[*row])).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let scores = score(&question.text, &texts)?;
        let finite = scores.len() == texts.len() && scores.iter().all(|score| score.is_finite());
        ensure!(finite, "question {}: {} texts gave the scores {scores:?}", question.id, texts.len());
        reorder(case, &top_k(&scores, k))
    };
    dataset.questions.iter().zip(cases).map(one).collect()
}

/// Some candidates of a question in a new order.
fn reorder(case: &Case, order: &[usize]) -> Result<Case> {
    let rows: Vec<usize> = order.iter().map(|place| case.rows[*place]).collect();
    let memory = |place: &usize| case.pool.memories().row(*place).to_vec();
    let memories: Vec<Vec<f32>> = order.iter().map(memory).collect();
    let query = case.pool.query();
    let cosines: Vec<f32> = memories.iter().map(|memory| cosine(query, memory)).collect();
    let side = top_k(&cosines, cosines.len()).iter().zip(&cosines).map(|(best, own)| cosines[*best] - own).collect();
    let is_gold = |place: &usize| case.gold.contains(&rows[*place]);
    Ok(Case {
        pool: Arc::new(Pool::from_rows(query, &memories)?.with_side(side)?),
        gold_candidates: (0..rows.len()).filter(is_gold).map(Candidate).collect(),
        rows,
        ..case.clone()
    })
}

/// Scores that were given before, in a file that grows with every question.
pub struct Scores {
    path: PathBuf,
    known: HashMap<String, f32>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    pair: String,
    score: f32,
}

impl Scores {
    /// Those of one reranker in a folder.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(cache: &Path, reranker: &str) -> Result<Self> {
        std::fs::create_dir_all(cache).with_context(|| format!("{} cannot be created", cache.display()))?;
        let path = cache.join(format!("scores-{reranker}.jsonl"));
        rows::mend(&path)?;
        let lines: Vec<Line> = rows::read(&path)?;
        Ok(Scores { path, known: lines.into_iter().map(|line| (line.pair, line.score)).collect() })
    }

    /// The scores of `texts`, in order; `score` is asked for those that are not known, which then are kept.
    ///
    /// # Errors
    /// Those of `score`, or if the file cannot be written.
    pub fn of(&mut self, query: &str, texts: &[&str], score: &Score<'_>) -> Result<Vec<f32>> {
        let pairs: Vec<String> = texts.iter().map(|text| pair(query, text)).collect();
        let new: Vec<usize> = (0..texts.len()).filter(|place| !self.known.contains_key(&pairs[*place])).collect();
        if !new.is_empty() {
            let asked: Vec<&str> = new.iter().map(|place| texts[*place]).collect();
            let scores = score(query, &asked)?;
            ensure!(scores.len() == new.len(), "{} texts gave {} scores", new.len(), scores.len());
            let lines = new.iter().zip(scores).map(|(place, score)| Line { pair: pairs[*place].clone(), score });
            let lines: Vec<Line> = lines.collect();
            rows::append(&self.path, &lines)?;
            self.known.extend(lines.into_iter().map(|line| (line.pair, line.score)));
        }
        Ok(pairs.iter().map(|pair| self.known[pair]).collect())
    }
}

/// Names a pair in the file.
fn pair(query: &str, text: &str) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(&(query.len() as u64).to_le_bytes());
    hash.update(query.as_bytes());
    hash.update(text.as_bytes());
    hash.finalize().to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn case() -> Case {
        let memories = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]];
        Case {
            pool: Arc::new(Pool::from_rows(&[1.0, 0.0], &memories).unwrap()),
            rows: vec![7, 4, 9],
            gold_candidates: vec![Candidate(1)],
            gold: vec![4],
            category: None,
        }
    }

    #[test]
    fn the_best_cosines_go_to_the_rerankers_best() {
        let case = reorder(&case(), &[2, 1]).unwrap();
        assert_eq!(case.rows, [9, 4]);
        assert_eq!(case.gold_candidates, [Candidate(1)]);
        let cosines = [0.0, 0.8];
        let informed: Vec<f32> = case.pool.side().iter().zip(cosines).map(|(side, cosine)| side + cosine).collect();
        assert_eq!(informed, [0.8, 0.0]);
    }

    #[test]
    fn a_pair_is_scored_once() {
        let folder = tempfile::tempdir().unwrap();
        let asked = RefCell::new(Vec::new());
        let score = |_: &str, texts: &[&str]| {
            asked.borrow_mut().push(texts.join(" "));
            Ok(texts.iter().map(|text| text.len() as f32).collect())
        };
        let open = || Scores::open(folder.path(), "m").unwrap();
        assert_eq!(open().of("q", &["aa", "b"], &score).unwrap(), [2.0, 1.0]);
        assert_eq!(open().of("q", &["b", "ccc", "aa"], &score).unwrap(), [1.0, 3.0, 2.0]);
        assert_eq!(open().of("other", &["b"], &score).unwrap(), [1.0]);
        assert_eq!(asked.into_inner(), ["aa b", "ccc", "b"]);
        let fails = open().of("q", &["new"], &|_, _| Ok(Vec::new()));
        assert!(fails.is_err());
    }
}
