//! Runs the `default` recipe over sets, encoders and seeds, and writes the result folder.

use std::fmt::Write;
use std::sync::Mutex;

use anyhow::{Context, Result};
use earmark::Params;
use earmark::critic::Quality;
use earmark::recall::Adapter;
use indicatif::ProgressBar;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::plan::ResultFolder;
use super::recipe::{self, Answer, State, Without};
use super::summary;
use crate::candidates::{self, Case, Encode};
use crate::data::Dataset;
use crate::evidence::{self, Prepared};
use crate::figure::{self, Curve, Curves};
use crate::methods::{self, Inference};
use crate::metrics::Scores;
use crate::report::Provenance;
use crate::rows::{self, CurvePoint, Row, RunKey};
use crate::runner;
use crate::split::{Split, SplitKind};
use crate::text::MemoryText;

/// Numbers of training questions at which the learned ranking is tested.
pub const CHECKPOINTS: [usize; 7] = [0, 20, 40, 80, 160, 320, 640];
/// Seeds begin here: the recipe's constants were chosen while looking at splits of smaller seeds.
pub const FIRST_SEED: u64 = 101;
/// Training questions of a quick run.
const QUICK: usize = 160;
/// A critic whose labels say next to nothing, or the opposite.
pub const ADVERSARIAL: Quality = Quality { precision: 0.3, recall: 0.3, ..Quality::paper() };

/// The rows of the table: name, how it answers, and whether it has learned.
pub const METHODS: [(&str, Answer, bool); 8] = [
    ("dense", Answer::Dense, false),
    ("bm25", Answer::Lexical, false),
    ("static", Answer::Ranked, false),
    ("learned", Answer::Ranked, true),
    ("learned-auto", Answer::Explored { calls: 3, auto: true }, true),
    ("learned-1-call", Answer::Explored { calls: 1, auto: false }, true),
    ("learned-2-calls", Answer::Explored { calls: 2, auto: false }, true),
    ("learned-3-calls", Answer::Explored { calls: 3, auto: false }, true),
];

/// Rows of the `paper` recipe beside them, by the names of [`methods::paper`].
pub const PAPER_METHODS: [(&str, &str); 3] =
    [("paper-rl-update", "rl-update"), ("paper-ear", "ear"), ("paper-ear-explorer", "ear-explorer")];

/// Order of the rows in tables.
fn order() -> Vec<&'static str> {
    let (fixed, learned) = METHODS.split_at(3);
    let names = |methods: &'static [(&'static str, Answer, bool)]| methods.iter().map(|(name, _, _)| *name);
    names(fixed).chain(PAPER_METHODS.map(|(name, _)| name)).chain(names(learned)).collect()
}

/// What is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The first seed.
    pub first_seed: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// How questions are divided.
    pub split: SplitKind,
    /// The simulated critic.
    pub quality: Quality,
    /// From half of the training questions on, the critic is [`ADVERSARIAL`].
    pub drift: bool,
    /// Few questions and one seed.
    pub quick: bool,
}

impl Settings {
    /// The seeds, in order.
    pub fn seed_list(&self) -> Vec<u64> {
        let first = self.first_seed;
        (first..first + if self.quick { 1 } else { self.seeds }).collect()
    }

    /// The questions of one seed.
    pub fn divide(&self, dataset: &Dataset, seed: u64) -> Split {
        let mut split = self.split.divide(dataset, seed);
        if self.quick {
            split.train.truncate(QUICK);
        }
        split
    }

    /// The critic of the `n`-th of `all` training questions.
    pub fn critic(&self, n: usize, all: usize) -> Quality {
        if self.drift && 2 * n >= all { ADVERSARIAL } else { self.quality }
    }
}

/// One set as one encoder sees it: for the `default` recipe, and the dense pools of the `paper` recipe.
pub struct Material<'a> {
    /// The set.
    pub dataset: &'a Dataset,
    /// The encoder's short name.
    pub encoder: String,
    /// For `default`, a case a question.
    pub prepared: Vec<Prepared>,
    /// For `paper`, a case a question.
    pub dense: Vec<Case>,
}

impl<'a> Material<'a> {
    /// Encodes the set through `encode`.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn new(dataset: &'a Dataset, encoder: String, encode: &mut Encode<'_>) -> Result<Self> {
        let prepared = evidence::prepare(dataset, encode)?;
        let dense = candidates::find(dataset, MemoryText::Speaker, Params::paper().candidates, encode)?;
        Ok(Material { dataset, encoder, prepared, dense })
    }

    fn key(&self, settings: &Settings, recipe: &str, method: &str, seed: u64) -> RunKey {
        RunKey {
            dataset: self.dataset.name.clone(),
            split: settings.split.name(),
            encoder: self.encoder.clone(),
            recipe: recipe.to_owned(),
            method: method.to_owned(),
            seed,
        }
    }
}

