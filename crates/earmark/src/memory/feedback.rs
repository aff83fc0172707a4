//! `feedback` and `refine`: labels for what one recall showed.

use std::collections::HashSet;

use super::Namespace;
use crate::{
    critic::{Citations, citations},
    error::{Error, Result},
    record::{Feedback, FeedbackReport, Previous, Uncited},
    store::{Label, RecallState, Round, Row, StoredRecall},
};

/// Where a label came from; stored beside it.
pub(crate) mod source {
    /// Read from the citations of an answer.
    pub(crate) const ANSWER: &str = "answer";
    /// Told along with the next recall.
    pub(crate) const NEXT_RECALL: &str = "next_recall";
    /// Judged by the critic.
    pub(crate) const CRITIC: &str = "critic";
    /// Said outright.
    pub(crate) const EXPLICIT: &str = "explicit";
}

/// Labels by memory id, before they are stored.
#[derive(Debug, Default)]
struct Verdict {
    useful: Vec<String>,
    not_useful: Vec<String>,
    unknown: Vec<usize>,
    source: &'static str,
}

impl Namespace {
    /// Labels the memories that recall `recall_id` showed, closes it, and (unless told otherwise in the settings)
    /// learns from it. Giving the same feedback twice changes nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown or expired recall, [`Error::InvalidInput`] for a memory that the recall
    /// did not show, [`Error::Conflict`] if other feedback closed it already. Nothing is stored then.
    pub fn feedback(&self, recall_id: &str, feedback: &Feedback) -> Result<FeedbackReport> {
        let recall = self.open_or_closed(recall_id)?;
        let verdict = verdict(&recall.log.id, &self.shown(&recall)?, feedback)?;
        self.apply(&recall, verdict)
    }

    /// Ids of memories that a recall showed, each named by its id or by its number (`1`, `2`, ...) in the slate that
    /// was shown last; blank names are left out. `field` is for the error.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown or expired recall, [`Error::InvalidInput`] for a number without a memory.
    pub fn shown_by_name(&self, recall_id: &str, field: &str, names: &[String]) -> Result<Vec<String>> {
        let is_number = |name: &String| name.trim().parse::<usize>().is_ok();
        let shown = if names.iter().any(is_number) { self.shown_ids(recall_id)? } else { Vec::new() };
        let id = |name: &String| match name.trim().parse::<usize>() {
            Err(_) => Ok(name.trim().to_owned()),
            Ok(place) => place.checked_sub(1).and_then(|i| shown.get(i).cloned().flatten()).ok_or_else(|| {
                Error::invalid(field, format!("names place {place}, but the recall showed {} memories", shown.len()))
            }),
        };
        names.iter().filter(|name| !name.trim().is_empty()).map(id).collect()
    }

    /// The labels that feedback gives to what a recall showed; nothing is stored.
    pub(super) fn read_labels(&self, recall: &StoredRecall, feedback: &Feedback) -> Result<Vec<Label>> {
        self.labels(&verdict(&recall.log.id, &self.shown(recall)?, feedback)?)
    }

    /// Closes the recall that a later call names in passing.
    pub(super) fn close_previous(&self, previous: &Previous) -> Result<FeedbackReport> {
        let feedback =
            Feedback { useful: previous.used.clone(), answer: previous.answer.clone(), ..Default::default() };
        let recall = self.open_or_closed(&previous.recall_id)?;
        let mut verdict = verdict(&recall.log.id, &self.shown(&recall)?, &feedback)?;
        verdict.source = source::NEXT_RECALL;
        self.apply(&recall, verdict)
    }

    /// Closes a recall with a judge's labels for its last slate.
    pub(super) fn close_judged(
        &self,
        recall: &StoredRecall,
        useful: Vec<String>,
        not_useful: Vec<String>,
    ) -> Result<FeedbackReport> {
        self.apply(recall, Verdict { useful, not_useful, unknown: Vec::new(), source: source::CRITIC })
    }

    fn apply(&self, recall: &StoredRecall, verdict: Verdict) -> Result<FeedbackReport> {
        let mut report = FeedbackReport {
            recall_id: recall.log.id.clone(),
            useful: verdict.useful.clone(),
            not_useful: verdict.not_useful.clone(),
            unknown_citations: verdict.unknown.clone(),
            learning_version: self.current()?.version,
            ..Default::default()
        };
        if verdict.useful.is_empty() && verdict.not_useful.is_empty() {
            return Ok(report);
        }
        let labels = self.labels(&verdict)?;
        report.closed = true;
        if recall.state == RecallState::Closed {
            report.repeated = same_labels(recall, &labels);
            return if report.repeated { Ok(report) } else { Err(already_closed(recall)) };
        }
        let last = recall.rounds.len().saturating_sub(1);
        let placed: Vec<(usize, Label)> =
            labels.into_iter().map(|label| (round_of(recall, label.row, last), label)).collect();
        self.store.close_recall(&recall.log.id, &placed)?;
        if self.settings().learn_at_once {
            report.learning_version = self.learn()?;
        }
        Ok(report)
    }

