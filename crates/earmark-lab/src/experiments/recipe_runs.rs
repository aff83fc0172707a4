//! Runs the `default` recipe, and `paper` beside it, over sets, encoders and seeds, and keeps the rows.

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
use crate::candidates::{self, Case, Encode};
use crate::data::Dataset;
use crate::evidence::{self, Prepared};
use crate::methods::{self, Inference};
use crate::metrics::Scores;
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
    /// For `paper`, a case a question; empty until [`Material::with_dense_pools`].
    pub dense: Vec<Case>,
}

impl<'a> Material<'a> {
    /// Encodes the set through `encode`.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn new(dataset: &'a Dataset, encoder: String, encode: &mut Encode<'_>) -> Result<Self> {
        let prepared = evidence::prepare(dataset, encode)?;
        Ok(Material { dataset, encoder, prepared, dense: Vec::new() })
    }

    /// Adds the pools of the `paper` recipe.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn with_dense_pools(mut self, encode: &mut Encode<'_>) -> Result<Self> {
        self.dense = candidates::find(self.dataset, MemoryText::Speaker, Params::paper().candidates, encode)?;
        Ok(self)
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

pub(super) const STATES: &str = "states.jsonl";
pub(super) const UNTAUGHT: &str = "untaught.jsonl";

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
