//! The learned state of a namespace: loaded, advanced by closed recalls, versioned, steered.

use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Namespace, Settings, recall::Gathered};
use crate::{
    error::{Error, Result},
    learn::{Example, Experience, Learner, Past, PastLabel, PastQuestion, Prior, fit, logit, most_similar},
    params::{Params, Recipe},
    random::Seeded,
    recall::{Adapter, Candidate, Closed, Label, Pool, Round, features},
    store::{Counts, LearnedState, Store, StoredRecall},
};

/// Past questions that the feedback memory and the refits look at; the oldest leave.
const PAST_LIMIT: usize = 2_000;
/// Setting that holds the version in force; without it the newest.
const ACTIVE: &str = "learning.active";
/// Setting that stops learning.
const FROZEN: &str = "learning.frozen";
/// Setting: experiences up to this one are not learned from again (after a reset).
const FLOOR: &str = "learning.floor";

/// What ranks: a version of the learned state, and the past it looks back on.
#[derive(Debug, Clone)]
pub(super) struct Learned {
    pub(super) version: i64,
    /// Last experience it has learned from.
    through: i64,
    frozen: bool,
    state: State,
    pub(super) past: Past,
}

/// The part that is stored as a blob.
#[derive(Debug, Clone)]
enum State {
    /// Nothing was learned.
    Static,
    /// The `paper` recipe.
    Ear(Box<Learner>),
    /// The `default` recipe: weights `[F]`.
    Reranker(Vec<f64>),
}
