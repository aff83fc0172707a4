//! Recalls that were left open are put before a judge.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;

use super::{Judge, Namespace, now};
use crate::{
    error::{Error, Result},
    recall::Label,
    record::{FeedbackReport, Memory},
    store::{RecallState, Row, StoredRecall},
};

impl Namespace {
    /// Ids of up to `limit` open recalls that are at least `age` old, oldest first, beginning behind the recall
    /// `after`.
    ///
    /// # Errors
    /// Storage errors.
    pub fn left_open(&self, age: Duration, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp::from_microsecond(now().as_microsecond().saturating_sub(age)).unwrap_or(Timestamp::MIN);
        let found = self.store.open_recalls(before, after, limit)?;
        Ok(found.into_iter().map(|recall| recall.log.id).collect())
    }

    /// Shows the last slate of an open recall to a judge and closes the recall with the labels; the report says
    /// whether there were any. A recall without memories stays open without a call.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown or expired recall, [`Error::Conflict`] for a closed one, and what the judge
    /// says. Nothing is stored then.
    pub fn judge_open(&self, recall_id: &str, judge: &mut Judge<'_>) -> Result<FeedbackReport> {
        let recall = self.open_or_closed(recall_id)?;
        if recall.state == RecallState::Closed {
            return Err(Error::Conflict { reason: format!("recall `{recall_id}` is closed already") });
        }
        let shown = self.last_slate(&recall)?;
        let texts: Vec<&Memory> = shown.iter().collect();
        let labels = if texts.is_empty() { Vec::new() } else { judge(&recall.log.query, &texts)? };
        let labelled = |wanted| {
            let pairs = shown.iter().zip(&labels).filter(move |(_, label)| **label == Some(wanted));
            pairs.map(|(memory, _)| memory.id.clone()).collect()
        };
        self.close_judged(&recall, labelled(Label::Useful), labelled(Label::NotUseful))
    }

    fn last_slate(&self, recall: &StoredRecall) -> Result<Vec<Memory>> {
        let rows: Vec<Row> = recall.rounds.last().into_iter().flat_map(|r| &r.slate).map(|entry| entry.row).collect();
        let mut found: HashMap<Row, Memory> = self.store.memories(&rows)?.into_iter().collect();
        Ok(rows.iter().filter_map(|row| found.remove(row)).collect())
    }
}
