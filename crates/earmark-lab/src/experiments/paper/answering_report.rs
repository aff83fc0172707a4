//! What a folder of answers says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::Result;

use super::Options;
use super::answering::{self, AnswerRow};
use super::catalogue::ANSWERS;
use super::report::write_readme;
use super::reported;
use crate::experiments::plan::ResultFolder;
use crate::experiments::summary;
use crate::llm::Llm;
use crate::report::Provenance;
use crate::rows::Row;
use crate::stats;

const FILES: &str = "`summary.md` (tables), `rows.jsonl` (retrieval: one line a run with all parameters), `answers.jsonl` \
    (one line an answer: F1, verdicts, tokens; no words of the data set or the model).";
const BASE: &str = "only-retriever";

/// Writes summary.md from what is in `folder`, and a paragraph of README.md for `ran`.
///
/// # Errors
/// If the folder cannot be read or written.
pub fn write(llm: &Llm<'_>, options: &Options, folder: &ResultFolder, ran: Option<&Provenance>) -> Result<()> {
    folder.tidy()?;
    let (rows, answers) = (folder.rows()?, answering::read(folder)?);
    let mut text = opening(llm);
    let pairs: BTreeSet<(&str, &str)> = answers.iter().map(|row| (&*row.key.dataset, &*row.key.encoder)).collect();
    for (dataset, encoder) in pairs {
        let answers = answers.iter().filter(|a| a.key.dataset == dataset && a.key.encoder == encoder).collect();
        let rows = rows.iter().filter(|r| r.key.dataset == dataset && r.key.encoder == encoder).collect();
        text.push_str(&section(&Group { dataset, encoder, rows, answers }, &answering::names(options)));
    }
    std::fs::write(folder.file("summary.md"), text)?;
    ran.map_or(Ok(()), |provenance| write_readme(&ANSWERS, options, folder, FILES, provenance))
}

fn opening(llm: &Llm<'_>) -> String {
    format!(
        "# {}, recipe `paper`\n\n{}\n\nThe model is `{}`: it answers, and it judges its own answers. F1 is LoCoMo's own (Porter stems; parts \
         of multi-hop answers one by one), 0 for an answer without words. J is the share of answers that the model calls right: strictly (the whole \
         gold answer; on LongMemEval by the rule of the question's kind), and generously (the same topic or time is enough, which accepts many wrong answers). \
         A verdict that is neither yes nor no counts as no. Percent. `ear-explorer` asked the simulated critic about the *test* question, which reads its labels; \
         `default-untaught` is the static order of the recipe `default`. The paper's answers are a larger model's: compare gains, not levels.\n",
        ANSWERS.title,
        ANSWERS.shows,
        llm.model()
    )
}

/// One set with one encoder.
struct Group<'a> {
    dataset: &'a str,
    encoder: &'a str,
    rows: Vec<&'a Row>,
    answers: Vec<&'a AnswerRow>,
}

impl<'a> Group<'a> {
    fn of(&self, method: &str) -> Vec<&'a AnswerRow> {
        self.answers.iter().copied().filter(|answer| answer.key.method == method).collect()
    }
}

fn section(group: &Group<'_>, names: &[String]) -> String {
    let seeds: BTreeSet<u64> = group.answers.iter().map(|answer| answer.key.seed).collect();
    let n = group.rows.iter().map(|row| row.n).max().unwrap_or(0);
    let mut text = format!(
        "\n## {}, {}\n\n{} answers of each method, seeds: {}. Recall@5 is over all {n} test questions of a seed.\n\n",
        group.dataset,
        group.encoder,
        group.of(BASE).len(),
        seeds.len()
    );
    text.push_str(&table(group, names));
    text.push_str(&by_type(group, names));
    text
}

