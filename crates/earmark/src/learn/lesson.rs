//! Feedback as something to learn from: the current query and a replayed experience are the same lesson.

use std::sync::Arc;

use super::experience::{Experience, replay_label};
use crate::params::{LogProbability, Params, Probability, ReplayUnobserved};
use crate::random::Random;
use crate::recall::{Candidate, Closed, Label, Pool, Slate, gumbel_slate};

/// A share of a loss: `-Σ c_i ln p_i`, with `p` the softmax of `(z + g) / temperature` over the open candidates.
///
/// Each of Eq. (10), (16) and (17) is a sum of these. With a full softmax and no noise one term is a whole lesson;
/// Plackett-Luce needs one for each pick.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// `c [K]`: what each candidate's log probability is worth; 0 for those not shown.
    pub coefficients: Vec<f32>,
    /// `g [K]`; empty for none.
    pub noise: Vec<f32>,
    /// Candidates that earlier picks took out of the softmax.
    pub closed: Vec<Candidate>,
    /// Above 0.
    pub temperature: f32,
}

/// What one query, current or replayed, asks of the adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// Query and candidates, raw.
    pub pool: Arc<Pool>,
    /// The loss is `weight` times the sum of these.
    pub terms: Vec<Term>,
    /// 1 for the current query, `λ_rep / |J|` for a replayed one (Eq. 16-17).
    pub weight: f32,
}

/// One slate: its picks in slate order, with their labels where there are any, and the noise behind it.
struct Judged<'a> {
    picks: Vec<(Candidate, Option<Label>)>,
    noise: &'a [f32],
}

impl Judged<'_> {
    fn labels(&self) -> usize {
        self.picks.iter().filter(|(_, label)| label.is_some()).count()
    }
}

impl Lesson {
    /// The current query's lesson, Eq. (10): the mean over its judged rounds, `1 / (T s)` for each label.
    ///
    /// `s` is the number of judged places of the round; rounds without any are left out. `None` without a label.
    pub fn of_query(closed: &Closed, params: &Params) -> Option<Self> {
        let inside = |pick: &(Candidate, Option<Label>)| pick.0.0 < closed.pool.len();
        let rounds = closed.rounds.iter().map(|round| Judged {
            picks: round.picks().filter(inside).collect(),
            noise: if round.noise.len() == closed.pool.len() { &round.noise } else { &[] },
        });
        Lesson::of_slates(&closed.pool, &rounds.collect::<Vec<_>>(), 1.0, params)
    }

    /// A replayed experience's lesson (Algorithm 3, lines 17-20): a new slate from today's adapter by the Gumbel
    /// trick, Eq. (19), labelled by the sign of past feedback, Eq. (20).
    ///
    /// `relevance` is z `[K]` under today's adapter, `weight` is `λ_rep / |J|`. Draws one uniform a candidate. `None`
    /// if nothing of the slate counts.
    pub fn of_replay(
        experience: &Experience,
        relevance: &[f32],
        weight: f32,
        params: &Params,
        random: &mut dyn Random,
    ) -> Option<Self> {
        let slate = gumbel_slate(relevance, params.slate_size, random);
        let judged = Judged { picks: replay_labels(&slate, experience, params), noise: &slate.noise };
        Lesson::of_slates(&experience.pool, &[judged], weight, params)
    }

    fn of_slates(pool: &Arc<Pool>, slates: &[Judged], weight: f32, params: &Params) -> Option<Self> {
        let judged: Vec<&Judged> = slates.iter().filter(|slate| slate.labels() > 0).collect();
        let mut terms = Vec::new();
        for slate in &judged {
            let share = 1.0 / (judged.len() * slate.labels()) as f32;
            terms.extend(slate_terms(slate, share, pool.len(), params));
        }
        merge(&mut terms);
        (!terms.is_empty()).then(|| Lesson { pool: pool.clone(), terms, weight })
    }
}

fn replay_labels(slate: &Slate, experience: &Experience, params: &Params) -> Vec<(Candidate, Option<Label>)> {
    let unobserved = match params.replay_unobserved {
        ReplayUnobserved::Negative => Some(Label::NotUseful),
        ReplayUnobserved::Skip => None,
    };
    let label = |candidate: Candidate| {
        let mean = experience.feedback.get(candidate.0).copied().flatten();
        (candidate, mean.map(replay_label).or(unobserved))
    };
    slate.candidates().into_iter().map(label).collect()
}

fn slate_terms(slate: &Judged, share: f32, candidates: usize, params: &Params) -> Vec<Term> {
    let perturbed = params.log_probability == LogProbability::Perturbed && !slate.noise.is_empty();
    let empty = Term {
        coefficients: vec![0.0; candidates],
        noise: if perturbed { slate.noise.to_vec() } else { Vec::new() },
        closed: Vec::new(),
        temperature: if perturbed { params.gumbel_temperature } else { params.temperature },
    };
    let coefficient = |label: Option<Label>| label.map_or(0.0, |y| share * (y.value() - params.baseline));
    match params.probability {
        Probability::FullSoftmax => {
            let mut term = empty;
            slate.picks.iter().for_each(|(i, label)| term.coefficients[i.0] += coefficient(*label));
            vec![term]
        }
        Probability::PlackettLuce => {
            let pick = |(place, (i, label)): (usize, &(Candidate, Option<Label>))| {
                let mut term = empty.clone();
                term.coefficients[i.0] = coefficient(*label);
                term.closed = slate.picks[..place].iter().map(|(earlier, _)| *earlier).collect();
                term
            };
            slate.picks.iter().enumerate().map(pick).collect()
        }
    }
}

/// Adds terms up that share a softmax: Eq. (10) is linear in the log probabilities.
fn merge(terms: &mut Vec<Term>) {
    let same = |a: &Term, b: &Term| a.closed == b.closed && a.noise == b.noise && a.temperature == b.temperature;
    let mut merged: Vec<Term> = Vec::new();
    for term in terms.drain(..) {
        match merged.iter_mut().find(|other| same(other, &term)) {
            Some(other) => other.coefficients.iter_mut().zip(&term.coefficients).for_each(|(a, b)| *a += b),
            None => merged.push(term),
        }
    }
    *terms = merged;
}