    pub(super) fn open_or_closed(&self, recall_id: &str) -> Result<StoredRecall> {
        let recall = self.store.recall(recall_id)?.ok_or_else(|| Error::not_found("recall", recall_id))?;
        if recall.state == RecallState::Expired {
            let hint = " (it was left open for too long and expired; recall again)".to_owned();
            return Err(Error::NotFound { what: "recall", id: recall_id.to_owned(), hint });
        }
        Ok(recall)
    }

    /// Ids of the last slate in order; the `[n]` of its context. Forgotten memories leave a gap (`None`).
    pub(super) fn shown(&self, recall: &StoredRecall) -> Result<Shown> {
        let rows = |round: &Round| round.slate.iter().map(|entry| entry.row).collect::<Vec<Row>>();
        let last = recall.rounds.last().map(rows).unwrap_or_default();
        let ever: Vec<Row> = recall.rounds.iter().flat_map(rows).collect();
        Ok(Shown { last: self.ids(&last)?, ever: self.ids(&ever)?.into_iter().flatten().collect() })
    }

    fn labels(&self, verdict: &Verdict) -> Result<Vec<Label>> {
        let labelled = |ids: &[String], useful: bool| -> Result<Vec<Label>> {
            let names: Vec<&str> = ids.iter().map(String::as_str).collect();
            let rows = self.store.rows(&names)?.into_iter().flatten();
            Ok(rows.map(|row| Label { row, useful, source: verdict.source.to_owned() }).collect())
        };
        let mut labels = labelled(&verdict.useful, true)?;
        labels.extend(labelled(&verdict.not_useful, false)?);
        Ok(labels)
    }
}

/// Ids that a recall showed.
pub(super) struct Shown {
    /// The last slate, in order.
    pub(super) last: Vec<Option<String>>,
    /// Every slate of the recall.
    ever: HashSet<String>,
}

fn verdict(recall_id: &str, shown: &Shown, feedback: &Feedback) -> Result<Verdict> {
    check_shown(recall_id, shown, "useful", &feedback.useful)?;
    check_shown(recall_id, shown, "not_useful", &feedback.not_useful)?;
    if let Some(both) = feedback.useful.iter().find(|id| feedback.not_useful.contains(id)) {
        return Err(Error::invalid("not_useful", format!("names `{both}`, which `useful` names too")));
    }
    let cited = feedback.answer.as_deref().map(|answer| citations(answer, shown.last.len())).unwrap_or_default();
    let mut useful: Vec<String> = cited.used.iter().filter_map(|&n| shown.last[n - 1].clone()).collect();
    useful.retain(|id| !feedback.not_useful.contains(id));
    useful.extend(feedback.useful.iter().filter(|id| !useful.contains(id)).cloned().collect::<Vec<_>>());
    let silent = silence_is_negative(feedback, &cited);
    let mut not_useful = feedback.not_useful.clone();
    if silent {
        let rest = shown.last.iter().flatten().filter(|id| !useful.contains(id) && !not_useful.contains(id));
        not_useful.extend(rest.cloned().collect::<Vec<_>>());
    }
    let source = if feedback.answer.is_some() { source::ANSWER } else { source::EXPLICIT };
    Ok(Verdict { useful, not_useful, unknown: cited.unknown, source })
}

/// Silence counts against a memory where the answer's citations are complete, or where the caller says so.
fn silence_is_negative(feedback: &Feedback, cited: &Citations) -> bool {
    let said_something = !feedback.useful.is_empty() || !feedback.not_useful.is_empty();
    match feedback.uncited {
        Some(Uncited::Ignore) => false,
        Some(Uncited::Negative) => said_something || cited.is_complete(),
        None => feedback.answer.is_some() && cited.is_complete(),
    }
}

fn check_shown(recall_id: &str, shown: &Shown, field: &str, ids: &[String]) -> Result<()> {
    match ids.iter().find(|id| !shown.ever.contains(*id)) {
        None => Ok(()),
        Some(id) => Err(Error::invalid(field, format!("names `{id}`, which recall `{recall_id}` did not show"))),
    }
}

/// The latest round that showed a memory.
fn round_of(recall: &StoredRecall, row: Row, last: usize) -> usize {
    let shows = |round: &Round| round.slate.iter().any(|entry| entry.row == row);
    recall.rounds.iter().rposition(shows).unwrap_or(last)
}

fn same_labels(recall: &StoredRecall, labels: &[Label]) -> bool {
    let key = |l: &Label| (l.row, l.useful);
    let old: HashSet<_> = recall.rounds.iter().flat_map(|r| r.labels.iter().map(key)).collect();
    let new: HashSet<_> = labels.iter().map(key).collect();
    new.is_subset(&old)
}

fn already_closed(recall: &StoredRecall) -> Error {
    let when = recall.closed_at.map(|at| at.to_string()).unwrap_or_default();
    let reason = format!("recall `{}` was closed by other feedback at {when}; a recall is closed once", recall.log.id);
    Error::Conflict { reason }
}
