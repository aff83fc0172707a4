//! Tables 4 and 5 and Fig. 6: what each memory store gives.

use std::fmt::Write;

use anyhow::Result;

use super::reported::TABLE_5;
use crate::by_type::{StoreScores, TypeScores};
use crate::experiments::plan::ResultFolder;
use crate::experiments::summary;
use crate::figure::{self, Bar, Bars, Spread};
use crate::rows::Row;
use crate::stats;

const TYPES: [&str; 4] = ["single-hop", "multi-hop", "temporal", "open-domain"];
const METHODS: [&str; 3] = ["only-retriever", "ear", "ear-explorer"];

/// The tables of one encoder; `rows` are those of all stores.
pub fn section(rows: &[Row], encoder: &str) -> String {
    let both: Vec<&Row> = of_both(rows, encoder);
    if both.is_empty() {
        return String::new();
    }
    format!(
        "\n### Table 4: what is searched\n\nThe paper's Table 4 has answers only (F1, J). Here is the evidence behind them: \
         Recall@5 of the questions' gold memories of either store, all of them in the top five.\n\n{}\
         \n### Table 5: by question type, both stores searched\n\n\
         Questions without a gold memory in a store do not count for it. The paper's EAR is with its Explorer.\n\n{}\
         \n### Fig. 6: observations in the top five\n\n{}\n![observations in the top five](mix-{encoder}.svg)\n",
        searched(rows, encoder),
        by_type(&both),
        mix(&both),
    )
}

fn of_both<'a>(rows: &'a [Row], encoder: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.key.encoder == encoder && row.key.dataset.ends_with("-both")).collect()
}

/// Table 4: with one store the whole Recall@5 is that store's.
fn searched(rows: &[Row], encoder: &str) -> String {
    let mut text = "| searched | method | Recall@5 dialogues | Recall@5 observations |\n|---|---|---|---|\n".to_owned();
    for (what, suffix) in [("dialogues", ""), ("observations", "-observations"), ("both", "-both")] {
        for method in METHODS {
            let of = |row: &&Row| {
                row.key.encoder == encoder && row.key.dataset == format!("locomo{suffix}") && row.key.method == method
            };
            let rows: Vec<&Row> = rows.iter().filter(of).collect();
            let whole = || summary::percent(summary::spread(&rows, |row| row.scores.recall_at_5));
            let of_store = |store: &str| summary::percent(over_seeds(&rows, |row| store_recall(row, store)));
            let (dialogues, observations) = match what {
                "dialogues" => (whole(), "-".into()),
                "observations" => ("-".into(), whole()),
                _ => (of_store("episodic"), of_store("semantic")),
            };
            let _ = writeln!(text, "| {what} | {method} | {dialogues} | {observations} |");
        }
    }
    text
}

/// Over all question types, weighted by their questions; in percent.
fn store_recall(row: &Row, store: &str) -> f64 {
    let stores = row.by_type.iter().flat_map(|one| &one.stores).filter(|one| one.store == store);
    let (found, n) = stores.fold((0.0, 0), |(found, n), one| (found + one.recall_at_5 * one.n as f64, n + one.n));
    100.0 * found / n.max(1) as f64
}

fn over_seeds(rows: &[&Row], value: impl Fn(&Row) -> f64) -> Spread {
    let values: Vec<f64> = rows.iter().map(|row| value(row)).collect();
    Spread { mean: stats::mean(&values), std: stats::std(&values) }
}

fn by_type(both: &[&Row]) -> String {
    let mut text = "| question type | method | n a seed | Recall@5 dialogues | paper | Recall@5 observations | paper |\n|---|---|---|---|---|---|---|\n".to_owned();
    for kind in TYPES {
        for method in METHODS {
            let rows = of_method(both, method);
            let recall = |store: &'static str| {
                summary::percent(of_store(&rows, kind, store, |scores| 100.0 * scores.recall_at_5))
            };
            let n = over_seeds(&rows, |row| typed(row, kind).map_or(0.0, |scores| scores.n as f64)).mean;
            let paper = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.2}"));
            let reported = TABLE_5.iter().find(|line| (line.0, line.1) == (kind, method));
            let _ = writeln!(
                text,
                "| {kind} | {method} | {n:.0} | {} | {} | {} | {} |",
                recall("episodic"),
                paper(reported.map(|line| line.2)),
                recall("semantic"),
                paper(reported.map(|line| line.3))
            );
        }
    }
    text
}

fn of_method<'a>(rows: &[&'a Row], method: &str) -> Vec<&'a Row> {
    rows.iter().copied().filter(|row| row.key.method == method).collect()
}

fn typed<'a>(row: &'a Row, kind: &str) -> Option<&'a TypeScores> {
    row.by_type.iter().find(|scores| scores.question_type == kind)
}

/// A number of one store and question type, over the seeds that have such questions.
fn of_store(rows: &[&Row], kind: &str, store: &str, value: impl Fn(&StoreScores) -> f64) -> Spread {
    let scores = |row: &&Row| typed(row, kind)?.stores.iter().find(|scores| scores.store == store).map(&value);
    let values: Vec<f64> = rows.iter().filter_map(scores).collect();
    Spread { mean: stats::mean(&values), std: stats::std(&values) }
}

fn mix(both: &[&Row]) -> String {
    let mut text = format!("| question type | {} |\n|---|---|---|---|\n", METHODS.join(" | "));
    for kind in TYPES {
        let cell = |method: &&str| format!("{:.2}", observations(both, kind, method).mean);
        let cells: Vec<String> = METHODS.iter().map(cell).collect();
        let _ = writeln!(text, "| {kind} | {} |", cells.join(" | "));
    }
    text
}

fn observations(both: &[&Row], kind: &str, method: &str) -> Spread {
    of_store(&of_method(both, method), kind, "semantic", |scores| scores.served)
}

/// Draws Fig. 6 for one encoder.
///
/// # Errors
/// If the file cannot be written.
pub fn draw(folder: &ResultFolder, rows: &[Row], encoder: &str) -> Result<()> {
    let both = of_both(rows, encoder);
    let Some(first) = both.first() else { return Ok(()) };
    let bar = |kind: &str, method: &str| Bar {
        name: format!("{kind}, {method}"),
        value: observations(&both, kind, method),
        paper: None,
        marked: method != "only-retriever",
    };
    let figure = Bars {
        title: format!(
            "LoCoMo, both stores, {encoder}: the mix of the top five, n = {} test questions a seed",
            first.n
        ),
        axis: "observations among the top five (of 5)".into(),
        bars: TYPES.iter().flat_map(|kind| METHODS.iter().map(|method| bar(kind, method))).collect(),
        groups: ["retriever".into(), "EAR".into()],
        paper: String::new(),
    };
    figure::draw_bars(&folder.file(&format!("mix-{encoder}.svg")), &figure)
}
