//! `earmark namespaces` and `earmark reembed`.

use earmark::{Error, Overview, Result};
use serde_json::json;

use super::{advance, confirmed, existing, print_json, print_text, progress};
use crate::{
    open,
    render::{printable, table},
    settings::Settings,
};

pub(crate) fn remove(settings: &Settings, name: &str, yes: bool) -> Result<()> {
    let earmark = open::earmark(settings)?;
    if !earmark.namespaces()?.iter().any(|known| known == name) {
        return Err(Error::not_found("namespace", name));
    }
    if !yes && !confirmed(&format!("remove namespace `{}` and everything in it for good?", printable(name)))? {
        return print_text("nothing was removed");
    }
    earmark.remove_namespace(name)?;
    if settings.json {
        print_json(&json!({ "removed": name }))
    } else {
        print_text(&format!("removed: {}", printable(name)))
    }
}

pub(crate) fn list(settings: &Settings) -> Result<()> {
    let earmark = open::earmark(settings)?;
    let overview = |name: &String| earmark.namespace(name)?.overview();
    let overviews: Vec<Overview> = earmark.namespaces()?.iter().map(overview).collect::<Result<_>>()?;
    if settings.json {
        return print_json(&overviews);
    }
    if overviews.is_empty() {
        return print_text("no namespace yet; `earmark remember` makes one");
    }
    let mut rows = table(&["memories", "recalls", "closed", "disk", "encoder", "namespace"]);
    for overview in overviews {
        rows.add([
            overview.memories.to_string(),
            overview.recalls.to_string(),
            overview.closed.to_string(),
            megabytes(overview.disk_bytes),
            printable(overview.encoder.as_deref().unwrap_or("-")),
            printable(&overview.namespace),
        ]);
    }
    print_text(&rows.to_string())
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

pub(crate) fn reembed(settings: &Settings) -> Result<()> {
    let namespace = existing(settings)?;
    let bar = progress(settings, "encoding");
    let report = namespace.reembed(&mut advance(&bar))?;
    bar.finish_and_clear();
    if settings.json {
        return print_json(&report);
    }
    if report.memories + report.queries == 0 {
        return print_text(&format!("nothing to do: the namespace belongs to {} already", printable(&report.encoder)));
    }
    let (memories, queries) = (report.memories, report.queries);
    print_text(&format!("encoded {memories} memories and {queries} past questions with {}", printable(&report.encoder)))
}
