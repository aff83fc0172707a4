//! What the `default` recipe costs: ranking one question beyond the paper's adapter, and closing a recall.
//!
//! `cargo run --release -p earmark --example cost_bench -- --recalls 2000`
//!
//! Memories and questions are made up: directions around common centres, words from a small vocabulary. A closed
//! recall learns at once, refits included.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use earmark::learn::{HIT_RATE, Past, PastLabel, PastQuestion, hindsight, logit};
use earmark::lexical::{Moments, WordScore};
use earmark::recall::{
    Adapter, Corpus, Evidence, FEATURES, Facts, Hindsight, Pool, PosteriorEpisode, Question, STATIC_WEIGHTS, features,
};
use earmark::{
    Earmark, Error, Feedback, NewMemory, Params, RecallRequest, Recipe, Scope, Settings, Similarity, store, vector,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const DIMENSION: usize = 384;
const CANDIDATES: usize = 50;
const MEMORIES: usize = 2_000;
const PAST: usize = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recalls = recalls()?;
    let mut random = ChaCha8Rng::seed_from_u64(7);
    println!("d = {DIMENSION}, K = {CANDIDATES}, {PAST} past questions; {MEMORIES} memories, {recalls} recalls\n");
    println!("| what | median | p99 | mean |\n|---|---|---|---|");
    ranking(&mut random)?;
    closing(&mut random, recalls)?;
    Ok(())
}

fn recalls() -> Result<usize, Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => Ok(2_000),
        [flag, count] if flag == "--recalls" => Ok(count.parse()?),
        _ => Err("usage: cost_bench [--recalls N]".into()),
    }
}

fn row(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let mean = times.iter().sum::<Duration>().as_secs_f64() * 1e3 / times.len() as f64;
    println!("| {what} | {:.3} ms | {:.3} ms | {mean:.3} ms |", at(0.5), at(0.99));
}

fn direction(random: &mut ChaCha8Rng) -> Vec<f32> {
    let mut vector: Vec<f32> = (0..DIMENSION).map(|_| random.random_range(-1.0..1.0)).collect();
    vector::normalize(&mut vector);
    vector
}

fn near(centre: &[f32], random: &mut ChaCha8Rng) -> Vec<f32> {
    let noise = direction(random);
    let mut vector: Vec<f32> = centre.iter().zip(&noise).map(|(c, n)| c + n).collect();
    vector::normalize(&mut vector);
    vector
}

fn sentence(random: &mut ChaCha8Rng, words: usize) -> String {
    let word = |random: &mut ChaCha8Rng| format!("word{}", (3_000.0 * random.random::<f64>().powi(2)) as u32);
    (0..words).map(|_| word(random)).collect::<Vec<_>>().join(" ")
}

/// Features, weights, beliefs and the first slate of one question, against the paper's adapted relevance.
fn ranking(random: &mut ChaCha8Rng) -> earmark::Result<()> {
    let centre = direction(random);
    let (mut extra, mut adapter_times) = (Vec::new(), Vec::new());
    let past = past(random, &centre);
    let adapter = Adapter::zeros(DIMENSION);
    for _ in 0..500 {
        let query = near(&centre, random);
        let memories: Vec<Vec<f32>> = (0..CANDIDATES).map(|_| near(&centre, random)).collect();
        let rows: Vec<&[f32]> = memories.iter().map(Vec::as_slice).collect();
        let pool = Arc::new(Pool::from_rows(&query, &rows)?);
        let question = sentence(random, 8);
        let facts: Vec<Facts> =
            (0..CANDIDATES).map(|_| Facts::read(&sentence(random, 30), Some("Ada"), None)).collect();
        let start = Instant::now();
        let slate = extra_work(&past, &question, &query, &memories, &facts, &pool);
        extra.push(start.elapsed());
        black_box(slate);
        let start = Instant::now();
        black_box(adapter.adapt(&pool, Similarity::Cosine));
        adapter_times.push(start.elapsed());
    }
    row("the paper's adapted relevance", adapter_times);
    row("features, past feedback, weights, beliefs, slate", extra);
    Ok(())
}

