//! Tables of gains with a line for each encoder (Fig. 7) or for each reading of the paper.

use std::fmt::Write;

use anyhow::Result;

use super::catalogue::{CHOICE_METHODS, CHOICES, CONSTANT_ERRORS};
use super::reported::RETRIEVERS;
use crate::experiments::plan::ResultFolder;
use crate::experiments::summary::{self, Reported};
use crate::figure::{self, Bar, Bars, Spread};
use crate::rows::Row;

const SIZED: [&str; 3] = ["rl-update", "ear", "ear-explorer"];

/// Gains of each encoder on one set, by dimension, then the paper's retrievers. `rows` are those of the set.
pub fn sizes(rows: &[Row], dataset: &str) -> String {
    let mut text = "| encoder | d | weights of the adapter | questions to learn from | only-retriever | rl-update | ear | ear-explorer |\n|---|---|---|---|---|---|---|---|\n".to_owned();
    for (encoder, dimension) in by_dimension(rows) {
        let trained = rows.iter().filter(|row| row.key.encoder == encoder).map(|row| row.n_train).max().unwrap_or(0);
        let alone = of(rows, &encoder, "only-retriever");
        let gains: Vec<String> = SIZED.iter().map(|method| gain(&of(rows, &encoder, method), &alone)).collect();
        let _ = writeln!(
            text,
            "| {encoder} | {dimension} | {} | {trained} | {} | {} |",
            2 * dimension * dimension,
            summary::percent(summary::spread(&alone, |row| row.scores.recall_at_5)),
            gains.join(" | ")
        );
    }
    for line in RETRIEVERS.iter().filter(|line| line.dataset == dataset) {
        let weights = 2 * line.dimension * line.dimension;
        let (rl, ear) = (line.rl - line.alone, line.ear - line.alone);
        let _ = writeln!(
            text,
            "| paper: {} | {} | {weights} | | {:.2} | {rl:+.1} | | {ear:+.1} |",
            line.name, line.dimension, line.alone
        );
    }
    text
}

fn by_dimension(rows: &[Row]) -> Vec<(String, usize)> {
    let mut encoders: Vec<(String, usize)> = rows.iter().map(|row| (row.key.encoder.clone(), row.dimension)).collect();
    encoders.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    encoders.dedup();
    encoders
}

fn of<'a>(rows: &'a [Row], encoder: &str, method: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.key.encoder == encoder && row.key.method == method).collect()
}

fn gain(ours: &[&Row], base: &[&Row]) -> String {
    summary::gain(ours, base).map_or_else(|| "-".into(), summary::points)
}

/// Draws Recall@5 of each encoder with and without EAR.
///
/// # Errors
/// If the file cannot be written.
pub fn draw_sizes(folder: &ResultFolder, rows: &[Row], dataset: &str) -> Result<()> {
    let bar = |encoder: &str, dimension: usize, method: &str| Bar {
        name: format!("{encoder} ({dimension}), {method}"),
        value: summary::spread(&of(rows, encoder, method), |row| row.scores.recall_at_5),
        paper: None,
        marked: method == "ear-explorer",
    };
    let methods = ["only-retriever", "ear", "ear-explorer"];
    let bars = |(encoder, d): &(String, usize)| methods.map(|method| bar(encoder, *d, method));
    let mut all: Vec<Bar> = by_dimension(rows).iter().flat_map(bars).collect();
    for line in RETRIEVERS.iter().filter(|line| line.dataset == dataset) {
        for (method, value) in [("only-retriever", line.alone), ("ear-explorer", line.ear)] {
            let name = format!("paper: {} ({}), {method}", line.name, line.dimension);
            all.push(Bar {
                name,
                value: Spread { mean: value, std: 0.0 },
                paper: Some(value),
                marked: method == "ear-explorer",
            });
        }
    }
    let n = rows.first().map_or(0, |row| row.n);
    let figure = Bars {
        title: format!("{dataset}: Recall@5 by encoder (dimension), n = {n} test questions a seed"),
        axis: "Recall@5 (all gold memories in the top five), %".into(),
        bars: all,
        groups: ["no critic at test".into(), "critic reads test labels".into()],
        paper: "paper".into(),
    };
    figure::draw_bars(&folder.file(&format!("sizes-{dataset}.svg")), &figure)
}

/// Gains under each reading, one at a time, beside the paper's.
pub fn choices(rows: &[Row], encoder: &str, paper: &[Reported]) -> String {
    let mut text = format!("| reading | {} |\n|---|---|---|---|\n", CHOICE_METHODS.join(" | "));
    let reported = CHOICE_METHODS.map(|of| summary::signed(summary::paper_gain(paper, of, "only-retriever")));
    let _ = writeln!(text, "| the paper | {} |", reported.join(" | "));
    let alone = of(rows, encoder, "only-retriever");
    let line = |text: &mut String, name: &str, method: &dyn Fn(&str) -> String| {
        let cells = CHOICE_METHODS.map(|base| gain(&of(rows, encoder, &method(base)), &alone));
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    };
    line(&mut text, "ours", &|base| base.to_owned());
    for name in CHOICES.iter().map(|(name, _)| *name).chain([CONSTANT_ERRORS]) {
        line(&mut text, name, &|base| format!("{base}, {name}"));
    }
    text
}
