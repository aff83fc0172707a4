//! Table 8: what a query costs at test, by stage.

use std::fmt::Write;
use std::time::Instant;

use anyhow::Result;
use earmark::critic::{Quality, Simulated};
use earmark::encode::Side;
use earmark::learn::cycle::{adapter_only, explorer_assisted};
use earmark::random::Seeded;
use earmark::recall::{Adapter, Candidate, Pool, top_k};
use serde::{Deserialize, Serialize};

use super::lab::{Lab, Setting};
use super::reported::TABLE_8_SECONDS;
use super::{Options, Run};
use crate::candidates::{self, Embedded};
use crate::data::{Dataset, Question};
use crate::experiments::plan::ResultFolder;
use crate::rows;

const FILE: &str = "latency.jsonl";
/// Questions that are timed.
const TIMED: usize = 200;
/// Calls of the critic that the paper's Explorer adds at test.
const CALLS: f64 = 3.0;

/// What one stage took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// Name of the set.
    pub dataset: String,
    /// The model's name.
    pub encoder: String,
    /// `encode`, `retrieve`, `adapt` or `explore`.
    pub stage: String,
    /// Timed questions.
    pub n: usize,
    /// Memories in a bank, mean over the questions.
    pub memories: f64,
    /// Half of the questions took at most so long.
    pub median_ms: f64,
    /// 95 % of the questions took at most so long.
    pub p95_ms: f64,
}

/// Times all stages on one set and encoder, on one thread, unless the folder has them.
///
/// # Errors
/// Those of the lab, or if the folder cannot be written.
pub fn run(run: &Run<'_>, setting: &Setting, folder: &ResultFolder) -> Result<bool> {
    let known = read(folder)?;
    let (dataset, encoder) = (setting.dataset_name(), setting.encoder_name());
    if known.iter().any(|time| time.dataset == dataset && time.encoder == encoder) {
        return Ok(false);
    }
    rows::append(&folder.file(FILE), &time(run.options, run.lab, setting)?)?;
    Ok(true)
}

/// All times in a folder.
///
/// # Errors
/// If a line cannot be read.
pub fn read(folder: &ResultFolder) -> Result<Vec<StageTime>> {
    rows::read(&folder.file(FILE))
}

fn time(options: &Options, lab: &Lab<'_>, setting: &Setting) -> Result<Vec<StageTime>> {
    let dataset = timed_part(&*lab.dataset(setting)?);
    let texts: Vec<Vec<String>> = dataset
        .banks
        .iter()
        .map(|bank| bank.memories.iter().map(|memory| setting.memory_text.of(memory)).collect())
        .collect();
    let all = texts.iter().flatten().map(String::as_str);
    let vectors = Embedded::new(all, Side::Memory, &mut |texts, side| lab.encode(setting, texts, side))?;
    let mut took: [Vec<f64>; 4] = Default::default();
    for question in &dataset.questions {
        let bank: Vec<&[f32]> = texts[question.bank].iter().map(|text| vectors.vector(text)).collect();
        let stages = time_question(options, lab, setting, question, &bank)?;
        took.iter_mut().zip(stages).for_each(|(all, one)| all.push(one));
    }
    let sizes = dataset.questions.iter().map(|question| texts[question.bank].len());
    let memories = sizes.sum::<usize>() as f64 / dataset.questions.len().max(1) as f64;
    let stage = |(name, mut took): (&str, Vec<f64>)| {
        took.sort_by(f64::total_cmp);
        let at = |share: f64| took.get((share * took.len() as f64) as usize).copied().unwrap_or_default();
        StageTime {
            dataset: setting.dataset_name(),
            encoder: setting.encoder_name(),
            stage: name.to_owned(),
            n: took.len(),
            memories,
            median_ms: at(0.5),
            p95_ms: at(0.95),
        }
    };
    Ok(["encode", "retrieve", "adapt", "explore"].into_iter().zip(took).map(stage).collect())
}

