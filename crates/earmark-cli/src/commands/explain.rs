//! `earmark explain`.

use earmark::{Explanation, Result};

use super::{existing, print_json, print_text};
use crate::{
    render::{printable, shortened, table},
    settings::Settings,
};

pub(crate) fn run(settings: &Settings, recall_id: &str) -> Result<()> {
    let explanation = existing(settings)?.explain(recall_id)?;
    if settings.json { print_json(&explanation) } else { print(&explanation) }
}

/// Prints the candidates with their terms, the rounds, and the past questions that spoke.
pub(crate) fn print(explanation: &Explanation) -> Result<()> {
    print_text(&format!("question: {}", printable(&explanation.query)))?;
    print_text(&format!("state: {}; {}", explanation.state, printable(&explanation.in_words)))?;
    let mut candidates = table(&["rank", "was", "score", "static", "dense", "words", "label", "what moved it", "memory"]);
    for candidate in &explanation.candidates {
        candidates.add_row([
            candidate.rank.to_string(),
            candidate.base_rank.to_string(),
            format!("{:.2}", candidate.scores.learned),
            format!("{:.2}", candidate.scores.base),
            format!("{:.2}", candidate.scores.dense),
            format!("{:.1}", candidate.scores.lexical),
            candidate.label.clone().unwrap_or_default(),
            printable(&candidate.moved_by.join(", ")),
            shortened(&candidate.content, 60),
        ]);
    }
    print_text(&format!("\n{candidates}"))?;
    if explanation.neighbours.is_empty() {
        return Ok(());
    }
    let mut past = table(&["similar", "past question", "useful then"]);
    for neighbour in &explanation.neighbours {
        past.add_row([
            format!("{:.2}", neighbour.similarity),
            shortened(&neighbour.query, 50),
            shortened(&neighbour.useful.join(" | "), 60),
        ]);
    }
    print_text(&format!("\n{past}"))
}
