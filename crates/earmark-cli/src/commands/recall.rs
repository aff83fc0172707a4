//! `earmark recall` and `earmark refine`.

use anstyle::Style;
use earmark::{Previous, RecallRequest, Result};

use super::{existing, feedback::labels, print_json, print_text, scope};
use crate::{
    args::{Recall, Refine},
    render::{day, printable, table},
    settings::Settings,
};

pub(crate) fn run(settings: &Settings, args: Recall) -> Result<()> {
    let previous = args.previous.clone().map(|recall_id| Previous {
        recall_id,
        used: args.used.clone(),
        answer: args.previous_answer.clone(),
    });
    let request = RecallRequest {
        query: args.query,
        top_k: args.top_k,
        max_tokens: args.max_tokens,
        scope: scope(&args.within)?,
        previous,
        ..Default::default()
    };
    let recall = existing(settings)?.recall(&request)?;
    match (settings.json, args.context) {
        (true, _) => print_json(&recall),
        (_, true) => print_text(&recall.context),
        _ => print(&recall),
    }
}

pub(crate) fn refine(settings: &Settings, args: Refine) -> Result<()> {
    let namespace = existing(settings)?;
    let feedback = labels(&namespace, &args.recall_id, &args.labels)?;
    let recall = namespace.refine(&args.recall_id, &feedback)?;
    if settings.json { print_json(&recall) } else { print(&recall) }
}

/// Prints the slate as a table, and how to close it.
pub(crate) fn print(recall: &earmark::Recall) -> Result<()> {
    if recall.results.is_empty() {
        print_text("nothing found")?;
    } else {
        print_text(&slate(recall).to_string())?;
    }
    let dim = Style::new().dimmed();
    if recall.abstained && !recall.results.is_empty() {
        print_text(&format!("{dim}None of these looks like an answer.{dim:#}"))?;
    }
    print_text(&format!(
        "{dim}{}  learned version {}  {:.1} ms{dim:#}\n{dim}close it: earmark feedback {} --useful 1,2 (or --answer \"... [1]\"){dim:#}",
        recall.recall_id, recall.learning_version, recall.took_ms, recall.recall_id
    ))
}

fn slate(recall: &earmark::Recall) -> comfy_table::Table {
    let mut table = table(&["", "score", "dense", "words", "was", "when", "who", "memory"]);
    for result in &recall.results {
        let mark = if result.explored { " *" } else { "" };
        table.add_row([
            format!("[{}]{mark}", result.rank),
            format!("{:.2}", result.score),
            format!("{:.2}", result.scores.dense),
            format!("{:.1}", result.scores.lexical),
            moved(result.base_rank, result.rank),
            day(result.memory.occurred_at),
            printable(result.memory.author.as_deref().unwrap_or("")),
            printable(&result.memory.content),
        ]);
    }
    table
}

/// The static rank, marked where learning moved it.
fn moved(base_rank: usize, rank: usize) -> String {
    match base_rank.cmp(&rank) {
        std::cmp::Ordering::Greater => format!("{base_rank} ↑"),
        std::cmp::Ordering::Less => format!("{base_rank} ↓"),
        std::cmp::Ordering::Equal => base_rank.to_string(),
    }
}
