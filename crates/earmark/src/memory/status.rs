//! What `learning status` says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::learn::Gate;

/// A version of the learned state, as `learning status` lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LearningVersion {
    /// Its number.
    pub version: i64,
    /// The version it came from; 0 is the static ranking.
    pub parent: i64,
    /// How many experiences it has seen.
    pub through: i64,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// The comparison behind the gate at that moment; `None` under the `paper` recipe.
    pub gate: Option<GateReport>,
}

/// Labels of one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LabelCounts {
    /// Useful.
    pub useful: u64,
    /// Not useful.
    pub not_useful: u64,
}

/// What was learned, from what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LearningStatus {
    /// The namespace.
    pub namespace: String,
    /// `default` or `paper`.
    pub recipe: String,
    /// Version in force; 0 is the static ranking.
    pub version: i64,
    /// Whether learning is stopped.
    pub frozen: bool,
    /// Closed recalls.
    pub experiences: u64,
    /// All recalls.
    pub recalls: u64,
    /// Recalls that wait for feedback.
    pub open: u64,
    /// Recalls that nobody closed in time.
    pub expired: u64,
    /// Labels by their source.
    pub labels: BTreeMap<String, LabelCounts>,
    /// Whether the learned order ranks, and why; `None` under the `paper` recipe, which has no gate.
    pub gate: Option<GateReport>,
    /// Newest first.
    pub versions: Vec<LearningVersion>,
}

impl LearningStatus {
    /// The same in two or three sentences.
    pub fn in_words(&self) -> String {
        let closed = self.experiences;
        let ranking = match self.version {
            0 => "The ranking is static: nothing has been learned yet.".to_owned(),
            version => format!("Learned version {version} ranks (recipe {}).", self.recipe),
        };
        let state = if self.frozen { " Learning is frozen." } else { "" };
        let gate = self.gate.as_ref().map(|gate| format!(" {}", gate.in_words())).unwrap_or_default();
        format!(
            "{ranking}{gate}{state} {closed} of {} recalls were closed with feedback, {} wait for it, {} expired without.",
            self.recalls, self.open, self.expired
        )
    }
}

/// Who ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum GateState {
    /// The static order: there are no labels yet that can be believed.
    Shadow,
    /// The learned order.
    Active,
    /// The static order, because the learned one agreed less with the labels; it goes on learning.
    Paused,
}

/// The learned order against the static one on closed recalls, each compared before it was learned from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GateReport {
    /// Who ranks.
    pub state: GateState,
    /// Closed recalls compared, since the state changed or in the stretch of now.
    pub compared: u64,
    /// Share of the pairs (useful, not useful) that the static order has right, in [0, 1].
    pub static_agreement: Option<f64>,
    /// The same for the learned order.
    pub learned_agreement: Option<f64>,
    /// Where the mean difference lies, learned minus static, with 95 % at all times at once.
    pub difference: Option<[f64; 2]>,
}

impl GateReport {
    pub(super) fn of(gate: &Gate, believed: bool) -> Self {
        let state = match (gate.is_paused(), believed) {
            (true, _) => GateState::Paused,
            (false, true) => GateState::Active,
            (false, false) => GateState::Shadow,
        };
        let now = gate.comparison();
        GateReport {
            state,
            compared: now.count(),
            static_agreement: now.means().map(|means| means[0]),
            learned_agreement: now.means().map(|means| means[1]),
            difference: now.interval(),
        }
    }

    /// The same in two sentences.
    pub fn in_words(&self) -> String {
        let state = match self.state {
            GateState::Shadow => {
                "The gate is in shadow: no labels yet that can be believed, so the static order ranks."
            }
            GateState::Active => "The gate is active: the learned order ranks.",
            GateState::Paused => {
                "The gate has paused the learned order, which agreed less with your labels; the static order ranks."
            }
        };
        let (Some(fixed), Some(learned), Some([low, high])) =
            (self.static_agreement, self.learned_agreement, self.difference)
        else {
            return state.to_owned();
        };
        let recalls = match self.compared {
            1 => "the one recall that was compared".to_owned(),
            many => format!("the last {many} compared recalls"),
        };
        format!(
            "{state} On {recalls} it put {:.0} % of the pairs (useful, not useful) in the right order, the static one \
             {:.0} %: a difference between {:+.0} and {:+.0} points.",
            100.0 * learned,
            100.0 * fixed,
            100.0 * low,
            100.0 * high
        )
    }
}
