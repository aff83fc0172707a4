//! The `default` recipe on one data set: what it learns from the citations of the slates it serves, and what critic
//! calls add, beside the static rankings.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::Result;
use earmark::Params;
use earmark::critic::{Critic, Quality, Simulated};
use earmark::learn::{
    Gate, HIT_RATE, Past, PastLabel, PastQuestion, Ranker, hindsight, logit, probability, static_agreement,
};
use earmark::random::{Random, Seeded, normal};
use earmark::recall::{
    Candidate, FEATURES, Label, PAST_FEATURES, PosteriorEpisode, STATIC_PRECISION, STATIC_WEIGHTS, top_k,
};

use crate::evidence::Prepared;
use crate::metrics::Scores;
use crate::split::Split;

/// Slate size of the benchmarks.
const SIZE: usize = 5;
/// Candidates from which the last place may be drawn.
const DRAWN_FROM: usize = 25;
/// A critic that is trusted less is not asked.
const LEAST_TRUST: f32 = 0.05;
/// Questions kept as past, as in the product.
const PAST_LIMIT: usize = 2_000;

/// How a test question is answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// By cosine alone.
    Dense,
    /// By BM25 alone.
    Lexical,
    /// By the ranking as it is; no critic call.
    Ranked,
    /// After up to so many critic calls, which read the test question's labels; with `auto` it stops early.
    Explored {
        /// Most calls.
        calls: usize,
        /// Stop when little is left to find.
        auto: bool,
    },
}

/// What of the recipe is left out or replaced, for ablations. Nothing by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Without {
    /// Features that are 0 throughout.
    pub features: &'static [Range<usize>],
    /// The weights stay those of the static ranking.
    pub fitting: bool,
    /// Every label is believed.
    pub trust: bool,
    /// A fit takes it that every useful memory was labelled useful.
    pub misses: bool,
    /// The learned order always ranks.
    pub gate: bool,
    /// No critic: the labels are the gold ones of all candidates of a training question, and all are believed.
    pub critic: bool,
    /// The last place is not for the next best: while learning it goes to the favourite, of the 25 best, of weights that
    /// are drawn from their posterior (Thompson sampling).
    pub last_place: bool,
}

impl Without {
    fn mask(&self, row: &mut [f32; FEATURES]) {
        self.features.iter().for_each(|range| row[range.clone()].fill(0.0));
    }
}

/// The learned state: the ranker and the past.
#[derive(Debug, Clone)]
pub struct State {
    /// Weights and gate.
    pub ranker: Ranker,
    /// How often the gate has changed its mind.
    pub turns: usize,
    /// Of the slates that were served while learning.
    pub served: Vec<Scores>,
    without: Without,
    past: Past,
    /// Unit vectors of memories that were useful, by key.
    useful: HashMap<i64, Vec<f32>>,
}

impl State {
    /// Before anything was learned.
    pub fn fixed(without: Without) -> State {
        let (ranker, past) = (Ranker::default(), Past::new(PAST_LIMIT));
        State { ranker, turns: 0, served: Vec::new(), without, past, useful: HashMap::new() }
    }

    /// Features `[K x F]` of a question with the past filled in, and their log-odds `[K]`.
    fn rank(&self, case: &Prepared) -> (Vec<[f32; FEATURES]>, Vec<f32>) {
        let speaking = self.past.speaking(case.pool.query());
        let memories = case.pool.memories();
        let row = |i: usize| {
            let vector = memories.row(i).to_vec();
            let past = hindsight(&speaking, &self.useful, case.keys[i], &vector);
            let mut row = case.features[i];
            let values = [past.useful, past.useless, past.like_useful];
            row[PAST_FEATURES..].copy_from_slice(&values);
            self.without.mask(&mut row);
            row
        };
        let rows: Vec<[f32; FEATURES]> = (0..case.rows.len()).map(row).collect();
        let scores = rows.iter().map(|row| self.ranker.score(row) as f32).collect();
        (rows, scores)
    }

