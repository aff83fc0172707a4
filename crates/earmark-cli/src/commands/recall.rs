//! `earmark recall` and `earmark refine`.

use anstream::eprintln;
use anstyle::Style;
use earmark::{Explore, Namespace, Previous, RecallRequest, Result, critic::LlmCritic};

use super::{existing, feedback::labels, print_json, print_text, read_text, scope};
use crate::{
    args::{Exploring, Recall, Refine},
    open::critic_options,
    render::{cell, day, printable, printable_lines, shortened, table},
    settings::Settings,
};

pub(crate) fn run(settings: &Settings, args: Recall) -> Result<()> {
    let query = if args.query == ["-"] { read_text("query")? } else { args.query.join(" ") };
    let previous = args.previous.clone().map(|recall_id| Previous {
        recall_id,
        used: args.used.clone(),
        answer: args.previous_answer.clone(),
    });
    let request = RecallRequest {
        query,
        top_k: args.top_k,
        max_tokens: args.max_tokens,
        scope: scope(&args.within)?,
        previous,
        explore: match args.explore {
            Exploring::Off => Explore::Off,
            Exploring::On => Explore::On,
            Exploring::Auto => Explore::Auto,
        },
        max_critic_calls: args.max_critic_calls,
        min_confidence: args.min_confidence,
        ..Default::default()
    };
    let namespace = existing(settings)?;
    let recall = ask(settings, &namespace, &request)?;
    if let Some(warning) = &recall.warning {
        eprintln!("warning: {}", printable(warning));
    }
    match (settings.json, args.context) {
        (true, _) => print_json(&recall),
        (_, true) => print_text(&printable_lines(&recall.context)),
        _ if recall.results.is_empty() => print_empty(settings, &namespace, recall.confidence),
        _ => print(&recall),
    }
}

/// Asks, with the critic of the settings where the question is to be explored.
fn ask(settings: &Settings, namespace: &Namespace, request: &RecallRequest) -> Result<earmark::Recall> {
    let wanted = request.explore != Explore::Off;
    let options = if wanted { critic_options(&settings.critic)? } else { None };
    let Some(options) = options else { return namespace.recall(request) };
    let critic = LlmCritic::open(&options)?;
    namespace.recall_judged(request, &mut |question, shown| critic.judge(question, shown))
}

/// Says why nothing was found.
fn print_empty(settings: &Settings, namespace: &Namespace, confidence: Option<f32>) -> Result<()> {
    if let Some(confidence) = confidence.filter(|chance| *chance > 0.0) {
        return print_text(&format!(
            "nothing found: that one of the best memories fits has a chance of {:.0} %, less than --min-confidence",
            100.0 * confidence
        ));
    }
    match namespace.overview()?.memories {
        0 => print_text(&format!(
            "nothing found: namespace `{}` in {} holds no memory yet",
            printable(namespace.name()),
            settings.data_dir.display()
        )),
        _ => print_text("nothing found: no memory passes the filter, the time limits or the owner asked for"),
    }
}

pub(crate) fn refine(settings: &Settings, args: Refine) -> Result<()> {
    let namespace = existing(settings)?;
    let feedback = labels(&namespace, &args.recall_id, &args.labels)?;
    let recall = namespace.refine(&args.recall_id, &feedback)?;
    if settings.json { print_json(&recall) } else { print(&recall) }
}

/// Prints the slate as a table, and how to close it.
fn print(recall: &earmark::Recall) -> Result<()> {
    if recall.results.is_empty() {
        return print_text("nothing is left to show for this question");
    }
    let dim = Style::new().dimmed();
    let (id, version) = (&recall.recall_id, recall.learning_version);
    print_text(&slate(recall))?;
    if recall.results.iter().any(|result| result.explored) {
        print_text(&format!("{dim}* shown to explore: it does not rank among the best{dim:#}"))?;
    }
    print_text(&format!(
        "\n{dim}recall {id}, {}\nSay what helped: earmark feedback {id} --useful 1,2{dim:#}",
        ranked_by(version)
    ))
}

fn ranked_by(version: i64) -> String {
    if version == 0 { "static ranking".to_owned() } else { format!("learned version {version}") }
}

/// The slate as a table; `was` is the place in the static ranking.
pub(crate) fn slate(recall: &earmark::Recall) -> String {
    let mut rows = table(&["", "score", "meaning", "words", "was", "when", "who", "memory"]);
    for result in &recall.results {
        let mark = if result.explored { " *" } else { "" };
        rows.add([
            format!("[{}]{mark}", result.rank),
            format!("{:.2}", result.score),
            format!("{:.2}", result.scores.dense),
            format!("{:.1}", result.scores.lexical),
            moved(result.base_rank, result.rank),
            day(result.memory.occurred_at),
            shortened(result.memory.author.as_deref().unwrap_or(""), 20),
            cell(&result.memory.content),
        ]);
    }
    rows.to_string()
}

/// The static rank, marked where learning moved it.
pub(crate) fn moved(base_rank: usize, rank: usize) -> String {
    match base_rank.cmp(&rank) {
        std::cmp::Ordering::Greater => format!("{base_rank} ↑"),
        std::cmp::Ordering::Less => format!("{base_rank} ↓"),
        std::cmp::Ordering::Equal => base_rank.to_string(),
    }
}
