//! `earmark feedback`.

use earmark::{Error, Feedback, FeedbackReport, Namespace, Result, Uncited};

use super::{existing, print_json, print_text, read_text};
use crate::{
    args::{self, Labels, Silence},
    settings::Settings,
};

pub(crate) fn run(settings: &Settings, args: args::Feedback) -> Result<()> {
    let namespace = existing(settings)?;
    let mut feedback = labels(&namespace, &args.recall_id, &args.labels)?;
    feedback.answer = match args.answer.as_deref() {
        Some("-") => Some(read_text("answer")?),
        answer => answer.map(str::to_owned),
    };
    feedback.uncited = args.uncited.map(|silence| match silence {
        Silence::Negative => Uncited::Negative,
        Silence::Ignore => Uncited::Ignore,
    });
    if feedback == Feedback::default() {
        return Err(Error::invalid("feedback", "is empty: give --useful, --not-useful or --answer"));
    }
    let report = namespace.feedback(&args.recall_id, &feedback)?;
    if settings.json { print_json(&report) } else { print(&report) }
}

fn print(report: &FeedbackReport) -> Result<()> {
    if !report.unknown_citations.is_empty() {
        print_text(&format!("cited but not shown: {:?}", report.unknown_citations))?;
    }
    if !report.closed {
        return print_text("no label could be read; the recall stays open");
    }
    let state = if report.repeated { "known already" } else { "closed" };
    let (useful, not_useful) = (report.useful.len(), report.not_useful.len());
    print_text(&format!(
        "{state}: {useful} useful, {not_useful} not useful; learned version {}",
        report.learning_version
    ))
}

/// Reads labels; a place number (1, 2, ...) stands for the memory shown there last.
pub(crate) fn labels(namespace: &Namespace, recall_id: &str, labels: &Labels) -> Result<Feedback> {
    namespace.shown_ids(recall_id)?;
    Ok(Feedback {
        useful: namespace.shown_by_name(recall_id, "useful", &labels.useful)?,
        not_useful: namespace.shown_by_name(recall_id, "not_useful", &labels.not_useful)?,
        ..Default::default()
    })
}
