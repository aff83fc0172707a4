//! The raw rows of a result folder: one JSON line for each run, and for each point of a learning curve.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result};
use earmark::Params;
use earmark::critic::Quality;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::by_type::TypeScores;
use crate::metrics::Scores;

/// What a run is of; equal keys are the same run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// Name of the data set.
    pub dataset: String,
    /// `random`, `unseen-conversations` or `time`.
    pub split: String,
    /// The model's name.
    pub encoder: String,
    /// `paper` or `default`.
    pub recipe: String,
    /// Name of the method.
    pub method: String,
    /// Seed.
    pub seed: u64,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it is of.
    #[serde(flatten)]
    pub key: RunKey,
    /// Test questions.
    pub n: usize,
    /// Questions learned from before the test.
    pub n_train: usize,
    /// Means over the test questions, in 0..1.
    #[serde(flatten)]
    pub scores: Scores,
    /// Critic calls at test, mean over the test questions.
    pub critic_calls_per_query: f64,
    /// Recall@5 of a perfect order of the candidates, mean over the test questions.
    pub pool_ceiling: f64,
    /// What text of a memory was encoded.
    pub memory_text: String,
    /// All parameters.
    pub params: Params,
    /// How often the simulated critic errs; what was measured, where it is a language model.
    #[serde(default)]
    pub critic: CriticQuality,
    /// Of the vectors; 0 where the row is older than this field.
    #[serde(default)]
    pub dimension: usize,
    /// Recall@5 of each test question in order, `1` or `0`.
    pub recall_by_question: String,
    /// The same for each kind of question; empty where the source has no kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_type: Vec<TypeScores>,
}

/// [`Quality`] as a row keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CriticQuality {
    /// In 0..1.
    pub precision: f32,
    /// In 0..1.
    pub recall: f32,
    /// A fixed chance of a wrong `useful`, where one was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub false_positive_rate: Option<f32>,
}

impl From<Quality> for CriticQuality {
    fn from(Quality { precision, recall, false_positive_rate }: Quality) -> Self {
        CriticQuality { precision, recall, false_positive_rate }
    }
}

impl Default for CriticQuality {
    fn default() -> Self {
        Quality::paper().into()
    }
}

/// One point of a learning curve: the adapter alone after `n_train` questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// What it is of.
    #[serde(flatten)]
    pub key: RunKey,
    /// Test questions.
    pub n: usize,
    /// Questions learned from so far.
    pub n_train: usize,
    /// Means over the test questions, in 0..1.
    #[serde(flatten)]
    pub scores: Scores,
}

/// `1` for each question with all gold memories found, else `0`.
pub fn recall_digits(scores: &[Scores]) -> String {
    scores.iter().map(|score| if score.recall_at_5 > 0.5 { '1' } else { '0' }).collect()
}

/// The other way around.
pub fn digits_to_values(digits: &str) -> Vec<f64> {
    digits.chars().map(|digit| f64::from(digit == '1')).collect()
}

/// Reads a file of rows; a missing file is empty, and so is a last line that a crash cut off.
///
/// # Errors
/// If any other line cannot be read; the message names it.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let lines = BufReader::new(file).lines().collect::<std::io::Result<Vec<String>>>()?;
    let mut rows = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(row) => rows.push(row),
            Err(_) if index + 1 == lines.len() => break,
            Err(error) => return Err(error).with_context(|| format!("{} line {}", path.display(), index + 1)),
        }
    }
    Ok(rows)
}

/// Cuts off a last line that a crash left half-written, so that rows can be added behind the others.
///
/// # Errors
/// If the file cannot be read or written.
pub fn mend(path: &Path) -> Result<()> {
    let mended = std::fs::read(path).and_then(|bytes| {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole == bytes.len() { Ok(()) } else { OpenOptions::new().write(true).open(path)?.set_len(whole as u64) }
    });
    match mended {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context(path.display().to_string()),
        _ => Ok(()),
    }
}

/// Adds rows at the end.
///
/// # Errors
/// If the file cannot be written.
pub fn append<T: Serialize>(path: &Path, rows: &[T]) -> Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(lines(rows)?.as_bytes())).with_context(|| path.display().to_string())
}

/// Replaces the file in one move.
///
/// # Errors
/// If the file cannot be written.
pub fn replace<T: Serialize>(path: &Path, rows: &[T]) -> Result<()> {
    let partial = path.with_extension("partial");
    let written = lines(rows).and_then(|text| std::fs::write(&partial, text));
    written.and_then(|()| std::fs::rename(&partial, path)).with_context(|| path.display().to_string())
}

fn lines<T: Serialize>(rows: &[T]) -> std::io::Result<String> {
    let mut text = String::new();
    for row in rows {
        text.push_str(&serde_json::to_string(row)?);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_promised_keys_and_survive_a_torn_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let key = RunKey {
            dataset: "locomo".into(),
            split: "random".into(),
            encoder: "e".into(),
            recipe: "paper".into(),
            method: "ear".into(),
            seed: 1,
        };
        let scores = [Scores::of(&[1], &[1]), Scores::of(&[1], &[2])];
        let row = Row {
            key,
            n: 2,
            n_train: 3,
            scores: Scores::mean(&scores),
            critic_calls_per_query: 0.0,
            pool_ceiling: 0.5,
            memory_text: "speaker".into(),
            params: Params::paper(),
            critic: Quality::paper().into(),
            dimension: 384,
            recall_by_question: recall_digits(&scores),
            by_type: Vec::new(),
        };
        append(&path, &[row.clone(), row.clone()]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for key in ["dataset", "split", "encoder", "recipe", "method", "seed", "n", "recall_at_5", "hit_at_5"] {
            assert!(text.contains(&format!("\"{key}\":")), "{key} is missing in {text}");
        }
        for key in ["recall_fraction_at_5", "ndcg_at_5", "critic_calls_per_query"] {
            assert!(text.contains(&format!("\"{key}\":")), "{key} is missing in {text}");
        }
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert_eq!(read::<Row>(&path).unwrap(), std::slice::from_ref(&row));
        mend(&path).unwrap();
        append(&path, std::slice::from_ref(&row)).unwrap();
        assert_eq!(read::<Row>(&path).unwrap(), [row.clone(), row.clone()]);
        std::fs::write(&path, format!("oops\n{text}")).unwrap();
        assert!(read::<Row>(&path).is_err());
        replace(&path, std::slice::from_ref(&row)).unwrap();
        assert_eq!(digits_to_values(&read::<Row>(&path).unwrap()[0].recall_by_question), [1.0, 0.0]);
    }
}
