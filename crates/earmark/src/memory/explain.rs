//! `explain`: why a recall answered as it did.

use serde::{Deserialize, Serialize};

use super::{Namespace, learning::Learned, recall::scores};
use crate::{
    error::Result,
    recall::FEATURE_NAMES,
    record::Scores,
    store::{RecallState, Row, StoredRecall},
};

/// Past questions shown beside a recall.
const NEIGHBOURS: usize = 4;
/// Reasons named for one candidate.
const REASONS: usize = 3;
/// Changes of a score (in log-odds) that are too small to name.
const NEGLIGIBLE: f64 = 0.05;

/// Why a recall answered as it did, under the learned state of now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The recall.
    pub recall_id: String,
    /// What was asked.
    pub query: String,
    /// `open`, `closed` or `expired`.
    pub state: String,
    /// Version that ranked it.
    pub learning_version: i64,
    /// The gist in a sentence.
    pub in_words: String,
    /// Candidates, best first under the learned ranking of now.
    pub candidates: Vec<ExplainedCandidate>,
    /// Slate after slate with its labels.
    pub rounds: Vec<ExplainedRound>,
    /// The most similar past questions, which may have moved the ranking.
    pub neighbours: Vec<Neighbour>,
}

/// One candidate with the terms of its score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExplainedCandidate {
    /// Id of the memory.
    pub id: String,
    /// Its text.
    pub content: String,
    /// Place after learning, from 1.
    pub rank: usize,
    /// Place in the static ranking, from 1.
    pub base_rank: usize,
    /// The terms.
    pub scores: Scores,
    /// `useful`, `not useful`, or nothing.
    pub label: Option<String>,
    /// What moved it most against the other candidates, strongest first: a term and its change of the log-odds, for
    /// example `words +0.8`.
    pub moved_by: Vec<String>,
}

/// One slate that was shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExplainedRound {
    /// Ids in order; forgotten memories are left out.
    pub slate: Vec<String>,
    /// Ids labelled useful.
    pub useful: Vec<String>,
    /// Ids labelled not useful.
    pub not_useful: Vec<String>,
    /// Where the labels came from.
    pub sources: Vec<String>,
}

/// A similar question of the past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Neighbour {
    /// Cosine of the two questions.
    pub similarity: f32,
    /// What was asked then.
    pub query: String,
    /// Texts that were useful then.
    pub useful: Vec<String>,
}

impl Namespace {
    /// Explains a recall: the terms of each score, rank before and after learning, labels, similar past questions.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) for an unknown or expired recall; storage errors.
    pub fn explain(&self, recall_id: &str) -> Result<Explanation> {
        let recall = self.open_or_closed(recall_id)?;
        let learned = self.current()?;
        let candidates = self.explained_candidates(&recall, &learned)?;
        Ok(Explanation {
            recall_id: recall.log.id.clone(),
            query: recall.log.query.clone(),
            state: if recall.state == RecallState::Closed { "closed" } else { "open" }.to_owned(),
            learning_version: recall.log.learning_version,
            in_words: in_words(&candidates, learned.version),
            candidates,
            rounds: self.explained_rounds(&recall)?,
            neighbours: self.neighbours_of(&recall, &learned)?,
        })
    }

    fn explained_candidates(&self, recall: &StoredRecall, learned: &Learned) -> Result<Vec<ExplainedCandidate>> {
        let gathered = self.gather_again(recall)?;
        let ranking = learned.rank(&self.settings().params, &gathered);
        let (ranks, base_ranks) = (ranking.learned_ranks(), ranking.base_ranks());
        let changes = beside_the_mean(gathered.features.iter().map(|f| learned.contributions(f)).collect());
        let mut candidates: Vec<ExplainedCandidate> = (0..gathered.rows.len())
            .map(|i| ExplainedCandidate {
                id: gathered.memories[i].id.clone(),
                content: gathered.memories[i].content.clone(),
                rank: ranks[i],
                base_rank: base_ranks[i],
                scores: scores(&gathered, &ranking, i),
                label: label_of(recall, gathered.rows[i]),
                moved_by: reasons(&changes[i]),
            })
            .collect();
        candidates.sort_by_key(|candidate| candidate.rank);
        Ok(candidates)
    }

