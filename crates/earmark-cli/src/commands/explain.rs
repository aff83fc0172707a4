//! `earmark explain`.

use earmark::{ExplainedCandidate, ExplainedRound, Explanation, Neighbour, Result};

use super::{existing, print_json, print_text, recall::moved};
use crate::{
    render::{printable, shortened, table},
    settings::Settings,
};

/// Candidates shown unless all are wanted.
const BEST: usize = 10;
/// Characters of a text in a table with many columns.
const GIST: usize = 120;

pub(crate) fn run(settings: &Settings, recall_id: &str, all: bool) -> Result<()> {
    let explanation = existing(settings)?.explain(recall_id)?;
    if settings.json { print_json(&explanation) } else { print(&explanation, all) }
}

/// Prints the candidates with their terms, the rounds, and the past questions that spoke.
fn print(explanation: &Explanation, all: bool) -> Result<()> {
    print_text(&format!("question  {}", printable(&explanation.query)))?;
    print_text(&format!("recall    {}, {}", explanation.recall_id, explanation.state))?;
    print_text(&format!("ranking   {}", printable(&explanation.in_words)))?;
    let shown = |c: &&ExplainedCandidate| all || c.rank <= BEST || c.base_rank <= BEST || c.label.is_some();
    let shown: Vec<&ExplainedCandidate> = explanation.candidates.iter().filter(shown).collect();
    let hidden = explanation.candidates.len() - shown.len();
    print_text(&format!("\n{}", candidates(shown)))?;
    if hidden > 0 {
        print_text(&format!("and {hidden} more candidates (--all shows them)"))?;
    }
    if explanation.rounds.len() > 1 {
        print_text(&format!("\n{}", rounds(&explanation.rounds)))?;
    }
    if explanation.neighbours.is_empty() { Ok(()) } else { print_text(&format!("\n{}", past(&explanation.neighbours))) }
}

/// Candidates with the terms of their scores, best first.
pub(crate) fn candidates<'a>(candidates: impl IntoIterator<Item = &'a ExplainedCandidate>) -> String {
    let mut rows = table(&["rank", "was", "score", "static", "meaning", "words", "label", "memory"]);
    for candidate in candidates {
        rows.add([
            candidate.rank.to_string(),
            moved(candidate.base_rank, candidate.rank),
            format!("{:.2}", candidate.scores.learned),
            format!("{:.2}", candidate.scores.base),
            format!("{:.2}", candidate.scores.dense),
            format!("{:.1}", candidate.scores.lexical),
            candidate.label.clone().unwrap_or_default(),
            gist_and_reasons(candidate),
        ]);
    }
    rows.to_string()
}

/// The text, and under it what moved it.
fn gist_and_reasons(candidate: &ExplainedCandidate) -> String {
    let gist = shortened(&candidate.content, GIST);
    if candidate.moved_by.is_empty() {
        gist
    } else {
        format!("{gist}\n↳ {}", printable(&candidate.moved_by.join(", ")))
    }
}

fn rounds(rounds: &[ExplainedRound]) -> String {
    let mut rows = table(&["slate", "shown", "useful", "not useful", "labels from"]);
    for (i, round) in rounds.iter().enumerate() {
        rows.add([
            (i + 1).to_string(),
            round.slate.len().to_string(),
            round.useful.len().to_string(),
            round.not_useful.len().to_string(),
            round.sources.join(", "),
        ]);
    }
    rows.to_string()
}

/// The most similar past questions.
pub(crate) fn past(neighbours: &[Neighbour]) -> String {
    let mut rows = table(&["similar", "past question", "useful then"]);
    for neighbour in neighbours {
        rows.add([format!("{:.2}", neighbour.similarity), shortened(&neighbour.query, 50), useful_then(neighbour)]);
    }
    rows.to_string()
}

fn useful_then(neighbour: &Neighbour) -> String {
    if neighbour.useful.is_empty() { "(nothing)".to_owned() } else { shortened(&neighbour.useful.join(" | "), GIST) }
}