/// What the end of training looked like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateRow {
    /// The run.
    #[serde(flatten)]
    pub key: RunKey,
    /// Of the five best, before learning; in 0..1.
    pub calibration_error_static: f64,
    /// The same after learning.
    pub calibration_error_learned: f64,
    /// How often the gate changed its mind.
    pub gate_turns: usize,
    /// Whether it held the learned order back in the end.
    pub gate_paused: bool,
}

/// Rankings that learn nothing, on all questions of a set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Untaught {
    /// Name of the data set.
    pub dataset: String,
    /// The model's name.
    pub encoder: String,
    /// Questions.
    pub n: usize,
    /// Recall@5 by cosine, in 0..1.
    pub dense: f64,
    /// By BM25.
    pub bm25: f64,
    /// By the static order of the recipe.
    pub fixed: f64,
}

const STATES: &str = "states.jsonl";
const UNTAUGHT: &str = "untaught.jsonl";

/// Runs every seed of one set and one encoder and keeps the rows; seeds that the folder has are not run again.
///
/// # Errors
/// Those of the disk.
pub fn run(settings: &Settings, folder: &ResultFolder, material: &Material<'_>, progress: &ProgressBar) -> Result<()> {
    let there = folder.rows()?;
    let known = |seed: &u64| there.iter().any(|row| row.key == material.key(settings, "default", "learned", *seed));
    let missing: Vec<u64> = settings.seed_list().into_iter().filter(|seed| !known(seed)).collect();
    if !missing.is_empty() {
        rows::append(&folder.file(UNTAUGHT), &[untaught(settings, material)?])?;
    }
    progress.set_length(missing.len() as u64);
    let writing = Mutex::new(());
    missing.par_iter().try_for_each(|seed| {
        let (rows, curve, state) = one_seed(settings, material, *seed)?;
        let _guard = writing.lock();
        rows::append(&folder.file("curve.jsonl"), &curve)?;
        rows::append(&folder.file(STATES), &[state])?;
        rows::append(&folder.file("rows.jsonl"), &rows)?;
        progress.inc(1);
        Ok(())
    })
}

fn untaught(settings: &Settings, material: &Material<'_>) -> Result<Untaught> {
    let (params, state) = (Params::default(), State::fixed(Without::default()));
    let all: Vec<usize> = (0..material.prepared.len()).collect();
    let recall = |how: Answer| {
        let (scores, _) = recipe::test(&state, &params, how, &material.prepared, &all, settings.quality, 0)?;
        anyhow::Ok(Scores::mean(&scores).recall_at_5)
    };
    Ok(Untaught {
        dataset: material.dataset.name.clone(),
        encoder: material.encoder.clone(),
        n: all.len(),
        dense: recall(Answer::Dense)?,
        bm25: recall(Answer::Lexical)?,
        fixed: recall(Answer::Ranked)?,
    })
}

fn one_seed(settings: &Settings, material: &Material<'_>, seed: u64) -> Result<(Vec<Row>, Vec<CurvePoint>, StateRow)> {
    let split = settings.divide(material.dataset, seed);
    let (mut rows, mut curve, state) = default_recipe(settings, material, &split, seed)?;
    for (name, method) in PAPER_METHODS {
        let (row, points) = paper_recipe(settings, material, &split, seed, name, method)?;
        rows.push(row);
        curve.extend(points);
    }
    Ok((rows, curve, state))
}

fn default_recipe(
    settings: &Settings,
    material: &Material<'_>,
    split: &Split,
    seed: u64,
) -> Result<(Vec<Row>, Vec<CurvePoint>, StateRow)> {
    let (params, cases) = (Params::default(), &material.prepared);
    let key = |method: &str| material.key(settings, "default", method, seed);
    let n = split.test.len();
    let answer =
        |state: &State, how: Answer| recipe::test(state, &params, how, cases, &split.test, settings.quality, seed);
    let fixed = State::fixed(Without::default());
    let mut curve = Vec::new();
    let mut last = fixed.clone();
    let mut seen = |n_train: usize, state: &State| {
        let scores = Scores::mean(&answer(state, Answer::Ranked)?.0);
        curve.push(CurvePoint { key: key("learned"), n, n_train, scores });
        last = state.clone();
        Ok(())
    };
    let critic = |n: usize| settings.critic(n, split.train.len());
    recipe::learn(cases, split, &critic, seed, &CHECKPOINTS, Without::default(), &mut seen)?;
    let row = |(method, how, learned): &(&str, Answer, bool)| {
        let (scores, calls) = answer(if *learned { &last } else { &fixed }, *how)?;
        let n_train = if *learned { split.train.len() } else { 0 };
        Ok(row_of(settings, key(method), &params, (n_train, ceiling(cases, &split.test)), &scores, calls))
    };
    let rows = METHODS.iter().map(row).collect::<Result<_>>()?;
    let state = StateRow {
        key: key("learned"),
        calibration_error_static: recipe::calibration_error(&fixed, cases, &split.test),
        calibration_error_learned: recipe::calibration_error(&last, cases, &split.test),
        gate_turns: last.turns,
        gate_paused: last.ranker.gate.is_paused(),
    };
    Ok((rows, curve, state))
}

