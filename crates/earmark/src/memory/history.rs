//! The log of recalls, for people to look at.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ExplainedRound, Namespace};
use crate::{
    error::{Error, Result},
    store::{RecallState, StoredRecall},
};

/// A recall of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PastRecall {
    /// Its id.
    pub recall_id: String,
    /// What was asked; empty once it expired.
    pub query: String,
    /// Whether it still takes feedback.
    pub state: RecallState,
    /// Version that ranked it; 0 is the static ranking.
    pub learning_version: i64,
    /// Recipe that ranked it.
    pub recipe: String,
    /// When it was asked.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it was closed or expired.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub closed_at: Option<Timestamp>,
    /// Slate after slate with its labels; forgotten memories are left out.
    pub rounds: Vec<ExplainedRound>,
}

impl Namespace {
    /// The newest recalls, newest first, at most `limit`; of one state if `state` says so.
    ///
    /// # Errors
    /// Storage errors.
    pub fn recalls(&self, state: Option<RecallState>, limit: usize) -> Result<Vec<PastRecall>> {
        self.store.recalls(state, limit)?.into_iter().map(|recall| self.past_recall(recall)).collect()
    }

    /// One recall of the log, whatever its state.
    ///
    /// # Errors
    /// [`Error::NotFound`]; storage errors.
    pub fn logged(&self, recall_id: &str) -> Result<PastRecall> {
        let recall = self.store.recall(recall_id)?.ok_or_else(|| Error::not_found("recall", recall_id))?;
        self.past_recall(recall)
    }

    fn past_recall(&self, recall: StoredRecall) -> Result<PastRecall> {
        let rounds = self.explained_rounds(&recall)?;
        Ok(PastRecall {
            recall_id: recall.log.id,
            query: recall.log.query,
            state: recall.state,
            learning_version: recall.log.learning_version,
            recipe: recall.log.recipe,
            created_at: recall.log.created_at,
            closed_at: recall.closed_at,
            rounds,
        })
    }
}