fn table(group: &Group<'_>, names: &[String]) -> String {
    let mut text = "| method | Recall@5 | F1 | against only-retriever [95 %] | paper F1 | J strict | J generous | paper J | answers without words | verdicts neither yes nor no | tokens per answer, read + written |\n|---|---|---|---|---|---|---|---|---|---|---|\n".to_owned();
    for name in names {
        let answers = group.of(name);
        if answers.is_empty() {
            continue;
        }
        let rows: Vec<&Row> = group.rows.iter().copied().filter(|row| row.key.method == *name).collect();
        let paper = reported::ANSWERS.iter().find(|line| (line.0, line.1) == (group.dataset, name));
        let _ = writeln!(
            text,
            "| {name} | {:.1} | {:.1} | {} | {} | {:.1} | {:.1} | {} | {} | {} | {} |",
            summary::spread(&rows, |row| row.scores.recall_at_5).mean,
            mean(&answers, |answer| answer.f1),
            gain(group, name),
            paper.map_or_else(|| "-".into(), |line| format!("{:.2}", line.2)),
            mean(&answers, |answer| is_right(answer.strict)),
            mean(&answers, |answer| is_right(answer.generous)),
            paper.map_or_else(|| "-".into(), |line| format!("{:.2}", line.3)),
            answers.iter().filter(|answer| !answer.readable).count(),
            unclear(&answers),
            tokens(&answers),
        );
    }
    text
}

fn is_right(verdict: Option<bool>) -> f64 {
    f64::from(u8::from(verdict == Some(true)))
}

/// Verdicts that could not be read, of how many.
fn unclear(answers: &[&AnswerRow]) -> String {
    let readable = answers.iter().filter(|answer| answer.readable);
    let verdicts: Vec<Option<bool>> = readable.flat_map(|answer| [answer.strict, answer.generous]).collect();
    format!("{} of {}", verdicts.iter().filter(|verdict| verdict.is_none()).count(), verdicts.len())
}

fn tokens(answers: &[&AnswerRow]) -> String {
    let per = |count: fn(&AnswerRow) -> u64| mean(answers, |answer| count(answer) as f64) / 100.0;
    format!("{:.0} + {:.0}", per(|answer| answer.prompt_tokens), per(|answer| answer.answer_tokens))
}

/// In percent.
fn mean(answers: &[&AnswerRow], value: impl Fn(&AnswerRow) -> f64) -> f64 {
    100.0 * stats::mean(&answers.iter().map(|answer| value(answer)).collect::<Vec<f64>>())
}

/// F1 against only retriever, on the questions that both have answered.
fn gain(group: &Group<'_>, name: &str) -> String {
    let by_question = |name: &str| -> BTreeMap<(u64, &str), f64> {
        group.of(name).into_iter().map(|answer| ((answer.key.seed, &*answer.question), answer.f1)).collect()
    };
    let (ours, base) = (by_question(name), by_question(BASE));
    let pairs: Vec<(f64, f64)> = ours.iter().filter_map(|(key, f1)| Some((*f1, *base.get(key)?))).collect();
    if name == BASE || pairs.is_empty() {
        return "-".into();
    }
    let (ours, base): (Vec<f64>, Vec<f64>) = pairs.into_iter().map(|(a, b)| (100.0 * a, 100.0 * b)).unzip();
    summary::points(stats::paired_bootstrap(&ours, &base, 0))
}

fn by_type(group: &Group<'_>, names: &[String]) -> String {
    let types: BTreeSet<&str> = group.answers.iter().filter_map(|answer| answer.category.as_deref()).collect();
    let mut text =
        "\n| question type | n | method | F1 | J strict | J generous |\n|---|---|---|---|---|---|\n".to_owned();
    for kind in types {
        for name in names {
            let mut answers = group.of(name);
            answers.retain(|answer| answer.category.as_deref() == Some(kind));
            if answers.is_empty() {
                continue;
            }
            let _ = writeln!(
                text,
                "| {kind} | {} | {name} | {:.1} | {:.1} | {:.1} |",
                answers.len(),
                mean(&answers, |answer| answer.f1),
                mean(&answers, |answer| is_right(answer.strict)),
                mean(&answers, |answer| is_right(answer.generous))
            );
        }
    }
    text
}
