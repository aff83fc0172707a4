//! The learned state of a namespace: loaded, advanced by closed recalls, versioned, steered.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use serde_json::json;

use super::{
    Namespace, Settings,
    feedback::source,
    gather::Gathered,
    status::{GateReport, LabelCounts, LearningStatus, LearningVersion},
};
use crate::{
    error::{Error, Result},
    learn::{
        Experience, Gate, HIT_RATE, Learner, Past, PastLabel, PastQuestion, Ranker, static_agreement, static_score,
    },
    params::{Params, Recipe},
    random::Seeded,
    recall::{Adapter, Candidate, Closed, Label, PAST_FEATURES, Pool, Ranking, Round, STATIC_WEIGHTS, Turn},
    store::{self, Counts, Row, Store, StoredLearned, StoredRecall},
    threads::is_pooled,
};

/// Past questions that the feedback memory and the refits look at; the oldest leave.
const PAST_LIMIT: usize = 2_000;
/// Setting: learning is stopped.
const FROZEN: &str = "learning.frozen";
/// Setting: the version in force; 0 is the static ranking.
const ACTIVE: &str = Store::ACTIVE_LEARNED;
/// Setting: experiences up to this one are not learned from (after a reset).
const FLOOR: &str = "learning.floor";

/// What ranks: one version of the learned state, and the past it looks back on.
#[derive(Debug, Clone)]
pub(super) struct Learned {
    pub(super) version: i64,
    /// Last experience it has learned from.
    through: i64,
    /// Experiences up to this one do not count.
    floor: i64,
    state: State,
    pub(super) past: Past,
}

/// What a version holds.
#[derive(Debug, Clone)]
enum State {
    /// Nothing was learned.
    Static,
    /// The `paper` recipe.
    Ear(Box<Learner>),
    /// The `default` recipe.
    Ranker(Ranker),
}

