//! Who says which memories of a slate were useful.

mod citations;
#[cfg(feature = "remote")]
mod llm;
mod simulated;

pub use citations::{Citations, citations, without_citations, without_thinking};
#[cfg(feature = "remote")]
pub use llm::{LlmCritic, citation_labels, citation_prompt};
pub use simulated::{Quality, Simulated, false_positive_rate};

#[cfg(feature = "remote")]
pub use crate::chat::LlmOptions;
use crate::error::Result;
use crate::recall::{Candidate, Label};

/// Judges slates of one query. Whoever implements it knows the query and what stands behind each candidate.
pub trait Critic {
    /// One entry for each place of `slate`, in its order; `None` where the critic does not say.
    ///
    /// # Errors
    /// If the judgement cannot be had, for example because an endpoint does not answer; then the round did not happen.
    fn judge(&mut self, slate: &[Candidate]) -> Result<Vec<Option<Label>>>;
}
