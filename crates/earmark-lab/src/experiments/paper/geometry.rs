//! Tables 11 and 12: whether the adapter moves queries to the memory store they need, on a set of our own with 25
//! episodic and 25 semantic memories and 10 queries (the paper's is not published).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use anyhow::{Context, Result};
use earmark::encode::Side;
use earmark::recall::{Adapter, Pool};
use earmark::{Params, Similarity};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Run;
use super::lab::Setting;
use super::reported::TABLE_12;
use crate::candidates::Encode;
use crate::data::LabMemory;
use crate::experiments::plan::ResultFolder;
use crate::figure::{self, Bar, Bars, Spread};
use crate::text::MemoryText;
use crate::{rows, runner, stats};

const FILE: &str = "geometry.jsonl";
const SET: &str = include_str!("diagnostic.json");

/// The diagnostic set.
#[derive(Debug, Deserialize)]
pub struct Diagnostic {
    /// Things that happened.
    pub episodic: Vec<Said>,
    /// Things that hold.
    pub semantic: Vec<Said>,
    /// Five that need either store.
    pub queries: Vec<Query>,
}

/// A memory of the set.
#[derive(Debug, Deserialize)]
pub struct Said {
    /// Who said it, or whom it is about.
    pub author: String,
    /// When it was said or noted.
    pub date: String,
    /// What.
    pub text: String,
}

/// A query of the set.
#[derive(Debug, Deserialize)]
pub struct Query {
    /// What is asked.
    pub text: String,
    /// `episodic` or `semantic`.
    pub store: String,
}

/// Δ of one query, Eq. (23): positive is nearer to the semantic memories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    /// The model's name.
    pub encoder: String,
    /// Of the training.
    pub learning_rate: f32,
    /// Seed of the training.
    pub seed: u64,
    /// Place in the set, from 1.
    pub query: usize,
    /// The store that it needs.
    pub store: String,
    /// With the base vectors.
    pub before: f64,
    /// With the trained adapter.
    pub after: f64,
}

/// The set, as it is in the crate.
///
/// # Errors
/// If it is not JSON of this form.
pub fn diagnostic() -> Result<Diagnostic> {
    serde_json::from_str(SET).context("diagnostic.json")
}

/// Trains on the dialogues and observations of the setting and measures every query, for the seeds that the folder
/// lacks.
///
/// # Errors
/// Those of the lab, or if the folder cannot be used.
pub fn run(run: &Run<'_>, setting: &Setting, folder: &ResultFolder) -> Result<bool> {
    let Run { experiment, options, lab } = run;
    let known: BTreeSet<(String, u64)> = read(folder)?.into_iter().map(|delta| (delta.encoder, delta.seed)).collect();
    let mut seeds = options.seed_list();
    seeds.retain(|seed| !known.contains(&(setting.encoder_name(), *seed)));
    if seeds.is_empty() {
        return Ok(false);
    }
    let (set, plan) = (diagnostic()?, options.plan(experiment, setting));
    let method = plan.methods.first().context("the experiment has no method")?;
    let (dataset, cases) = (lab.dataset(setting)?, lab.cases(setting, method.params.candidates)?);
    let probe = Probe::new(&set, setting.memory_text, &mut |texts, side| lab.encode(setting, texts, side))?;
    let (dataset, cases) = (&*dataset, &**cases);
    let of_seed = |seed: &u64| {
        let split = plan.divide(dataset, *seed);
        let adapter = runner::train(&method.params, cases, &split.train, method.quality, *seed, &mut |_, _| Ok(()))?;
        Ok(probe.deltas(&set, &adapter, &setting.encoder_name(), &method.params, *seed))
    };
    let deltas = seeds.par_iter().map(of_seed).collect::<Result<Vec<Vec<Delta>>>>()?;
    rows::append(&folder.file(FILE), &deltas.concat())?;
    Ok(true)
}

/// All measurements in a folder.
///
/// # Errors
/// If a line cannot be read.
pub fn read(folder: &ResultFolder) -> Result<Vec<Delta>> {
    rows::read(&folder.file(FILE))
}

