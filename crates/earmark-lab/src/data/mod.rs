//! Data sets for measuring, all in one in-memory form: banks of memories, and questions with their gold memories.
//!
//! The sets themselves are third-party data and not part of the project; `--data` names the folder that holds them.

mod generic;
mod locomo;
mod longmemeval;
mod read;
mod when;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use jiff::civil::DateTime;

pub use locomo::Stores;

/// Names of the sets that [`load`] knows.
pub const NAMES: [&str; 7] = ["locomo", "longmemeval", "beam-100k", "cosqa", "apibench", "tau-retail", "bfcl-memory"];

/// A data set. A question ranks the memories of its own bank only.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// One of [`NAMES`].
    pub name: String,
    /// The memory banks.
    pub banks: Vec<Bank>,
    /// All questions, those without gold memories included.
    pub questions: Vec<Question>,
}

/// The memories that one or more questions search.
#[derive(Debug, Clone, PartialEq)]
pub struct Bank {
    /// For example the conversation's id.
    pub name: String,
    /// In the order of the source (for conversations: of time).
    pub memories: Vec<LabMemory>,
}

/// One memory of a bank.
#[derive(Debug, Clone, PartialEq)]
pub struct LabMemory {
    /// Unique within its bank.
    pub id: String,
    /// The text alone, without author, date or caption.
    pub text: Arc<str>,
    /// What a picture that came with it shows.
    pub caption: Option<String>,
    /// Speaker or role.
    pub author: Option<String>,
    /// Session within the bank.
    pub session: Option<String>,
    /// When it was said, as the source writes it.
    pub date: Option<String>,
    /// When it was said; `None` where the source has no date or one that cannot be read.
    pub occurred_at: Option<DateTime>,
    /// `episodic`, `semantic`, or the source's own word.
    pub kind: Option<String>,
}

/// One question and the memories that answer it.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Unique within the set.
    pub id: String,
    /// Index into [`Dataset::banks`].
    pub bank: usize,
    /// What is asked.
    pub text: String,
    /// Indices into the bank's memories, ascending and distinct; empty when nothing answers it.
    pub gold: Vec<usize>,
    /// The right answer, where the source has one.
    pub answer: Option<String>,
    /// The source's kind of question.
    pub category: Option<String>,
    /// When it is asked.
    pub date: Option<DateTime>,
    /// Questions that share this share what can be learned of a conversation (see the split `unseen-conversations`).
    pub conversation: String,
}

impl Dataset {
    /// How many memories all banks hold together.
    pub fn memory_count(&self) -> usize {
        self.banks.iter().map(|bank| bank.memories.len()).sum()
    }

    /// Drops the questions that no memory answers, because an empty gold set is not "all found";
    /// returns how many were dropped.
    pub fn drop_without_gold(&mut self) -> usize {
        let before = self.questions.len();
        self.questions.retain(|question| !question.gold.is_empty());
        before - self.questions.len()
    }
}

/// Reads the set `name` from `folder/name/`, xz-packed or plain.
///
/// # Errors
/// If the name is unknown, a file is missing, or a line cannot be read; the message names file and line.
pub fn load(folder: &Path, name: &str) -> Result<Dataset> {
    let set = folder.join(name);
    match name {
        "locomo" => locomo::load(&set, Stores::Dialogues),
        "longmemeval" => longmemeval::load(&set),
        _ if NAMES.contains(&name) => generic::load(&set, name),
        _ => bail!("no data set `{name}`; known are {}", NAMES.join(", ")),
    }
}

/// LoCoMo with the memory stores of choice.
///
/// # Errors
/// As [`load`].
pub fn load_locomo(folder: &Path, stores: Stores) -> Result<Dataset> {
    locomo::load(&folder.join("locomo"), stores)
}
