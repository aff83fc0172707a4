//! `earmark learning`.

use earmark::{LearningStatus, Result};
use serde_json::json;

use super::{existing, print_json, print_text};
use crate::{args::Learning, render::table, settings::Settings};

pub(crate) fn run(settings: &Settings, verb: Learning) -> Result<()> {
    let namespace = existing(settings)?;
    let version = match verb {
        Learning::Status => {
            let status = namespace.learning()?;
            return if settings.json { print_json(&status) } else { print(&status) };
        }
        Learning::Freeze => namespace.freeze(true)?,
        Learning::Unfreeze => namespace.freeze(false)?,
        Learning::Rollback { version } => namespace.rollback(version)?,
        Learning::Reset => namespace.reset()?,
        Learning::Train => namespace.train()?,
    };
    if settings.json {
        return print_json(&json!({ "learning_version": version }));
    }
    print_text(&format!("learned version in force: {version}"))
}

fn print(status: &LearningStatus) -> Result<()> {
    print_text(&status.in_words())?;
    let mut labels = table(&["useful", "not useful", "labels from"]);
    for (source, counts) in &status.labels {
        labels.add([counts.useful.to_string(), counts.not_useful.to_string(), source.clone()]);
    }
    if !status.labels.is_empty() {
        print_text(&format!("\n{labels}"))?;
    }
    let mut versions = table(&["version", "from", "experiences", "made (UTC)"]);
    for version in status.versions.iter().take(10) {
        versions.add([
            version.version.to_string(),
            version.parent.to_string(),
            version.through.to_string(),
            version.created_at.strftime("%Y-%m-%d %H:%M").to_string(),
        ]);
    }
    if status.versions.is_empty() { Ok(()) } else { print_text(&format!("\n{versions}")) }
}
