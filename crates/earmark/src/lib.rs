//! Earmark is a long-term memory for LLM agents whose retrieval learns from feedback.

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
mod time;
pub mod vector;

pub use error::{Error, ErrorKind, Result};
pub use filter::Filter;
pub use memory::{
    Earmark, ExplainedCandidate, ExplainedRound, Explanation, Forget, Imported, Judge, LabelCounts, LearningStatus,
    LearningVersion, MAX_CONTENT_BYTES, MAX_ITEMS, MAX_QUERY_BYTES, MAX_TOP_K, Namespace, Neighbour, Overview,
    ReembedReport, Refused, Settings, messages,
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