impl Namespace {
    /// Learns from the closed recalls that the version in force has not seen; returns the version then in force.
    /// Recalls go on meanwhile with the version before.
    ///
    /// # Errors
    /// Storage errors; then nothing was learned.
    pub fn learn(&self) -> Result<i64> {
        if !is_pooled() {
            return self.learn_here();
        }
        // It may hold no lock there while it waits for other threads.
        std::thread::scope(|threads| threads.spawn(|| self.learn_here()).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn learn_here(&self) -> Result<i64> {
        let _learning = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let from = self.current()?;
            if self.is_frozen()? {
                return Ok(from.version);
            }
            let fresh = self.store.experiences(from.through + 1, PAST_LIMIT)?;
            let Some(next) = from.advanced(&self.store, self.settings(), &fresh)? else { return Ok(from.version) };
            if let Some(version) = self.put_in_force(next, &from)? {
                return Ok(version);
            }
        }
    }

    /// Stores what was learned from `from`; `None` if something else came into force meanwhile.
    fn put_in_force(&self, next: Learned, from: &Arc<Learned>) -> Result<Option<i64>> {
        let mut held = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        *held = self.refreshed(&held)?;
        if !Arc::ptr_eq(&held, from) || self.is_frozen()? {
            return Ok(None);
        }
        let version = self.keep(&next, from.version)?;
        *held = Arc::new(Learned { version, ..next });
        Ok(Some(version))
    }

    /// The learned state in force, reloaded if another process changed it.
    pub(super) fn current(&self) -> Result<Arc<Learned>> {
        let mut held = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        *held = self.refreshed(&held)?;
        Ok(held.clone())
    }

    fn refreshed(&self, held: &Arc<Learned>) -> Result<Arc<Learned>> {
        if active_version(&self.store)? == held.version && number(&self.store, FLOOR)? == held.floor {
            return Ok(held.clone());
        }
        Ok(Arc::new(Learned::load(&self.store, self.settings())?))
    }

    /// Stores `next` and puts it in force. Processes that learn from the same log at the same time arrive at states
    /// that each continue correctly, so the last one may win.
    fn keep(&self, next: &Learned, parent: i64) -> Result<i64> {
        self.store.save_learned(&store::Learned {
            parent,
            through_sequence: next.through,
            blob: next.state.to_bytes(),
            summary: json!({ "recipe": next.state.recipe(), "gate": next.gate(self.settings().params.recipe) }),
        })
    }

    fn is_frozen(&self) -> Result<bool> {
        Ok(self.store.setting(FROZEN)?.as_deref() == Some("true"))
    }

    /// What was learned, from what.
    ///
    /// # Errors
    /// Storage errors.
    pub fn learning(&self) -> Result<LearningStatus> {
        let learned = self.current()?;
        let counts = self.store.counts()?;
        let versions = self.store.learned_versions()?.iter().map(version).collect();
        Ok(LearningStatus {
            namespace: self.name.clone(),
            recipe: recipe_name(self.settings().params.recipe).to_owned(),
            version: learned.version,
            frozen: self.is_frozen()?,
            experiences: counts.closed,
            recalls: counts.recalls,
            open: counts.open,
            expired: counts.expired,
            labels: labels(&counts),
            gate: learned.gate(self.settings().params.recipe),
            versions,
        })
    }

    /// Stops (`true`) or resumes learning; feedback is collected all the same. Returns the version in force.
    ///
    /// # Errors
    /// Storage errors.
    pub fn freeze(&self, frozen: bool) -> Result<i64> {
        self.store.set_setting(FROZEN, if frozen { "true" } else { "false" })?;
        if frozen { Ok(self.current()?.version) } else { self.learn() }
    }

    /// Puts an earlier version in force and freezes learning, so that it stays in force.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a version that is not kept; storage errors.
    pub fn rollback(&self, version: i64) -> Result<i64> {
        if version != 0 && self.store.learned(Some(version))?.is_none() {
            return Err(Error::not_found("learning version", version.to_string()));
        }
        self.store.set_setting(ACTIVE, &version.to_string())?;
        self.freeze(true)
    }

    /// Forgets what was learned and starts from the static ranking. Memories and the log stay; what was closed
    /// before is not learned from again unless [`Namespace::train`] is called.
    ///
    /// # Errors
    /// Storage errors.
    pub fn reset(&self) -> Result<i64> {
        let seen = self.store.experience_queries()?.last().map_or(0, |(sequence, _)| *sequence);
        self.store.set_setting(FLOOR, &seen.to_string())?;
        self.store.set_setting(ACTIVE, "0")?;
        Ok(self.current()?.version)
    }

    /// Learns from every experience again, from the start; the same log and seed give the same state.
    ///
    /// # Errors
    /// Storage errors.
    pub fn train(&self) -> Result<i64> {
        self.store.set_setting(FROZEN, "false")?;
        self.store.set_setting(FLOOR, "0")?;
        self.store.set_setting(ACTIVE, "0")?;
        self.learn()
    }

    /// After memories were forgotten: whatever was learned from them is learned again without them.
    pub(super) fn relearn(&self) -> Result<()> {
        let learned = self.current()?;
        if learned.version == 0 {
            return Ok(());
        }
        self.store.set_setting(ACTIVE, "0")?;
        self.learn().map(drop)
    }
}

impl Learned {
    /// What is stored, or the static ranking.
    pub(super) fn load(store: &Store, settings: &Settings) -> Result<Learned> {
        let floor = number(store, FLOOR)?;
        let version = active_version(store)?;
        let stored = if version == 0 { None } else { store.learned(Some(version))? };
        let state = stored.as_ref().and_then(|s| State::from_bytes(settings.params.recipe, &s.learned.blob));
        // A version of another recipe (or of older features) counts as none: everything is learned again.
        let through = if state.is_some() { stored.map_or(floor, |s| s.learned.through_sequence) } else { floor };
        let mut past = Past::new(PAST_LIMIT);
        if through > floor {
            let first = (through - PAST_LIMIT as i64).max(floor) + 1;
            let seen = store.experiences(first, PAST_LIMIT)?;
            seen.iter().filter(|r| r.sequence <= Some(through)).for_each(|recall| past.push(past_question(recall)));
        }
        Ok(Learned { version, through, floor, state: state.unwrap_or(State::Static), past })
    }

    /// The state after `fresh` closed recalls; `None` if they do not change it yet.
    fn advanced(&self, store: &Store, settings: &Settings, fresh: &[StoredRecall]) -> Result<Option<Learned>> {
        match settings.params.recipe {
            Recipe::Default => Ok(self.refitted(fresh)),
            Recipe::Paper => self.trained(store, settings, fresh),
        }
    }