/// For each query a pool of all episodic, then all semantic memories.
struct Probe {
    pools: Vec<Arc<Pool>>,
    episodic: usize,
}

impl Probe {
    fn new(set: &Diagnostic, text: MemoryText, encode: &mut Encode<'_>) -> Result<Self> {
        let memories: Vec<String> =
            set.episodic.iter().chain(&set.semantic).map(|said| text.of(&said.memory())).collect();
        let memories = encode(&memories.iter().map(String::as_str).collect::<Vec<_>>(), Side::Memory)?;
        let queries = encode(&set.queries.iter().map(|query| query.text.as_str()).collect::<Vec<_>>(), Side::Query)?;
        let pool = |query: &Vec<f32>| Ok(Arc::new(Pool::from_rows(query, &memories)?));
        Ok(Probe { pools: queries.iter().map(pool).collect::<Result<_>>()?, episodic: set.episodic.len() })
    }

    fn deltas(&self, set: &Diagnostic, adapter: &Adapter, encoder: &str, params: &Params, seed: u64) -> Vec<Delta> {
        let base = Adapter::zeros(adapter.dimension());
        let delta = |(index, (pool, query)): (usize, (&Arc<Pool>, &Query))| Delta {
            encoder: encoder.to_owned(),
            learning_rate: params.learning_rate,
            seed,
            query: index + 1,
            store: query.store.clone(),
            before: self.delta(pool, &base),
            after: self.delta(pool, adapter),
        };
        self.pools.iter().zip(&set.queries).enumerate().map(delta).collect()
    }

    /// Eq. (21) to (23).
    fn delta(&self, pool: &Pool, adapter: &Adapter) -> f64 {
        let cosines = adapter.adapt(pool, Similarity::Cosine).relevance.to_vec();
        let distance =
            |part: &[f32]| stats::mean(&part.iter().map(|cosine| 1.0 - f64::from(*cosine)).collect::<Vec<_>>());
        let (episodic, semantic) = cosines.split_at(self.episodic);
        distance(episodic) - distance(semantic)
    }
}

impl Said {
    fn memory(&self) -> LabMemory {
        LabMemory {
            id: String::new(),
            text: self.text.as_str().into(),
            caption: None,
            author: Some(self.author.clone()),
            session: None,
            date: Some(self.date.clone()),
            occurred_at: None,
            kind: None,
        }
    }
}

/// How the stores lie, in words and a table, for one encoder.
///
/// # Errors
/// If the diagnostic set cannot be read.
pub fn section(deltas: &[Delta], encoder: &str) -> Result<String> {
    let of: Vec<&Delta> = deltas.iter().filter(|delta| delta.encoder == encoder).collect();
    let mut text = "Δ is the mean distance to the episodic memories less that to the semantic ones (Eq. 21 to 23): \
        negative is nearer to the episodic ones. Mean ± standard deviation over seeds. The paper's queries are others.\n\n\
        | query | needs | Δ before | Δ after | paper: needs | Δ before | Δ after |\n|---|---|---|---|---|---|---|\n"
        .to_owned();
    for (index, query) in diagnostic()?.queries.iter().enumerate() {
        let (before, after) =
            (spread(&of, index + 1, |delta| delta.before), spread(&of, index + 1, |delta| delta.after));
        let (store, paper_before, paper_after) = TABLE_12[index];
        let _ = writeln!(
            text,
            "| {} {} | {} | {:+.3} | {:+.3} ± {:.3} | {store} | {paper_before:+.3} | {paper_after:+.3} |",
            index + 1,
            query.text,
            query.store,
            before.mean,
            after.mean,
            after.std
        );
    }
    let _ = write!(text, "\n{}\n![geometry](geometry-{encoder}.svg)\n", separation(&of));
    Ok(text)
}

fn spread(deltas: &[&Delta], query: usize, value: impl Fn(&Delta) -> f64) -> Spread {
    let values: Vec<f64> = deltas.iter().filter(|delta| delta.query == query).map(|delta| value(delta)).collect();
    Spread { mean: stats::mean(&values), std: stats::std(&values) }
}