    /// The best of `among` by weights drawn from a normal around those in force, with the diagonal of the posterior's
    /// precision.
    fn drawn_favourite(&self, rows: &[[f32; FEATURES]], among: &[usize], random: &mut dyn Random) -> usize {
        let mut precision = STATIC_PRECISION;
        for (question, trust) in self.past.questions() {
            for label in &question.labels {
                let p = probability(&self.ranker.weights, &label.features);
                let curvature = f64::from(trust) * p * (1.0 - p);
                precision.iter_mut().zip(&label.features).for_each(|(sum, x)| *sum += curvature * f64::from(x * x));
            }
        }
        let around = self.ranker.weights.iter().zip(&precision);
        let drawn: Vec<f64> = around.map(|(w, precision)| w + f64::from(normal(random)) / precision.sqrt()).collect();
        let scores: Vec<f32> = among.iter().map(|&i| logit(&drawn, &rows[i]) as f32).collect();
        among[top_k(&scores, 1)[0]]
    }

    /// Probabilities that the best five are useful, and whether they are.
    fn forecasts(&self, case: &Prepared) -> Vec<(f64, bool)> {
        let (rows, scores) = self.rank(case);
        let forecast = |i: usize| (probability(&self.ranker.weights, &rows[i]), case.gold.contains(&case.rows[i]));
        top_k(&scores, SIZE).into_iter().map(forecast).collect()
    }

    /// Learns from the `n`-th labelled question.
    fn learn(&mut self, n: usize, case: &Prepared, labels: Vec<PastLabel>) {
        for label in labels.iter().filter(|label| label.useful) {
            if let Some(place) = case.keys.iter().position(|key| *key == label.key) {
                self.useful.insert(label.key, case.pool.memories().row(place).to_vec());
            }
        }
        let query = case.pool.query().to_vec();
        let agreement = static_agreement(&labels);
        let question = PastQuestion {
            sequence: n as i64,
            query,
            labels,
            agreement,
            explicit: self.without.trust || self.without.critic,
            hit_rate: if self.without.misses || self.without.critic { 1.0 } else { HIT_RATE },
        };
        let before = self.ranker.gate.is_paused();
        self.ranker.learn(&mut self.past, question, n as i64);
        if self.without.gate {
            self.ranker.gate = Gate::default();
        }
        if self.without.fitting {
            self.ranker.weights = STATIC_WEIGHTS.to_vec();
        }
        self.turns += usize::from(self.ranker.gate.is_paused() != before);
    }
}

/// Learns from the training questions in order: each is served by the ranking of the moment, its five memories are
/// labelled by the simulated critic, and the weights are fitted again. `seen` hears of the state at each number of
/// questions in `checkpoints` and at the end.
///
/// # Errors
/// Those of `seen`.
pub fn learn(
    cases: &[Prepared],
    split: &Split,
    quality: &dyn Fn(usize) -> Quality,
    seed: u64,
    checkpoints: &[usize],
    without: Without,
    seen: &mut dyn FnMut(usize, &State) -> Result<()>,
) -> Result<()> {
    let mut state = State::fixed(without);
    let mut random = Seeded::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(1));
    seen(0, &state)?;
    for (n, index) in split.train.iter().enumerate() {
        let case = &cases[*index];
        let labels = match without.critic {
            true => gold_labels(&state, case),
            false => serve_and_label(&mut state, case, quality(n), &mut random)?,
        };
        let n = n + 1;
        state.learn(n, case, labels);
        if checkpoints.contains(&n) || n == split.train.len() {
            seen(n, &state)?;
        }
    }
    Ok(())
}

fn gold_labels(state: &State, case: &Prepared) -> Vec<PastLabel> {
    let (rows, _) = state.rank(case);
    let label = |(i, row): (usize, &[f32; FEATURES])| {
        let useful = case.gold.contains(&case.rows[i]);
        PastLabel { key: case.keys[i], useful, features: row.to_vec() }
    };
    rows.iter().enumerate().map(label).collect()
}

