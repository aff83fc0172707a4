//! The first page: how much there is, who closes recalls, and whether it is getting better.

use std::collections::BTreeMap;

use askama::Template;
use axum::{Extension, Json, extract::State};
use earmark::{LearningStatus, LearningVersion, Overview, PastRecall, store::RecallState};
use serde::Serialize;

use super::{
    Shown,
    frame::{Frame, Place, door},
    html,
};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::Params,
    keys::Access,
    problem::Problem,
};

/// Closed recalls that are looked at.
const LOOKED_AT: usize = 300;
/// Recalls that one point of the hit curve is the mean of.
const WINDOW: usize = 20;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    memories: u64,
    status: LearningStatus,
    closed_share: String,
    ranked_by: String,
    ranked_what: &'static str,
    has_gate_curve: bool,
    has_hits_curve: bool,
    doors: Vec<Door>,
    looked_at: usize,
    encoder: String,
    disk: String,
}

/// Who closed recalls.
struct Door {
    name: String,
    recalls: usize,
    useful: u64,
    not_useful: u64,
}

/// Curves over closed recalls, column by column.
#[derive(Debug, Default, Serialize)]
pub(super) struct Curves {
    /// Closed recalls; agreement of the static and of the learned order; bounds of the learned one.
    gate: [Vec<Option<f64>>; 5],
    /// Closed recalls; share with something useful in the first slate.
    hits: [Vec<Option<f64>>; 2],
}

type Looked = (Overview, LearningStatus, Vec<PastRecall>);

async fn look(app: &App, namespace: String) -> Result<Looked, Problem> {
    let work = |memory: &earmark::Namespace| {
        Ok((memory.overview()?, memory.learning()?, memory.recalls(Some(RecallState::Closed), LOOKED_AT)?))
    };
    app.with(namespace, Missing::Refuse, work).await
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Place>,
) -> Shown {
    let frame = Frame::of(&app, &caller, place.namespace.as_deref(), "/").await?;
    let (overview, status, recalls) = look(&app, frame.namespace.clone()).await?;
    let share = 100.0 * status.experiences as f64 / status.recalls.max(1) as f64;
    let curves = curves(&status, &recalls);
    html(&OverviewPage {
        frame,
        memories: overview.memories,
        closed_share: if status.recalls == 0 { "–".to_owned() } else { format!("{share:.0} %") },
        ranked_by: if status.version == 0 { "static".to_owned() } else { status.version.to_string() },
        ranked_what: match (status.version, status.frozen) {
            (0, false) => "order in use",
            (0, true) => "order in use, frozen",
            (_, false) => "learned version in use",
            (_, true) => "learned version in use, frozen",
        },
        has_gate_curve: curves.gate[0].len() > 1,
        has_hits_curve: curves.hits[0].len() > 1,
        doors: doors(&status, &recalls),
        looked_at: recalls.len(),
        status,
        encoder: overview.encoder.unwrap_or_else(|| "not chosen yet".to_owned()),
        disk: format!("{:.1} MB", overview.disk_bytes as f64 / 1e6),
    })
}

pub(super) async fn curve(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Place>,
) -> Result<Json<Curves>, Problem> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    let (_, status, recalls) = look(&app, namespace).await?;
    Ok(Json(curves(&status, &recalls)))
}

fn curves(status: &LearningStatus, recalls: &[PastRecall]) -> Curves {
    let mut curves = Curves::default();
    for version in status.versions.iter().rev() {
        let Some(point) = gate_point(version) else { continue };
        curves.gate.iter_mut().zip(point).for_each(|(column, value)| column.push(value));
    }
    let hits: Vec<bool> =
        recalls.iter().rev().map(|r| r.rounds.first().is_some_and(|round| !round.useful.is_empty())).collect();
    let before = (status.experiences as usize).saturating_sub(hits.len());
    for end in 1..=hits.len() {
        let window = &hits[end.saturating_sub(WINDOW)..end];
        let share = window.iter().filter(|hit| **hit).count() as f64 / window.len() as f64;
        curves.hits[0].push(Some((before + end) as f64));
        curves.hits[1].push(Some(share));
    }
    curves
}

/// Closed recalls, static, learned, and the bounds of the learned order; none where nothing was compared.
fn gate_point(version: &LearningVersion) -> Option<[Option<f64>; 5]> {
    let gate = version.gate.as_ref()?;
    let fixed = gate.static_agreement?;
    let bound = |i: usize| gate.difference.map(|difference| (fixed + difference[i]).clamp(0.0, 1.0));
    Some([Some(version.through as f64), Some(fixed), gate.learned_agreement, bound(0), bound(1)])
}

/// The source of the labels that closed a recall.
pub(super) fn closed_by(recall: &PastRecall) -> Option<&str> {
    recall.rounds.iter().rev().find_map(|round| round.sources.last()).map(String::as_str)
}

fn doors(status: &LearningStatus, recalls: &[PastRecall]) -> Vec<Door> {
    let mut counts: BTreeMap<&str, usize> = status.labels.keys().map(|source| (source.as_str(), 0)).collect();
    for source in recalls.iter().filter_map(closed_by) {
        *counts.entry(source).or_default() += 1;
    }
    let labels = |source: &str| status.labels.get(source).copied().unwrap_or_default();
    let door = |(source, recalls): (&str, usize)| {
        let labels = labels(source);
        Door { name: door(source).to_owned(), recalls, useful: labels.useful, not_useful: labels.not_useful }
    };
    counts.into_iter().map(door).collect()
}
