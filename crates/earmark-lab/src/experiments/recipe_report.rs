//! Writes the result folder of the recipes' runs: tables, figures, README.

use std::fmt::Write;

use anyhow::Result;

use super::paper::efficiency::{self, Gains};
use super::plan::ResultFolder;
use super::recipe::Answer;
use super::recipe_runs::{METHODS, PAPER_METHODS, STATES, Settings, StateRow, UNTAUGHT, Untaught};
use super::summary;
use crate::figure::{self, Curve, Curves};
use crate::report::Provenance;
use crate::rows::{self, CurvePoint, Row};

/// Order of the rows in tables.
fn order() -> Vec<&'static str> {
    let (fixed, learned) = METHODS.split_at(3);
    let names = |methods: &'static [(&'static str, Answer, bool)]| methods.iter().map(|(name, _, _)| *name);
    names(fixed).chain(PAPER_METHODS.map(|(name, _)| name)).chain(names(learned)).collect()
}

/// Writes README, summary and figures of the folder from its rows.
///
/// # Errors
/// Those of the disk.
pub fn write_report(settings: &Settings, folder: &ResultFolder, provenance: &Provenance) -> Result<()> {
    folder.tidy()?;
    let rows = folder.rows()?;
    std::fs::write(folder.file("summary.md"), summary_of(settings, folder, &rows)?)?;
    let provenance = provenance.markdown_after(&folder.readme());
    std::fs::write(folder.file("README.md"), readme(settings, &rows, &provenance))?;
    for (dataset, encoder) in groups(&rows) {
        draw(folder, &rows, &dataset, &encoder)?;
    }
    Ok(())
}

fn groups(rows: &[Row]) -> Vec<(String, String)> {
    let mut groups: Vec<(String, String)> =
        rows.iter().map(|row| (row.key.dataset.clone(), row.key.encoder.clone())).collect();
    groups.sort();
    groups.dedup();
    groups
}

fn of(rows: &[Row], dataset: &str, encoder: &str) -> Vec<Row> {
    rows.iter().filter(|row| row.key.dataset == dataset && row.key.encoder == encoder).cloned().collect()
}

fn summary_of(settings: &Settings, folder: &ResultFolder, rows: &[Row]) -> Result<String> {
    let names = order();
    let mut text = format!(
        "# Recipe `default` beside `paper`, split `{}`\n\n\
         Recall@5 counts a question if *all* its gold memories are among the five; Hit@5 if any is. Percent, mean ± standard \
         deviation over {} seeds. It learns from the labels of the five memories it serves, nothing else; the labels come \
         from a simulated critic (precision {:.0}, recall {:.0}).\n\n\
         **`learned-auto`, `learned-N-calls` and `paper-ear-explorer` read test labels**: at test they ask the simulated \
         critic, which knows the gold memories of the test question. The other rows see no label of a test question. In \
         training `paper-ear` has four slates a question labelled, `default` only the one it serves.{}\n\n\
         Caution: the recipe's constants (not its learned weights) were chosen while looking at other random splits of these \
         sets, so its level at n = 0 is not that of a set nobody has seen.\n",
        settings.split.name(),
        settings.seed_list().len(),
        100.0 * settings.quality.precision,
        100.0 * settings.quality.recall,
        if settings.drift {
            " **Drift**: from half of the training questions on, the critic's precision and recall are 30."
        } else {
            ""
        },
    );
    for (dataset, encoder) in groups(rows) {
        let rows = of(rows, &dataset, &encoder);
        let (n, ceiling) = rows.first().map_or((0, 0.0), |row| (row.n, 100.0 * row.pool_ceiling));
        let _ = write!(
            text,
            "\n## {dataset}, {encoder}\n\nn = {n} test questions. A perfect order of the candidates would reach {ceiling:.1}.\n\n{}\n\
             {}{}{}![learning curve](curve-{dataset}-{encoder}.svg)\n",
            summary::table(&rows, &encoder, &names, "static", &[]),
            untaught_words(folder, &dataset, &encoder)?,
            efficiency::by_place(&gains(folder, &rows, &dataset, &encoder)?),
            state_words(folder, &dataset, &encoder)?,
        );
    }
    Ok(text)
}

fn untaught_words(folder: &ResultFolder, dataset: &str, encoder: &str) -> Result<String> {
    let all: Vec<Untaught> = rows::read(&folder.file(UNTAUGHT))?;
    let one = all.iter().find(|one| one.dataset == dataset && one.encoder == encoder);
    Ok(one.map_or_else(String::new, |one| {
        format!(
            "Before any learning, on all {} questions: dense {:.1}, BM25 {:.1}, static {:.1}.\n\n",
            one.n,
            100.0 * one.dense,
            100.0 * one.bm25,
            100.0 * one.fixed
        )
    }))
}

