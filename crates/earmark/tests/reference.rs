//! The training loop against a reference in NumPy (`reference/ear_reference.py`) on the same random numbers.

use std::sync::Arc;

use earmark::Params;
use earmark::critic::{Quality, Simulated};
use earmark::learn::cycle::{Trainee, train_query};
use earmark::learn::{Buffer, Learner};
use earmark::random::Recorded;
use earmark::recall::{Adapter, Candidate, Label, Pool, top_k};
use earmark::vector::cosine;
use ndarray::Array2;
use serde::Deserialize;

#[derive(Deserialize)]
struct Input {
    bank: Vec<Vec<f32>>,
    questions: Vec<Question>,
    initial_weights: [Vec<Vec<f32>>; 2],
    critic_uniforms: Vec<f64>,
    learner_uniforms: Vec<f64>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Question {
    query: Vec<f32>,
    gold: Vec<usize>,
}

#[derive(Deserialize)]
struct Run {
    name: String,
    given_weights: bool,
    params: Params,
}

#[derive(Deserialize, Debug)]
struct Output {
    name: String,
    candidates: Vec<Vec<usize>>,
    slates: Vec<Vec<Vec<usize>>>,
    labels: Vec<Vec<Vec<f32>>>,
    losses: Vec<f32>,
    weights: [Vec<Vec<f32>>; 2],
    drawn: [usize; 2],
}

fn fixture<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let path = format!("{}/tests/fixtures/reference/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn matrix(rows: &[Vec<f32>]) -> Array2<f32> {
    Array2::from_shape_fn((rows.len(), rows[0].len()), |(i, j)| rows[i][j])
}

fn start(input: &Input, run: &Run) -> Trainee {
    let adapter = match run.given_weights {
        true => Adapter {
            query_weights: matrix(&input.initial_weights[0]),
            memory_weights: matrix(&input.initial_weights[1]),
        },
        false => Adapter::zeros(input.bank[0].len()),
    };
    Trainee { learner: Learner::from_adapter(&run.params, adapter), buffer: Buffer::default() }
}

/// Follows one run, and gives back the largest errors of losses and weights.
fn follow(input: &Input, run: &Run, want: &Output) -> [f32; 2] {
    assert_eq!(run.name, want.name);
    let mut trainee = start(input, run);
    let mut noise = Recorded::new(input.critic_uniforms.clone());
    let mut random = Recorded::new(input.learner_uniforms.clone());
    let mut losses = Vec::new();
    for (n, question) in input.questions.iter().enumerate() {
        let scores: Vec<f32> = input.bank.iter().map(|m| cosine(&question.query, m)).collect();
        let rows = top_k(&scores, run.params.candidates);
        assert_eq!(rows, want.candidates[n], "{}: candidates of query {n}", run.name);
        let memories: Vec<&[f32]> = rows.iter().map(|row| input.bank[*row].as_slice()).collect();
        let pool = Arc::new(Pool::from_rows(&question.query, &memories).unwrap());
        let place = |gold: &usize| rows.iter().position(|row| row == gold).map(Candidate);
        let gold: Vec<Candidate> = question.gold.iter().filter_map(place).collect();
        let mut critic = Simulated { gold: &gold, quality: Quality::paper(), random: &mut noise };
        let trained = train_query(&mut trainee, &pool, &mut critic, &mut random).unwrap();
        let rounds = trained.closed.rounds;
        let slates: Vec<Vec<usize>> = rounds.iter().map(|r| r.slate.iter().map(|c| c.0).collect()).collect();
        assert_eq!(slates, want.slates[n], "{}: slates of query {n}", run.name);
        let labels: Vec<Vec<f32>> =
            rounds.iter().map(|r| r.labels.iter().flatten().map(|l: &Label| l.value()).collect()).collect();
        assert_eq!(labels, want.labels[n], "{}: labels of query {n}", run.name);
        losses.extend(trained.update.map(|update| update.loss));
    }
    assert_eq!([noise.drawn(), random.drawn()], want.drawn, "{}: random numbers", run.name);
    assert_eq!(losses.len(), want.losses.len());
    let adapter = trainee.learner.adapter();
    let largest = |errors: &mut dyn Iterator<Item = f32>| errors.fold(0.0, |most: f32, e| most.max(e.abs()));
    let got = adapter.query_weights.iter().chain(&adapter.memory_weights);
    let wanted = want.weights.iter().flatten().flatten();
    [
        largest(&mut losses.iter().zip(&want.losses).map(|(a, b)| a - b)),
        largest(&mut got.zip(wanted).map(|(a, b)| a - b)),
    ]
}

#[test]
fn every_run_follows_the_reference() {
    let (input, outputs): (Input, Vec<Output>) = (fixture("input"), fixture("output"));
    assert_eq!(input.runs.len(), outputs.len());
    for (run, want) in input.runs.iter().zip(&outputs) {
        let [loss, weights] = follow(&input, run, want);
        println!("{:<28} loss {loss:.1e}  weights {weights:.1e}", run.name);
        assert!(loss < 2e-5 && weights < 2e-5, "{}: loss {loss:e}, weights {weights:e}", run.name);
    }
}