fn past(random: &mut ChaCha8Rng, centre: &[f32]) -> Past {
    let mut past = Past::new(PAST);
    for sequence in 0..PAST as i64 {
        let labels =
            (0..5).map(|i| PastLabel { key: sequence % 40 + i, useful: i == 0, features: vec![0.1; FEATURES] });
        past.push(PastQuestion {
            sequence,
            query: near(centre, random),
            labels: labels.collect(),
            agreement: Some(0.8),
            explicit: false,
            hit_rate: HIT_RATE,
        });
    }
    past
}

fn extra_work(
    past: &Past,
    question: &str,
    query: &[f32],
    memories: &[Vec<f32>],
    facts: &[Facts],
    pool: &Arc<Pool>,
) -> earmark::recall::Slate {
    let asked = Question::read(question);
    let corpus = Corpus {
        dense: Moments { mean: 0.1, deviation: 0.1 },
        lexical: Moments { mean: 0.5, deviation: 1.0 },
        mean_length: 30.0,
        ..Corpus::default()
    };
    let speaking = past.speaking(query);
    let useful: HashMap<i64, Vec<f32>> =
        (0..CANDIDATES as i64).map(|key| (key, memories[key as usize].clone())).collect();
    let evidence: Vec<Evidence> = (0..memories.len())
        .map(|i| Evidence {
            dense: vector::dot(query, &memories[i]),
            words: WordScore { bm25: i as f32 / 10.0, ..WordScore::default() },
            facts: facts[i].clone(),
            past: Hindsight { ..hindsight(&speaking, &useful, i as i64, &memories[i]) },
            ..Evidence::default()
        })
        .collect();
    let rows = features(&asked, &corpus, &evidence);
    let log_odds = rows.iter().map(|row| logit(&STATIC_WEIGHTS, row) as f32).collect();
    PosteriorEpisode::new(pool.clone(), log_odds, 1.0, &Params::default()).next_slate(5)
}

/// Recalls with their feedback, from the first to the last.
fn closing(random: &mut ChaCha8Rng, recalls: usize) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let centres: Vec<Vec<f32>> = (0..50).map(|_| direction(random)).collect();
    let no_encoder = || Err(Error::Encoder { model: "none".into(), reason: "vectors are given".into() });
    let settings = Settings { params: Params { recipe: Recipe::Default, ..Params::default() }, ..Settings::default() };
    let memory = Earmark::open(folder.path(), settings, no_encoder)?.namespace("bench")?;
    let model = store::EncoderStamp { model: "bench".to_owned(), dimension: DIMENSION };
    memory.store().stamp_encoder(&model)?;
    let insert = |random: &mut ChaCha8Rng, i: usize| store::Insert {
        memory: NewMemory::new(sentence(random, 20)),
        vector: near(&centres[i % centres.len()], random),
        words: sentence(random, 20),
    };
    memory.store().insert((0..MEMORIES).map(|i| insert(random, i)).collect())?;
    let (mut recall_times, mut close_times) = (Vec::new(), Vec::new());
    for i in 0..recalls {
        let query = near(&centres[i % centres.len()], random);
        let request = RecallRequest {
            query_vector: Some(query),
            scope: Scope::default(),
            ..RecallRequest::new(sentence(random, 8))
        };
        let start = Instant::now();
        let recall = memory.recall(&request)?;
        recall_times.push(start.elapsed());
        let (first, rest) = recall.results.split_first().ok_or("nothing was recalled")?;
        let feedback = Feedback {
            useful: vec![first.memory.id.clone()],
            not_useful: rest.iter().map(|result| result.memory.id.clone()).collect(),
            ..Feedback::default()
        };
        let start = Instant::now();
        memory.feedback(&recall.recall_id, &feedback)?;
        close_times.push(start.elapsed());
    }
    let late = close_times.split_off(recalls / 2);
    row("recall", recall_times);
    row("closing a recall, first half", close_times);
    row("closing a recall, second half", late);
    Ok(())
}
