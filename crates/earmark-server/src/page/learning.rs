//! What was learned, and its verbs.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode};
use earmark::{GateState, LearningStatus, LearningVersion, Namespace};

use super::{
    Shown,
    ask::may,
    frame::{Fields, Frame, Place, link, minute},
    go, html,
};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Id, Params},
    keys::Access,
    problem::Problem,
};

/// Versions in the list.
const SHOWN: usize = 50;

#[derive(Template)]
#[template(path = "learning.html")]
struct LearningPage {
    frame: Frame,
    status: LearningStatus,
    versions: Vec<Line>,
    shown: usize,
    total: usize,
    can_steer: bool,
}

struct Line {
    version: i64,
    made: String,
    through: i64,
    fixed: String,
    learned: String,
    gate: &'static str,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Place>,
) -> Shown {
    let frame = Frame::of(&app, &caller, place.namespace.as_deref(), "/ui/learning").await?;
    let status = app.with(frame.namespace.clone(), Missing::Refuse, |memory| memory.learning()).await?;
    let versions: Vec<Line> = status.versions.iter().take(SHOWN).map(line).collect();
    let can_steer = may(&caller, &frame.namespace, Access::Admin);
    html(&LearningPage { shown: versions.len(), total: status.versions.len(), frame, status, versions, can_steer })
}

fn line(version: &LearningVersion) -> Line {
    let gate = version.gate.as_ref();
    let percent = |share: Option<f64>| share.map(|share| format!("{:.0} %", 100.0 * share)).unwrap_or_default();
    Line {
        version: version.version,
        made: minute(version.created_at),
        through: version.through,
        fixed: percent(gate.and_then(|gate| gate.static_agreement)),
        learned: percent(gate.and_then(|gate| gate.learned_agreement)),
        gate: gate.map_or("", |gate| match gate.state {
            GateState::Shadow => "in shadow",
            GateState::Active => "active",
            GateState::Paused => "paused",
        }),
    }
}

pub(super) async fn steer(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(verb): Id,
    fields: Fields,
) -> Shown {
    let namespace = caller.enter(fields.namespace(), Access::Admin)?;
    let version: Option<i64> = fields.number("version")?;
    let work: Box<dyn FnOnce(&Namespace) -> earmark::Result<i64> + Send> = match (verb.as_str(), version) {
        ("freeze", _) => Box::new(|memory| memory.freeze(true)),
        ("unfreeze", _) => Box::new(|memory| memory.freeze(false)),
        ("reset", _) => Box::new(Namespace::reset),
        ("train", _) => Box::new(Namespace::train),
        ("rollback", Some(version)) => Box::new(move |memory| memory.rollback(version)),
        ("rollback", None) => return Err(Problem::invalid("version", "is missing")),
        _ => return Err(Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no such verb")),
    };
    app.with_long(namespace.clone(), Missing::Refuse, work).await?;
    go(&link("/ui/learning", &namespace))
}
