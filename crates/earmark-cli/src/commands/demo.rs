//! `earmark demo`: a sample conversation is remembered, questions are asked, citations close the recalls, and a
//! curve shows what the ranking learned.

use std::{collections::HashMap, time::Instant};

use anstyle::{AnsiColor, Style};
use earmark::{Earmark, Error, Feedback, Namespace, Recall, RecallRequest, Result};
use serde::{Deserialize, Serialize};

use super::{advance, print_json, print_text, progress, recall};
use crate::{
    open::load_encoder,
    render::{printable, shortened},
    settings::Settings,
};

const CONVERSATION: &str = include_str!("../../assets/sample/conversation.jsonl");
const QUESTIONS: &str = include_str!("../../assets/sample/questions.jsonl");
/// Numbers of closed recalls at which the held-out questions are asked.
const CHECKPOINTS: [usize; 5] = [0, 5, 10, 20, 40];
const TOP: usize = 5;

#[derive(Debug, Deserialize)]
struct Question {
    question: String,
    answer: String,
    gold: Vec<String>,
    split: String,
}

/// Share of held-out questions whose gold memories are all in the top five, by number of closed recalls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Point {
    closed_recalls: usize,
    fixed: f32,
    learned: f32,
}

pub(crate) fn run(settings: &Settings, shown: usize) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|e| super::io_error("temporary folder".as_ref(), &e))?;
    let encoder = settings.encoder.clone();
    let options = earmark::Settings { params: crate::open::recipe(&settings.recipe)?, ..Default::default() };
    let earmark = Earmark::open(folder.path(), options, move || load_encoder(&encoder))?;
    let namespace = earmark.namespace("demo")?;
    let places = remember(settings, &namespace)?;
    let (train, test) = questions()?;
    let mut curve = vec![measure(&namespace, &test, &places, 0)?];
    for (i, question) in train.iter().enumerate() {
        let full = i < shown && !settings.json;
        ask(&namespace, question, &places, full)?;
        if CHECKPOINTS.contains(&(i + 1)) {
            curve.push(measure(&namespace, &test, &places, i + 1)?);
        }
    }
    if settings.json { print_json(&curve) } else { conclude(&curve, train.len(), test.len()) }
}

/// Stores the conversation; returns the turn name of each memory id.
fn remember(settings: &Settings, namespace: &Namespace) -> Result<HashMap<String, String>> {
    let started = Instant::now();
    let bar = progress(settings, "remembering");
    let report = namespace.import(CONVERSATION.as_bytes(), &mut advance(&bar))?;
    bar.finish_and_clear();
    if !settings.json {
        let seconds = started.elapsed().as_secs_f64();
        print_text(&format!("Remembered {} turns of a conversation of three people in {seconds:.1} s.", report.created))?;
    }
    let turn = |memory: &earmark::Memory| memory.metadata.get("turn").and_then(|t| t.as_str()).unwrap_or("").to_owned();
    Ok(namespace.list(&Default::default(), usize::MAX)?.iter().map(|m| (m.id.clone(), turn(m))).collect())
}

fn questions() -> Result<(Vec<Question>, Vec<Question>)> {
    let read = |line: &str| serde_json::from_str(line).map_err(|e| Error::invalid("questions", e.to_string()));
    let all: Vec<Question> = QUESTIONS.lines().map(read).collect::<Result<_>>()?;
    Ok(all.into_iter().partition(|q| q.split == "train"))
}

/// Asks a training question, answers it as an agent would that knows the truth, and hands the answer's citations in.
fn ask(namespace: &Namespace, question: &Question, places: &HashMap<String, String>, full: bool) -> Result<()> {
    let answer = namespace.recall(&RecallRequest::new(&question.question))?;
    let text = cite(question, &answer, places);
    let report = namespace.feedback(&answer.recall_id, &Feedback { answer: Some(text.clone()), ..Default::default() })?;
    if !full {
        return Ok(());
    }
    let bold = Style::new().bold();
    print_text(&format!("\n{bold}{}{bold:#}", printable(&question.question)))?;
    recall::print(&answer)?;
    let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
    print_text(&format!("{green}answer:{green:#} {}", printable(&text)))?;
    print_text(&format!("learned version {} from {} useful, {} not", report.learning_version, report.useful.len(), report.not_useful.len()))
}