fn serve_and_label(
    state: &mut State,
    case: &Prepared,
    quality: Quality,
    random: &mut dyn Random,
) -> Result<Vec<PastLabel>> {
    let (rows, scores) = state.rank(case);
    let mut places = top_k(&scores, SIZE);
    if state.without.last_place && places.len() == SIZE {
        places[SIZE - 1] = state.drawn_favourite(&rows, &top_k(&scores, DRAWN_FROM)[SIZE - 1..], random);
    }
    let served: Vec<usize> = places.iter().map(|&i| case.rows[i]).collect();
    state.served.push(Scores::of(&served, &case.gold));
    let slate: Vec<Candidate> = places.into_iter().map(Candidate).collect();
    let labels = Simulated { gold: &case.gold_candidates, quality, random }.judge(&slate)?;
    let label = |(candidate, label): (&Candidate, &Option<Label>)| {
        let useful = (*label)? == Label::Useful;
        Some(PastLabel { key: case.keys[candidate.0], useful, features: rows[candidate.0].to_vec() })
    };
    Ok(slate.iter().zip(&labels).filter_map(label).collect())
}

/// Answers the test questions; returns their scores and the critic calls for each on average.
///
/// # Errors
/// Those of the critic.
pub fn test(
    state: &State,
    params: &Params,
    answer: Answer,
    cases: &[Prepared],
    questions: &[usize],
    quality: Quality,
    seed: u64,
) -> Result<(Vec<Scores>, f64)> {
    let mut calls = 0;
    let mut scores = Vec::with_capacity(questions.len());
    for index in questions {
        let case = &cases[*index];
        let rows = match answer {
            Answer::Dense => case.dense_top.clone(),
            Answer::Lexical => case.lexical_top.clone(),
            Answer::Ranked => top_k(&state.rank(case).1, SIZE).into_iter().map(|i| case.rows[i]).collect(),
            Answer::Explored { calls: most, auto } => {
                let mut random = Seeded::new(seed.wrapping_mul(1_000_003).wrapping_add(*index as u64));
                let mut critic = Simulated { gold: &case.gold_candidates, quality, random: &mut random };
                let (rows, used) = explore(state, params, case, most, auto, &mut critic)?;
                calls += used;
                rows
            }
        };
        scores.push(Scores::of(&rows, &case.gold));
    }
    Ok((scores, calls as f64 / questions.len().max(1) as f64))
}

/// Expected calibration error of the five best of each test question: candidates are put into ten bins by their
/// predicted probability of being useful; the mean over candidates of |mean prediction - share that is useful| of
/// their bin, in [0, 1].
pub fn calibration_error(state: &State, cases: &[Prepared], questions: &[usize]) -> f64 {
    const BINS: usize = 10;
    let mut bins = [(0.0, 0.0, 0usize); BINS];
    for (p, useful) in questions.iter().flat_map(|index| state.forecasts(&cases[*index])) {
        let (sum, hits, n) = &mut bins[((p * BINS as f64) as usize).min(BINS - 1)];
        (*sum, *hits, *n) = (*sum + p, *hits + f64::from(u8::from(useful)), *n + 1);
    }
    let all = bins.iter().map(|(_, _, n)| n).sum::<usize>().max(1) as f64;
    bins.iter().map(|(sum, hits, _)| (sum - hits).abs()).sum::<f64>() / all
}

fn explore(
    state: &State,
    params: &Params,
    case: &Prepared,
    most: usize,
    auto: bool,
    critic: &mut dyn Critic,
) -> Result<(Vec<usize>, usize)> {
    let trust = state.past.critic_trust();
    let mut episode = PosteriorEpisode::new(case.pool.clone(), state.rank(case).1, trust, params);
    let most = if trust > LEAST_TRUST { most } else { 0 };
    let mut used = 0;
    while used < most && !(auto && episode.is_settled(SIZE)) {
        let slate = episode.next_slate(SIZE);
        if slate.is_empty() {
            break;
        }
        let labels = critic.judge(&slate.candidates())?;
        episode.observe(&slate, &labels);
        used += 1;
    }
    let served = episode.finish(SIZE).candidates();
    Ok((served.iter().map(|candidate| case.rows[candidate.0]).collect(), used))
}
