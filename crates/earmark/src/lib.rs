//! Earmark is a long-term memory for LLM agents whose retrieval learns from feedback.
//!
//! [`Earmark`] is a data folder, [`Namespace`] one isolated memory in it: `remember` texts, `recall` what answers a
//! question, and hand in `feedback`, for example the answer with its `[n]` citations. A closed recall is learned from,
//! and the next question is answered better.
//!
//! ```no_run
//! use std::sync::Arc;
//! use earmark::{Earmark, Feedback, NewMemory, RecallRequest, Settings, encode::{LocalOptions, open_local}};
//!
//! let encoder = || Ok(Arc::from(open_local("all-MiniLM-L6-v2", &LocalOptions::default())?));
//! let memory = Earmark::open("memory", Settings::default(), encoder)?.namespace("default")?;
//! memory.remember(&[NewMemory::new("The spare key hangs behind the boiler.")])?;
//! let recall = memory.recall(&RecallRequest::new("where is the spare key?"))?;
//! let answer = Some("It hangs behind the boiler [1].".to_owned());
//! memory.feedback(&recall.recall_id, &Feedback { answer, ..Default::default() })?;
//! # Ok::<(), earmark::Error>(())
//! ```
//!
//! In reading order: `memory` (the façade), [`recall`] (a question becomes a slate), [`learn`] (a closed recall becomes
//! a better ranking), [`critic`] (who labels), `chat` (a language model), [`store`], [`encode`], and the plain parts
//! [`lexical`], [`filter`], [`vector`], [`random`].

#[cfg(feature = "remote")]
pub mod chat;
pub mod critic;
pub mod encode;
mod error;
pub mod filter;
#[cfg(feature = "remote")]
mod http;
pub mod learn;
pub mod lexical;
mod memory;
mod params;
mod product;
pub mod random;
pub mod recall;
mod record;
pub mod store;
mod threads;
mod time;
pub mod vector;

pub use error::{Error, ErrorKind, Result};
pub use filter::Filter;
pub use memory::{
    Change, Earmark, ExplainedCandidate, ExplainedRound, Explanation, Forget, GateReport, GateState, Imported, Judge,
    LabelCounts, LearningStatus, LearningVersion, MAX_CONTENT_BYTES, MAX_CRITIC_CALLS, MAX_ITEMS, MAX_QUERY_BYTES,
    MAX_TOP_K, Namespace, Neighbour, Overview, PastRecall, ReembedReport, Refused, Settings, messages,
};
pub use params::{
    FinalSlate, Initialisation, LogProbability, Optimizer, Params, Probability, Recipe, ReplaySampling,
    ReplayUnobserved, Similarity, TrainingSlate,
};
pub use record::{
    Explore, Feedback, FeedbackReport, Memory, Metadata, NewMemory, Previous, Recall, RecallRequest, Recalled,
    Remembered, Scope, Scores, Uncited,
};
pub use time::parse_instant;

/// The README's program compiles.
#[cfg(all(doctest, feature = "local"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