/// How far the learned order is above the static one along the curve.
fn gains(folder: &ResultFolder, rows: &[Row], dataset: &str, encoder: &str) -> Result<Gains> {
    let mut points = folder.curve()?;
    points.retain(|point| point.key.dataset == dataset && point.key.encoder == encoder);
    Ok(efficiency::gains(&points, rows, "learned", "static", 1))
}

fn state_words(folder: &ResultFolder, dataset: &str, encoder: &str) -> Result<String> {
    let all: Vec<StateRow> = rows::read(&folder.file(STATES))?;
    let states: Vec<&StateRow> =
        all.iter().filter(|state| state.key.dataset == dataset && state.key.encoder == encoder).collect();
    let mean = |value: fn(&StateRow) -> f64| {
        100.0 * states.iter().map(|state| value(state)).sum::<f64>() / states.len().max(1) as f64
    };
    let turns: usize = states.iter().map(|state| state.gate_turns).sum();
    let paused = states.iter().filter(|state| state.gate_paused).count();
    Ok(format!(
        "Calibration error of the five best: {:.1} points before learning, {:.1} after. The gate changed its mind {turns} \
         times in {} runs and held the learned order back at the end of {paused}.\n\n",
        mean(|state| state.calibration_error_static),
        mean(|state| state.calibration_error_learned),
        states.len(),
    ))
}

fn readme(settings: &Settings, rows: &[Row], provenance: &str) -> String {
    let mut text = format!(
        "# Recipe `default`\n\n\
         What the default recipe answers before and after learning from the labels of its own slates.\n\n\
         {provenance}- seeds: {:?}\n- split: {}\n- parameters: in every line of `rows.jsonl`\n\n\
         Files: `summary.md` (tables), `rows.jsonl` (one line a run), `curve.jsonl` (the learned ranking after `n_train` \
         questions), figures.\n\n## What it shows\n\n",
        settings.seed_list(),
        settings.split.name(),
    );
    for (dataset, encoder) in groups(rows) {
        let rows = of(rows, &dataset, &encoder);
        let parts: Vec<String> = summary::by_method(&rows, &encoder, &order())
            .iter()
            .map(|(name, rows)| {
                let calls = rows.iter().map(|row| row.critic_calls_per_query).sum::<f64>() / rows.len().max(1) as f64;
                let recall = summary::spread(rows, |row| row.scores.recall_at_5).mean;
                if calls > 0.0 {
                    format!("{name} {recall:.1} at {calls:.1} calls")
                } else {
                    format!("{name} {recall:.1}")
                }
            })
            .collect();
        let _ = writeln!(text, "- {dataset}, {encoder}, Recall@5: {}.", parts.join(", "));
    }
    text
}

fn draw(folder: &ResultFolder, rows: &[Row], dataset: &str, encoder: &str) -> Result<()> {
    let rows = of(rows, dataset, encoder);
    let points: Vec<CurvePoint> = folder.curve()?.into_iter().filter(|point| point.key.dataset == dataset).collect();
    let mut places: Vec<usize> = points.iter().filter(|p| p.key.encoder == encoder).map(|p| p.n_train).collect();
    places.sort_unstable();
    places.dedup();
    let level = |method: &str| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.key.method == method).collect();
        summary::spread(&rows, |row| row.scores.recall_at_5)
    };
    let flat = |name: &str| Curve {
        name: name.to_owned(),
        points: figure::in_places(vec![level(name); places.len()]),
        paper: None,
    };
    let curve = |name: &str, method: &str| {
        let there = |n: &usize| points.iter().any(|p| p.key.method == method && p.n_train == *n);
        let values = places.iter().enumerate().filter(|(_, n)| there(n));
        let value = |(place, n): (usize, &usize)| (place as f64, summary::curve_point(&points, encoder, method, *n));
        Curve { name: name.to_owned(), points: values.map(value).collect(), paper: None }
    };
    let n = rows.first().map_or(0, |row| row.n);
    let figure = Curves {
        title: format!("{dataset}, {encoder}: no critic call, n = {n} test questions"),
        x_axis: "questions answered with feedback".into(),
        y_axis: "Recall@5 (all gold), %".into(),
        places: places.iter().map(usize::to_string).collect(),
        curves: vec![curve("default", "learned"), curve("paper (EAR)", "paper-ear"), flat("dense"), flat("bm25")],
        level: Some(("static".into(), level("static").mean)),
        paper: String::new(),
    };
    figure::draw_curves(&folder.file(&format!("curve-{dataset}-{encoder}.svg")), &figure)
}