/// How far apart the two kinds of queries are, before and after.
fn separation(deltas: &[&Delta]) -> String {
    let mean = |store: &str, value: fn(&Delta) -> f64| {
        stats::mean(&deltas.iter().filter(|delta| delta.store == store).map(|delta| value(delta)).collect::<Vec<_>>())
    };
    let gap = |value: fn(&Delta) -> f64| mean("semantic", value) - mean("episodic", value);
    let right = |value: fn(&Delta) -> f64| {
        let fits = |delta: &&&Delta| (value(delta) > 0.0) == (delta.store == "semantic");
        100.0 * deltas.iter().filter(fits).count() as f64 / deltas.len().max(1) as f64
    };
    let paper = |store: &str, value: fn(&(&str, f64, f64)) -> f64| {
        stats::mean(&TABLE_12.iter().filter(|line| line.0 == store).map(value).collect::<Vec<_>>())
    };
    let paper_gap = |value: fn(&(&str, f64, f64)) -> f64| paper("semantic", value) - paper("episodic", value);
    format!(
        "Mean Δ of the semantic queries less that of the episodic ones: {:+.3} before, {:+.3} after (paper {:+.3} and {:+.3}). \
         Queries on the side of the store they need: {:.0} % before, {:.0} % after (paper 70 and 100).\n",
        gap(|delta| delta.before),
        gap(|delta| delta.after),
        paper_gap(|line| line.1),
        paper_gap(|line| line.2),
        right(|delta| delta.before),
        right(|delta| delta.after),
    )
}

/// Draws Δ before and after for one encoder. Bars start at 0, so the shift towards the needed store is drawn.
///
/// # Errors
/// If the set cannot be read or the file not be written.
pub fn draw(folder: &ResultFolder, deltas: &[Delta], encoder: &str) -> Result<()> {
    let of: Vec<&Delta> = deltas.iter().filter(|delta| delta.encoder == encoder).collect();
    let seeds = of.iter().filter(|delta| delta.query == 1).count();
    let bar = |number: usize, store: &str, after: bool| {
        let sign = if store == "semantic" { 100.0 } else { -100.0 };
        let (_, before, later) = TABLE_12[number - 1];
        Bar {
            name: format!("{number} {store}, {}", if after { "after" } else { "before" }),
            value: spread(&of, number, |delta| sign * if after { delta.after } else { delta.before }),
            paper: Some(sign * if after { later } else { before }),
            marked: after,
        }
    };
    let queries = diagnostic()?.queries;
    let lines = queries.iter().enumerate();
    let figure = Bars {
        title: format!("{encoder}: nearness of 10 queries to the store they need (seeds: {seeds})"),
        axis: "100 x Δ, towards the needed store (negative: towards the other)".into(),
        bars: lines.flat_map(|(i, query)| [false, true].map(|after| bar(i + 1, &query.store, after))).collect(),
        groups: ["base vectors".into(), "trained adapter".into()],
        paper: "paper (other queries)".into(),
    };
    figure::draw_bars(&folder.file(&format!("geometry-{encoder}.svg")), &figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_as_large_as_the_papers() {
        let set = diagnostic().unwrap();
        assert_eq!((set.episodic.len(), set.semantic.len(), set.queries.len()), (25, 25, 10));
        let needs = |store: &str| set.queries.iter().filter(|query| query.store == store).count();
        assert_eq!((needs("episodic"), needs("semantic")), (5, 5));
        let texts: BTreeSet<&str> = set.episodic.iter().chain(&set.semantic).map(|said| said.text.as_str()).collect();
        assert_eq!(texts.len(), 50);
    }

    #[test]
    fn eq23_delta_by_hand() {
        // Cosines 1 and 0 to the episodic memories, 0 to the semantic one: 0.5 - 1.
        let pool = Pool::from_rows(&[1.0, 0.0], &[[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]).unwrap();
        let probe = Probe { pools: Vec::new(), episodic: 2 };
        assert!((probe.delta(&pool, &Adapter::zeros(2)) + 0.5).abs() < 1e-6);
    }
}
