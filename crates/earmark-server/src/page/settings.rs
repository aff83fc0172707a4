//! Keys, critic, and how to connect an agent.

use std::sync::Arc;

use askama::Template;
use axum::{Extension, extract::State};

use super::{
    Shown,
    frame::{Fields, Frame, Place, link, minute},
    go, html,
};
use crate::{
    access::{Caller, word},
    app::{App, Missing},
    extract::{Id, Params},
    keys::{Access, Key},
    problem::Problem,
};

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    frame: Frame,
    facts: Vec<(&'static str, String)>,
    may_see_keys: bool,
    needs_key: bool,
    keys: Vec<Line>,
    critic: Vec<(&'static str, String)>,
    example: String,
}

struct Line {
    id: String,
    name: String,
    namespaces: String,
    access: &'static str,
    made: String,
}

/// Whether the caller looks after the whole server.
fn is_operator(caller: &Caller) -> bool {
    match caller {
        Caller::Local => true,
        Caller::Holder(key) => key.access == Access::Admin && key.namespaces.iter().any(|name| name == "*"),
    }
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Place>,
) -> Shown {
    let frame = Frame::of(&app, &caller, place.namespace.as_deref(), "/ui/settings").await?;
    let may_see_keys = is_operator(&caller);
    let overview = app.with(frame.namespace.clone(), Missing::Refuse, |memory| memory.overview()).await?;
    let keys = if may_see_keys { app.keys().list()? } else { Arc::default() };
    let mut facts = vec![
        ("Version", env!("CARGO_PKG_VERSION").to_owned()),
        ("Encoder", overview.encoder.unwrap_or_else(|| "chosen by the first memory".to_owned())),
    ];
    if may_see_keys {
        facts.push(("Data folder", app.earmark().path().display().to_string()));
    }
    html(&SettingsPage {
        facts,
        may_see_keys,
        needs_key: app.config().needs_key(),
        keys: keys.iter().map(|key| line(key)).collect(),
        critic: critic(&app, may_see_keys),
        example: frame.namespace.clone(),
        frame,
    })
}

fn line(key: &Key) -> Line {
    Line {
        id: key.id.clone(),
        name: key.name.clone(),
        namespaces: key.namespaces.join(", "),
        access: word(key.access),
        made: minute(key.created_at),
    }
}

/// How the critic is set; its address only for the operator.
fn critic(app: &App, is_operator: bool) -> Vec<(&'static str, String)> {
    let (Some(config), Some(critic)) = (&app.config().critic, app.critic()) else { return Vec::new() };
    let (calls, failures) = critic.counts();
    let closes = match config.namespaces.as_slice() {
        [] => "no recall by itself".to_owned(),
        names => {
            let minutes = config.close_after.as_secs_f64() / 60.0;
            let names = if is_operator { names.join(", ") } else { "chosen namespaces".to_owned() };
            format!("recalls left open for {minutes:.0} minutes in {names}, {} a minute", config.calls_a_minute)
        }
    };
    let mut facts = vec![("Model", critic.model().to_owned())];
    if is_operator {
        facts.push(("Address", config.options.url.clone()));
    }
    facts.extend([("Closes", closes), ("Since the start", format!("{calls} calls, {failures} without a verdict"))]);
    facts
}

pub(super) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    fields: Fields,
) -> Shown {
    if !is_operator(&caller) {
        return Err(Problem::forbidden("this takes a key with admin access to every namespace"));
    }
    app.keys().revoke(&id)?;
    go(&link("/ui/settings", fields.namespace().unwrap_or("default")))
}
