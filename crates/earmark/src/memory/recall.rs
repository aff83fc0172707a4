//! `recall` and `refine`: a question becomes a slate of memories.

use std::{sync::Arc, time::Instant};

use super::{Namespace, feedback::source, learning::Learned, new_id, now};
use crate::{
    critic::Judge,
    encode::Side,
    error::{Error, Result},
    params::Recipe,
    recall::{Candidate, Evidence, Pool, Question, Ranking, features, hybrid_top},
    record::{Explore, Memory, Recall, Recalled, RecallRequest, Scope, Scores},
    store::{CandidateLog, Label, RecallLog, Row, SlateEntry, StoredRecall},
};

/// Most memories in one answer.
pub const MAX_TOP_K: usize = 100;
/// Longest query in bytes.
pub const MAX_QUERY_BYTES: usize = 1 << 20;

/// Everything known about the candidates of one question before ranking. Positions are [`Candidate`]s.
pub(super) struct Gathered {
    pub(super) rows: Vec<Row>,
    pub(super) memories: Vec<Memory>,
    pub(super) pool: Arc<Pool>,
    pub(super) evidence: Vec<Evidence>,
    /// `[K x F]`, what the learned ranking reads and learns from.
    pub(super) features: Vec<Vec<f32>>,
}

/// A candidate on its way into the answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shown {
    pub(super) candidate: Candidate,
    pub(super) score: f32,
    pub(super) explored: bool,
}

impl Namespace {
    /// Recalls the memories that answer a question, best first, and logs the recall so that feedback can close it.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a blank query, `top_k` out of range or `explore` (which needs a critic: see
    /// [`Namespace::recall_judged`]); encoder and storage errors.
    pub fn recall(&self, request: &RecallRequest) -> Result<Recall> {
        if request.explore != Explore::Off {
            let reason = "needs a critic; configure one, or use `refine` to hand in labels yourself";
            return Err(Error::invalid("explore", reason));
        }
        self.recall_with(request, None)
    }

    /// As [`Namespace::recall`], with a judge that is shown slates while exploring; its labels are stored and learned from.
    ///
    /// # Errors
    /// As [`Namespace::recall`], and what the judge says.
    pub fn recall_judged(&self, request: &RecallRequest, judge: &dyn Judge) -> Result<Recall> {
        self.recall_with(request, Some(judge))
    }

    fn recall_with(&self, request: &RecallRequest, judge: Option<&dyn Judge>) -> Result<Recall> {
        let started = Instant::now();
        let size = check(request, self.settings().params.slate_size)?;
        if let Some(previous) = &request.previous {
            self.close_previous(previous)?;
        }
        let learned = self.current()?;
        let query = self.query_vector(request)?;
        let gathered = self.gather(request, query, size, &learned)?;
        let mut turn = self.begin(&learned, &gathered, size);
        if let Some(judge) = judge.filter(|_| request.explore != Explore::Off) {
            turn.explore(request, judge, &gathered.memories)?;
        }
        let mut shown = turn.serve();
        limit_tokens(&mut shown, &gathered.memories, request.max_tokens);
        let recall_id = new_id("rc");
        self.log(&recall_id, request, &gathered, &turn.rounds, &shown, &learned)?;
        let mut answer = self.answer(&recall_id, &learned, &gathered, &turn, &shown);
        answer.critic_calls = turn.rounds.len();
        answer.took_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok(answer)
    }

    /// Takes labels for what a recall showed and returns its next slate: "not those, show me others". The recall
    /// stays open; its labels are learned from when `feedback` closes it.
    ///
    /// # Errors
    /// As [`Namespace::feedback`]; [`Error::Conflict`] if the recall is closed.
    pub fn refine(&self, recall_id: &str, feedback: &Feedback) -> Result<Recall> {
        let started = Instant::now();
        let recall = self.open_or_closed(recall_id)?;
        if recall.state == RecallState::Closed {
            let reason = format!("recall `{recall_id}` is closed; recall again to go on exploring");
            return Err(Error::Conflict { reason });
        }
        let labels = self.read_labels(&recall, feedback)?;
        self.store.add_labels(recall_id, recall.rounds.len() - 1, &labels)?;
        let recall = self.open_or_closed(recall_id)?;
        let learned = self.current()?;
        let gathered = self.gather_again(&recall)?;
        let size = recall.rounds[0].slate.len();
        let turn = self.begin(&learned, &gathered, size).resume(&recall, &gathered);
        let shown = turn.next_unjudged();
        self.store.add_round(recall_id, &slate_entries(&shown, &gathered.rows))?;
        let mut answer = self.answer(recall_id, &learned, &gathered, &turn, &shown);
        answer.took_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok(answer)
    }

    fn query_vector(&self, request: &RecallRequest) -> Result<Vec<f32>> {
        let Some(given) = &request.query_vector else {
            let texts = [request.query.clone()];
            return Ok(self.encode(&texts, Side::Query)?.swap_remove(0));
        };
        if let Some(stamp) = self.store.encoder()? {
            self.check_dimension(stamp.dimension, given.len())?;
        }
        if given.iter().any(|x| !x.is_finite()) {
            return Err(Error::invalid("query_vector", "holds a number that is not finite"));
        }
        let mut vector = given.clone();
        normalize(&mut vector);
        Ok(vector)
    }

    /// Finds the candidates and what is known about them (Eq. 1).
    fn gather(&self, request: &RecallRequest, query: Vec<f32>, size: usize, learned: &Learned) -> Result<Gathered> {
        let params = &self.settings().params;
        let wanted = params.candidates.max(2 * size);
        let (dense, lexical) = std::thread::scope(|scope| {
            let words = (params.recipe == Recipe::Default)
                .then(|| scope.spawn(|| self.store.search_words(&request.query, wanted, &request.scope)));
            let dense = self.store.search(&query, wanted, &request.scope);
            let lexical = words.map_or(Ok(Vec::new()), |words| words.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
            (dense, lexical)
        });
        let rows = union(&dense?, &lexical?);
        let gathered = self.look_up(&request.query, query, rows, learned)?;
        Ok(gathered.best(params, wanted))
    }

    /// The candidates of a stored recall, for its next slate.
    fn gather_again(&self, recall: &StoredRecall) -> Result<Gathered> {
        let rows = recall.candidates.iter().map(|c| c.row).collect();
        let mut gathered = self.look_up(&recall.query, recall.query_vector.clone(), rows, &Learned::nothing())?;
        let logged: HashMap<Row, &Vec<f32>> = recall.candidates.iter().map(|c| (c.row, &c.features)).collect();
        for (row, features) in gathered.rows.iter().zip(&mut gathered.features) {
            if let Some(&old) = logged.get(row) {
                features.clone_from(old);
            }
        }
        Ok(gathered)
    }

    fn look_up(&self, question: &str, query: Vec<f32>, rows: Vec<Row>, learned: &Learned) -> Result<Gathered> {
        let neighbours = self.store.neighbours(&rows)?;
        let around: Vec<Row> = neighbours.iter().flatten().flatten().copied().collect();
        let all: Vec<Row> = rows.iter().chain(&around).copied().collect();
        let vectors = self.store.vectors(&all)?;
        let words = self.store.word_scores(question, &all)?;
        todo!()
    }