/// Evenly spread questions, and the banks of these alone.
fn timed_part(dataset: &Dataset) -> Dataset {
    let step = dataset.questions.len().div_ceil(TIMED).max(1);
    let questions: Vec<Question> = dataset.questions.iter().step_by(step).cloned().collect();
    let mut banks = dataset.banks.clone();
    for (index, bank) in banks.iter_mut().enumerate() {
        if !questions.iter().any(|question| question.bank == index) {
            bank.memories.clear();
        }
    }
    Dataset { name: dataset.name.clone(), banks, questions }
}

/// Milliseconds of each stage. The weights are zeros, which cost as much as learned ones.
fn time_question(
    options: &Options,
    lab: &Lab<'_>,
    setting: &Setting,
    question: &Question,
    bank: &[&[f32]],
) -> Result<[f64; 4]> {
    let params = &options.params;
    let (query, encode) = timed(|| lab.encode_live(setting, &[&question.text], Side::Query));
    let query = query?.swap_remove(0);
    let (found, retrieve) = timed(|| {
        let rows = top_k(&candidates::cosines(&query, bank), params.candidates);
        let chosen: Vec<&[f32]> = rows.iter().map(|row| bank[*row]).collect();
        Pool::from_rows(&query, &chosen).map(|pool| (rows, std::sync::Arc::new(pool)))
    });
    let (rows, pool) = found?;
    let adapter = Adapter::zeros(query.len());
    let (_, adapt) = timed(|| adapter_only(&adapter, &pool, params));
    let is_gold = |place: &usize| question.gold.contains(&rows[*place]);
    let gold: Vec<Candidate> = (0..rows.len()).filter(is_gold).map(Candidate).collect();
    let mut random = Seeded::new(1);
    let mut critic = Simulated { gold: &gold, quality: Quality::paper(), random: &mut random };
    let (explored, explore) = timed(|| explorer_assisted(&adapter, &pool, params, &mut critic));
    explored?;
    Ok([encode, retrieve, adapt, explore])
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let started = Instant::now();
    let result = work();
    (result, 1000.0 * started.elapsed().as_secs_f64())
}

/// The stages of one set and encoder, and what they add up to for each method.
pub fn section(times: &[StageTime], dataset: &str, encoder: &str) -> String {
    let of: Vec<&StageTime> = times.iter().filter(|time| time.dataset == dataset && time.encoder == encoder).collect();
    let Some(first) = of.first() else { return String::new() };
    let mut text = format!(
        "\nOne thread, median of {} questions, {:.0} memories a bank (95 % in brackets). `explore` is the three rounds and the final \
         slate without the critic's own time, which the simulated critic does not have; the adapter is part of it.\n\n\
         | stage | ms |\n|---|---|\n",
        first.n, first.memories
    );
    for time in &of {
        let _ = writeln!(text, "| {} | {:.3} ({:.3}) |", time.stage, time.median_ms, time.p95_ms);
    }
    let ms = |stage: &str| of.iter().find(|time| time.stage == stage).map_or(0.0, |time| time.median_ms);
    let call = (TABLE_8_SECONDS[3].1 - TABLE_8_SECONDS[2].1) / CALLS;
    let _ = write!(
        text,
        "\n| method | ours, without encoding and critic, ms | critic calls | paper, s |\n|---|---|---|---|\n"
    );
    for (method, seconds) in TABLE_8_SECONDS {
        let (stages, calls) = match method {
            "only-retriever" => (ms("retrieve"), 0.0),
            "ear-explorer" => (ms("retrieve") + ms("explore"), CALLS),
            _ => (ms("retrieve") + ms("adapt"), 0.0),
        };
        let _ = writeln!(text, "| {method} | {stages:.3} | {calls:.0} | {seconds:.2} |");
    }
    let _ = writeln!(
        text,
        "\nThe paper's Explorer spends {call:.2} s a critic call: that, not the method, is its latency. Its memories are read from files, ours are in memory."
    );
    text
}