/// The `paper` recipe on the same split with the same critic.
fn paper_recipe(
    settings: &Settings,
    material: &Material<'_>,
    split: &Split,
    seed: u64,
    name: &str,
    method: &str,
) -> Result<(Row, Vec<CurvePoint>)> {
    let methods = methods::paper(&Params::paper());
    let method = methods.iter().find(|known| known.name == method).context("no such method of the paper")?;
    let cases = &material.dense;
    let key = material.key(settings, "paper", name, seed);
    let test = |adapter: &Adapter, inference: Inference| {
        runner::test(adapter, &method.params, inference, cases, &split.test, settings.quality, seed)
    };
    let alone = method.inference == Inference::AdapterOnly;
    let mut curve = Vec::new();
    let mut seen = |n_train: usize, adapter: &Adapter| {
        if alone && CHECKPOINTS.contains(&n_train) {
            let scores = Scores::mean(&test(adapter, Inference::AdapterOnly)?.scores);
            curve.push(CurvePoint { key: key.clone(), n: split.test.len(), n_train, scores });
        }
        Ok(())
    };
    let critic = |n: usize| settings.critic(n, split.train.len());
    let adapter = runner::train_with(&method.params, cases, &split.train, &critic, seed, &mut seen)?;
    let tested = test(&adapter, method.inference)?;
    if alone {
        let scores = Scores::mean(&tested.scores);
        let n_train = split.train.len();
        curve.push(CurvePoint { key: key.clone(), n: split.test.len(), n_train, scores });
    }
    let tested_cases: Vec<Case> = split.test.iter().map(|index| cases[*index].clone()).collect();
    let n_train_and_ceiling = (split.train.len(), candidates::ceiling(&tested_cases));
    let calls = tested.critic_calls_per_query;
    Ok((row_of(settings, key, &method.params, n_train_and_ceiling, &tested.scores, calls), curve))
}

/// A row; `at` is the number of training questions and the pool's ceiling.
pub(super) fn row_of(
    settings: &Settings,
    key: RunKey,
    params: &Params,
    at: (usize, f64),
    scores: &[Scores],
    calls: f64,
) -> Row {
    Row {
        key,
        n: scores.len(),
        n_train: at.0,
        scores: Scores::mean(scores),
        critic_calls_per_query: calls,
        pool_ceiling: at.1,
        memory_text: MemoryText::Speaker.name(),
        params: *params,
        critic: settings.quality.into(),
        dimension: 0,
        recall_by_question: rows::recall_digits(scores),
        by_type: Vec::new(),
    }
}

/// Share of the questions whose gold is all in the pool and fits into a slate.
fn ceiling(cases: &[Prepared], questions: &[usize]) -> f64 {
    let whole = |index: &&usize| {
        let case = &cases[**index];
        case.gold_candidates.len() == case.gold.len() && case.gold.len() <= 5
    };
    questions.iter().filter(whole).count() as f64 / questions.len().max(1) as f64
}

/// Writes README, summary and figures of the folder from its rows.
///
/// # Errors
/// Those of the disk.
pub fn write_report(settings: &Settings, folder: &ResultFolder, provenance: &Provenance) -> Result<()> {
    folder.tidy()?;
    let rows = folder.rows()?;
    std::fs::write(folder.file("summary.md"), summary_of(settings, folder, &rows)?)?;
    std::fs::write(folder.file("README.md"), readme(settings, &rows, provenance))?;
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
             {}{}![learning curve](curve-{dataset}-{encoder}.svg)\n",
            summary::table(&rows, &encoder, &names, "static", &[]),
            untaught_words(folder, &dataset, &encoder)?,
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

fn readme(settings: &Settings, rows: &[Row], provenance: &Provenance) -> String {
    let mut text = format!(
        "# Recipe `default`\n\n\
         What the default recipe answers before and after learning from the labels of its own slates.\n\n\
         {}- seeds: {:?}\n- split: {}\n- parameters: in every line of `rows.jsonl`\n\n\
         Files: `summary.md` (tables), `rows.jsonl` (one line a run), `curve.jsonl` (the learned ranking after `n_train` \
         questions), figures.\n\n## What it shows\n\n",
        provenance.markdown(),
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