/// The known answer with `[n]` for each shown gold memory, or `[NO_CITE]`.
fn cite(question: &Question, answer: &Recall, places: &HashMap<String, String>) -> String {
    let gold = answer.results.iter().filter(|r| places.get(&r.memory.id).is_some_and(|turn| question.gold.contains(turn)));
    let marks: String = gold.map(|r| format!("[{}]", r.rank)).collect();
    if marks.is_empty() { "I do not find that in my memory. [NO_CITE]".to_owned() } else { format!("{} {marks}", question.answer) }
}

/// Asks the held-out questions without feedback; the static ranking is read off the same answers.
fn measure(namespace: &Namespace, test: &[Question], places: &HashMap<String, String>, closed: usize) -> Result<Point> {
    let (mut fixed, mut learned) = (0, 0);
    for question in test {
        let request = RecallRequest { top_k: Some(2 * TOP), ..RecallRequest::new(&question.question) };
        let answer = namespace.recall(&request)?;
        let found = |place: &dyn Fn(&earmark::Recalled) -> usize| {
            let top = answer.results.iter().filter(|r| place(r) <= TOP).filter_map(|r| places.get(&r.memory.id));
            let top: Vec<&String> = top.collect();
            usize::from(question.gold.iter().all(|turn| top.contains(&turn)))
        };
        fixed += found(&|r| r.base_rank);
        learned += found(&|r| r.rank);
    }
    let share = |hits: usize| hits as f32 / test.len().max(1) as f32;
    Ok(Point { closed_recalls: closed, fixed: share(fixed), learned: share(learned) })
}

fn conclude(curve: &[Point], train: usize, test: usize) -> Result<()> {
    let last = curve.last().copied().unwrap_or(Point { closed_recalls: 0, fixed: 0.0, learned: 0.0 });
    print_text(&format!(
        "\nAll answers among the top five, on {test} questions the memory got no feedback for, \
         after n of {train} answered questions:\n\n{}",
        chart(curve)
    ))?;
    print_text(&format!(
        "\nstatic {:.0} %, learned {:.0} %. Nothing left this machine, and no language model was asked.",
        100.0 * last.fixed,
        100.0 * last.learned
    ))
}

/// A small chart: `●` learned, `─` static, one column a checkpoint.
fn chart(curve: &[Point]) -> String {
    const ROWS: usize = 11;
    const COLUMN: usize = 9;
    let level = |share: f32| (share * (ROWS - 1) as f32).round() as usize;
    let mut lines = Vec::new();
    for row in (0..ROWS).rev() {
        let cell = |point: &Point| match (level(point.learned) == row, level(point.fixed) == row) {
            (true, _) => "●",
            (false, true) => "─",
            _ => " ",
        };
        let cells: String = curve.iter().map(|point| format!("{:^COLUMN$}", cell(point))).collect();
        lines.push(format!("{:>5} % ┤{cells}", 10 * row));
    }
    let names: String = curve.iter().map(|point| format!("{:^COLUMN$}", point.closed_recalls)).collect();
    lines.push(format!("    n = 0 └{}", "─".repeat(COLUMN * curve.len())).replace("n = 0", "     "));
    lines.push(format!("      n  {names}   ● learned  ─ static"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_whole() {
        let (train, test) = questions().unwrap();
        assert!(train.len() >= 40 && test.len() >= 20);
        let turns: Vec<serde_json::Value> = CONVERSATION.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert!(turns.len() >= 400);
        let names: Vec<&str> = turns.iter().filter_map(|t| t["metadata"]["turn"].as_str()).collect();
        let gold = train.iter().chain(&test).flat_map(|q| &q.gold);
        assert!(gold.clone().count() >= 60 && gold.clone().all(|g| names.contains(&g.as_str())));
    }

    #[test]
    fn chart_marks_both_curves() {
        let point = |n, fixed, learned| Point { closed_recalls: n, fixed, learned };
        let chart = chart(&[point(0, 0.5, 0.5), point(40, 0.5, 0.9)]);
        let row = |label: &str| chart.lines().find(|l| l.trim_start().starts_with(label)).unwrap().to_owned();
        assert_eq!(row("90 %").matches('●').count(), 1);
        assert_eq!((row("50 %").matches('●').count(), row("50 %").matches('─').count()), (1, 1));
        assert!(shortened(&chart, 10).chars().count() <= 10);
    }
}