    /// `default`: each closed recall is taken in by the ranker.
    fn refitted(&self, fresh: &[StoredRecall]) -> Option<Learned> {
        let mut next = self.clone();
        let mut ranker = match &self.state {
            State::Ranker(ranker) => ranker.clone(),
            _ => Ranker::default(),
        };
        for recall in fresh {
            next.through = recall.sequence?;
            ranker.learn(&mut next.past, past_question(recall), next.through - self.floor);
        }
        next.state = State::Ranker(ranker);
        (!fresh.is_empty()).then_some(next)
    }

    /// `paper`: one update for each full batch of closed recalls.
    fn trained(&self, store: &Store, settings: &Settings, fresh: &[StoredRecall]) -> Result<Option<Learned>> {
        let batch = settings.params.batch_size;
        let usable = fresh.len() / batch * batch;
        let Some(first) = fresh.first().filter(|_| usable > 0) else { return Ok(None) };
        let dimension = first.log.query_vector.len();
        let start = || Learner::new(&settings.params, dimension, &mut Seeded::new(settings.seed));
        let mut learner = match &self.state {
            State::Ear(learner) => learner.as_ref().clone(),
            _ => start(),
        };
        let mut past = self.past.clone();
        for recall in &fresh[..usable] {
            let sequence = recall.sequence.unwrap_or_default();
            let mut random = Seeded::new(settings.seed ^ (sequence as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let replayed = replayed(store, &past, &recall.log.query_vector, settings.params.replay_size)?;
            learner.learn(&closed(store, recall)?, &replayed, &mut random);
            past.push(past_question(recall));
        }
        let through = fresh[usable - 1].sequence.unwrap_or(self.through);
        Ok(Some(Learned { through, state: State::Ear(Box::new(learner)), past, ..self.clone() }))
    }

    /// What the gate says; `None` under `paper`, which has none.
    fn gate(&self, recipe: Recipe) -> Option<GateReport> {
        match &self.state {
            State::Static if recipe == Recipe::Default => Some(GateReport::of(&Gate::default(), false)),
            State::Ranker(ranker) => Some(GateReport::of(&ranker.gate, self.past.is_believed())),
            _ => None,
        }
    }

    /// Scores of the candidates before and after learning.
    pub(super) fn rank(&self, params: &Params, gathered: &Gathered) -> Ranking {
        match (params.recipe, &self.state) {
            (Recipe::Paper, state) => {
                let learned = match state {
                    State::Ear(learner) => {
                        learner.adapter().adapt(&gathered.pool, params.similarity).relevance.to_vec()
                    }
                    _ => gathered.dense(),
                };
                Ranking { base: gathered.dense(), learned }
            }
            (Recipe::Default, State::Ranker(ranker)) => {
                Ranking { base: gathered.scores(static_score), learned: gathered.scores(|x| ranker.score(x)) }
            }
            (Recipe::Default, _) => {
                let base = gathered.scores(static_score);
                Ranking { learned: base.clone(), base }
            }
        }
    }

    /// Begins the exploration of one question; `trust` in [0, 1] scales what a label is worth.
    pub(super) fn turn(&self, params: &Params, pool: &Arc<Pool>, ranking: &Ranking, trust: f32) -> Turn {
        match (params.recipe, &self.state) {
            (Recipe::Default, _) => Turn::posterior(pool.clone(), ranking.learned.clone(), trust, params),
            (Recipe::Paper, State::Ear(learner)) => Turn::ear(pool.clone(), learner.adapter(), params),
            (Recipe::Paper, _) => Turn::ear(pool.clone(), &Adapter::zeros(pool.dimension()), params),
        }
    }

    /// What each feature contributes to the change of a candidate's score, `[F]`; empty where features play no part.
    pub(super) fn contributions(&self, features: &[f32]) -> Vec<f64> {
        match &self.state {
            State::Ranker(ranker) if ranker.weights.len() == features.len() && !ranker.gate.is_paused() => {
                let mut fixed = STATIC_WEIGHTS;
                fixed[PAST_FEATURES..].fill(0.0);
                let change = ranker.weights.iter().zip(fixed).map(|(w, base)| w - base);
                change.zip(features).map(|(w, &x)| w * f64::from(x)).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl State {
    fn recipe(&self) -> &'static str {
        match self {
            State::Static => "static",
            State::Ear(_) => "paper",
            State::Ranker(_) => "default",
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        match self {
            State::Static => Vec::new(),
            State::Ear(learner) => learner.to_bytes(),
            State::Ranker(ranker) => ranker.to_bytes(),
        }
    }

    /// Reads a blob; `None` where it belongs to another recipe or to an older set of features.
    fn from_bytes(recipe: Recipe, blob: &[u8]) -> Option<State> {
        match recipe {
            Recipe::Paper => Learner::from_bytes(blob).ok().map(|learner| State::Ear(Box::new(learner))),
            Recipe::Default => Ranker::from_bytes(blob).map(State::Ranker),
        }
    }
}

/// The version in force: the one set, or the newest.
fn active_version(store: &Store) -> Result<i64> {
    match store.setting(ACTIVE)? {
        Some(set) => Ok(set.parse().unwrap_or_default()),
        None => Ok(0),
    }
}

fn number(store: &Store, setting: &str) -> Result<i64> {
    Ok(store.setting(setting)?.and_then(|text| text.parse().ok()).unwrap_or_default())
}

fn labels(counts: &Counts) -> BTreeMap<String, LabelCounts> {
    let mut labels: BTreeMap<String, LabelCounts> = BTreeMap::new();
    for (source, n) in &counts.positive_by_source {
        labels.entry(source.clone()).or_default().useful = *n;
    }
    for (source, n) in &counts.negative_by_source {
        labels.entry(source.clone()).or_default().not_useful = *n;
    }
    labels
}

pub(super) fn recipe_name(recipe: Recipe) -> &'static str {
    match recipe {
        Recipe::Default => "default",
        Recipe::Paper => "paper",
    }
}

fn version(state: &StoredLearned) -> LearningVersion {
    let gate = state.learned.summary.get("gate").cloned();
    LearningVersion {
        gate: gate.and_then(|gate| serde_json::from_value(gate).ok()),
        version: state.version,
        parent: state.learned.parent,
        through: state.learned.through_sequence,
        created_at: state.created_at,
    }
}

fn past_question(recall: &StoredRecall) -> PastQuestion {
    let labels = recall.rounds.iter().flat_map(|round| &round.labels);
    let explicit = labels.clone().all(|label| label.source == source::EXPLICIT);
    let labels = labels.map(|label| PastLabel {
        key: label.row.0,
        useful: label.useful,
        features: features_of(recall, label.row).to_vec(),
    });
    let labels: Vec<PastLabel> = labels.collect();
    PastQuestion {
        sequence: recall.sequence.unwrap_or_default(),
        query: recall.log.query_vector.clone(),
        agreement: static_agreement(&labels),
        labels,
        explicit,
        // What is said outright misses nothing.
        hit_rate: if explicit { 1.0 } else { HIT_RATE },
    }
}

/// The features that a candidate was logged with; empty if it is not there.
pub(super) fn features_of(recall: &StoredRecall, row: Row) -> &[f32] {
    let found = recall.log.candidates.iter().find(|c| c.row == row);
    found.map_or(&[], |candidate| &candidate.features)
}

/// A stored recall as the learner takes it: raw vectors and labelled rounds.
fn closed(store: &Store, recall: &StoredRecall) -> Result<Closed> {
    let rows: Vec<_> = recall.log.candidates.iter().map(|c| c.row).collect();
    let pool = Arc::new(Pool::from_rows(&recall.log.query_vector, &store.vectors(&rows)?)?);
    let place = |row| rows.iter().position(|&r| r == row).map(Candidate);
    let rounds = recall.rounds.iter().map(|round| {
        let shown = round.slate.iter().filter_map(|entry| Some((entry.row, place(entry.row)?)));
        let label = |row| round.labels.iter().find(|l| l.row == row).map(|l| Label::from_useful(l.useful));
        let (slate, labels) = shown.map(|(row, candidate)| (candidate, label(row))).unzip();
        Round { slate, labels, noise: Vec::new() }
    });
    Ok(Closed { rounds: rounds.collect(), pool })
}

fn replayed(store: &Store, past: &Past, query: &[f32], n: usize) -> Result<Vec<Arc<Experience>>> {
    let nearest = past.nearest(query, n);
    nearest
        .iter()
        .map(|(question, _)| {
            let recall = store.experiences(question.sequence, 1)?;
            let recall = recall.first().ok_or_else(|| Error::not_found("experience", question.sequence.to_string()))?;
            Ok(Arc::new(Experience::of(&closed(store, recall)?)))
        })
        .collect()
}