    pub(super) fn explained_rounds(&self, recall: &StoredRecall) -> Result<Vec<ExplainedRound>> {
        let ids = |rows: Vec<Row>| -> Result<Vec<String>> { Ok(self.ids(&rows)?.into_iter().flatten().collect()) };
        let round = |round: &crate::store::Round| {
            let labelled = |useful| round.labels.iter().filter(move |l| l.useful == useful).map(|l| l.row).collect();
            let mut sources: Vec<String> = round.labels.iter().map(|l| l.source.clone()).collect();
            sources.dedup();
            Ok(ExplainedRound {
                slate: ids(round.slate.iter().map(|entry| entry.row).collect())?,
                useful: ids(labelled(true))?,
                not_useful: ids(labelled(false))?,
                sources,
            })
        };
        recall.rounds.iter().map(round).collect()
    }

    fn neighbours_of(&self, recall: &StoredRecall, learned: &Learned) -> Result<Vec<Neighbour>> {
        let nearest = learned.past.nearest(&recall.log.query_vector, NEIGHBOURS + 1);
        let others = nearest.into_iter().filter(|(past, _)| Some(past.sequence) != recall.sequence).take(NEIGHBOURS);
        let mut neighbours = Vec::new();
        for (past, similarity) in others {
            let useful: Vec<Row> = past.labels.iter().filter(|l| l.useful).map(|l| Row(l.key)).collect();
            let memories = self.store.memories(&useful)?;
            let Some(then) = self.store.experiences(past.sequence, 1)?.into_iter().next() else { continue };
            neighbours.push(Neighbour {
                similarity,
                query: then.log.query,
                useful: memories.into_iter().map(|(_, memory)| memory.content).collect(),
            });
        }
        Ok(neighbours)
    }
}

fn label_of(recall: &StoredRecall, row: Row) -> Option<String> {
    let last = recall.rounds.iter().rev().flat_map(|round| &round.labels).find(|label| label.row == row)?;
    Some(if last.useful { "useful" } else { "not useful" }.to_owned())
}

/// Each change less the mean change of all candidates `[K][F]`: what lifts all of them alike moves none.
fn beside_the_mean(mut changes: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for feature in 0..changes.first().map_or(0, Vec::len) {
        let mean = changes.iter().map(|change| change[feature]).sum::<f64>() / changes.len() as f64;
        changes.iter_mut().for_each(|change| change[feature] -= mean);
    }
    changes
}

/// The strongest changes, named.
fn reasons(changes: &[f64]) -> Vec<String> {
    let mut named: Vec<(&str, f64)> = FEATURE_NAMES.iter().copied().zip(changes.iter().copied()).collect();
    named.retain(|(_, change)| change.abs() > NEGLIGIBLE);
    named.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    named.iter().take(REASONS).map(|(name, change)| format!("{name} {change:+.1}")).collect()
}

fn in_words(candidates: &[ExplainedCandidate], version: i64) -> String {
    if version == 0 {
        return "nothing has been learned yet: this is the static ranking".to_owned();
    }
    let moved = candidates.iter().filter(|c| (c.rank <= 5) != (c.base_rank <= 5)).count() / 2;
    match moved {
        0 => format!("learned version {version} has the same memories in the top five as the static ranking"),
        1 => format!("learned version {version} brings 1 memory into the top five that the static ranking leaves out"),
        n => format!(
            "learned version {version} brings {n} memories into the top five that the static ranking leaves out"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lifts_all_alike_is_no_reason() {
        let changes = beside_the_mean(vec![vec![-2.0, 1.0, 0.0], vec![-2.0, 0.0, 0.01]]);
        assert_eq!(changes[0][..2], [0.0, 0.5]);
        assert_eq!(reasons(&changes[0]), [format!("{} +0.5", FEATURE_NAMES[1])]);
        assert!(beside_the_mean(vec![Vec::new(), Vec::new()]).iter().all(Vec::is_empty));
    }
}
