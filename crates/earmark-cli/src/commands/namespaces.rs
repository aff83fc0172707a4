//! `earmark namespaces` and `earmark reembed`.

use earmark::{Error, Result};
use serde_json::json;

use super::{advance, existing, print_json, print_text, progress};
use crate::{
    open,
    render::{printable, table},
    settings::Settings,
};

pub(crate) fn run(settings: &Settings, remove: Option<&str>) -> Result<()> {
    let earmark = open::earmark(settings)?;
    if let Some(name) = remove {
        if !earmark.remove_namespace(name)? {
            return Err(Error::not_found("namespace", name));
        }
        return if settings.json { print_json(&json!({ "removed": name })) } else { print_text(&format!("removed: {name}")) };
    }
    let mut rows = Vec::new();
    for name in earmark.namespaces()? {
        let overview = earmark.namespace(&name)?.overview()?;
        rows.push(overview);
    }
    if settings.json {
        return print_json(&rows);
    }
    let mut table = table(&["namespace", "memories", "recalls", "closed", "encoder"]);
    for row in &rows {
        table.add_row([
            printable(&row.namespace),
            row.memories.to_string(),
            row.recalls.to_string(),
            row.closed.to_string(),
            printable(row.encoder.as_deref().unwrap_or("-")),
        ]);
    }
    if rows.is_empty() { print_text("no namespace yet; `earmark remember` makes one") } else { print_text(&table.to_string()) }
}

pub(crate) fn reembed(settings: &Settings) -> Result<()> {
    let namespace = existing(settings)?;
    let bar = progress(settings, "encoding");
    let report = namespace.reembed(&mut advance(&bar))?;
    bar.finish_and_clear();
    if settings.json {
        return print_json(&report);
    }
    let (memories, queries) = (report.memories, report.queries);
    print_text(&format!("encoded {memories} memories and {queries} past questions with {}", printable(&report.encoder)))
}
