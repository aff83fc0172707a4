//! `recall` and `refine`: a question becomes a slate of memories.

use std::time::Instant;

use super::{Namespace, feedback::source, gather::Gathered, learning::Learned, new_id, now};
use crate::{
    encode::Side,
    error::{Error, Result},
    recall::{Candidate, Label, Ranking, Slate, Turn},
    record::{Explore, Feedback, Memory, Recall, RecallRequest, Recalled, Scores},
    store::{self, CandidateLog, RecallLog, RecallState, Row, SlateEntry, StoredRecall},
    vector::normalize,
};

/// Most memories in one answer.
pub const MAX_TOP_K: usize = 100;
/// Longest query in bytes.
pub const MAX_QUERY_BYTES: usize = 1 << 20;
/// Most critic calls for one question.
pub const MAX_CRITIC_CALLS: usize = 50;
/// What to do without a critic.
const NO_CRITIC: &str = "needs a critic: set EARMARK_CRITIC_URL and EARMARK_CRITIC_MODEL (EARMARK_CRITIC_KEY is its key), \
    or the section [critic] of the config file; or use `refine` to hand in labels yourself";
/// Memories from which on a chance can be told without feedback. Scores say how far a memory stands out among all of
/// them: of 10 the best one of an unrelated question stands out as much as an obvious hit.
const ENOUGH: usize = 50;
/// Recalls between two sweeps for expired ones.
const SWEEP_EVERY: u64 = 100;

/// Says which memories of a slate are useful for a question, one entry a memory; `None` where it cannot tell.
pub type Judge<'a> = dyn FnMut(&str, &[&Memory]) -> Result<Vec<Option<Label>>> + 'a;

impl Namespace {
    /// Recalls the memories that answer a question, best first, and logs the recall so that feedback can close it.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a blank query, `top_k` out of range, or `explore` (which needs a judge: see
    /// [`Namespace::recall_judged`]); encoder and storage errors.
    pub fn recall(&self, request: &RecallRequest) -> Result<Recall> {
        if request.explore != Explore::Off {
            return Err(Error::invalid("explore", NO_CRITIC));
        }
        self.recall_with(request, None)
    }

    /// As [`Namespace::recall`], with a judge that is shown slates while exploring; its labels are stored with the
    /// recall and learned from when it is closed.
    ///
    /// A judge that fails, or that cannot tell for any memory of a slate, is not asked again: the best of what is known
    /// by then is served, with a [`warning`](Recall::warning).
    ///
    /// # Errors
    /// As [`Namespace::recall`].
    pub fn recall_judged(&self, request: &RecallRequest, judge: &mut Judge<'_>) -> Result<Recall> {
        self.recall_with(request, Some(judge))
    }

    fn recall_with(&self, request: &RecallRequest, judge: Option<&mut Judge<'_>>) -> Result<Recall> {
        let started = Instant::now();
        let params = &self.settings().params;
        let size = check(request, params.slate_size)?;
        if let Some(previous) = &request.previous {
            self.close_previous(previous)?;
        }
        let learned = self.current()?;
        let query = self.query_vector(request)?;
        let wanted = params.candidates.max(2 * size);
        let gathered = self.gather(&request.query, &query, &request.scope, wanted, &learned)?;
        let ranking = learned.rank(params, &gathered);
        let mut turn = learned.turn(params, &gathered.pool, &ranking, learned.past.critic_trust());
        let explored = match judge.filter(|_| request.explore != Explore::Off) {
            Some(judge) => explore(&mut turn, request, judge, &gathered.memories, params.rounds - 1, size),
            None => Explored::default(),
        };
        let mut slate = turn.serve(size);
        limit_tokens(&mut slate, &gathered.memories, request.max_tokens);
        let confidence = self.confidence(&turn, &slate, &ranking)?;
        if confidence < request.min_confidence.filter(|_| confidence.is_some()) {
            slate.picks.clear();
        }
        let recall_id = self.log(request, &gathered, &explored.rounds, &slate, &ranking, &learned)?;
        let mut answer = self.answer(&recall_id, &learned, &gathered, &ranking, &slate, slate.len());
        answer.critic_calls = explored.calls;
        answer.warning = explored.warning;
        answer.confidence = confidence;
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
        self.store.add_labels(recall_id, recall.rounds.len().saturating_sub(1), &labels)?;
        let recall = self.open_or_closed(recall_id)?;
        let params = &self.settings().params;
        let learned = self.current()?;
        let gathered = self.gather_again(&recall)?;
        let ranking = learned.rank(params, &gathered);
        let size = recall.rounds.first().map_or(params.slate_size, |round| round.slate.len().max(1));
        let mut turn = learned.turn(params, &gathered.pool, &ranking, 1.0);
        resume(&mut turn, &recall, &gathered.rows);
        let slate = turn.next_unjudged(size);
        // What follows in the ranking on what was shown is not there to explore.
        let best = size + turn.rounds().iter().map(|round| round.slate.len()).sum::<usize>();
        self.store.add_round(recall_id, &entries(&slate, &ranking, &gathered.rows, best))?;
        let mut answer = self.answer(recall_id, &learned, &gathered, &ranking, &slate, best);
        answer.confidence = self.confidence(&turn, &slate, &ranking)?;
        answer.took_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok(answer)
    }

    /// Ids of the memories that a recall showed last, in order; `None` where one was forgotten since.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown or expired recall.
    pub fn shown_ids(&self, recall_id: &str) -> Result<Vec<Option<String>>> {
        let recall = self.open_or_closed(recall_id)?;
        Ok(self.shown(&recall)?.last)
    }

    /// The chance that a slate helps, where there is something to tell it from: feedback, or enough other memories.
    fn confidence(&self, turn: &Turn, slate: &Slate, ranking: &Ranking) -> Result<Option<f32>> {
        // As many candidates as that are as many memories; only below it they have to be counted.
        let known =
            ranking.learned != ranking.base || ranking.base.len() >= ENOUGH || self.store.count()? >= ENOUGH as u64;
        Ok(turn.confidence(slate).filter(|_| known))
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

    /// Keeps the recall, before it is answered, and returns its id.
    fn log(
        &self,
        request: &RecallRequest,
        gathered: &Gathered,
        judged: &[(Slate, Vec<Option<Label>>)],
        served: &Slate,
        ranking: &Ranking,
        learned: &Learned,
    ) -> Result<String> {
        let params = &self.settings().params;
        let recall_id = new_id("rc");
        let size = served.len();
        let slates: Vec<&Slate> = judged.iter().map(|(slate, _)| slate).chain([served]).collect();
        let features = gathered.rows.iter().zip(&gathered.features);
        self.store.log_recall(&RecallLog {
            id: recall_id.clone(),
            query: request.query.clone(),
            query_vector: gathered.pool.query().to_vec(),
            scope_json: "{}".to_owned(),
            learning_version: learned.version,
            recipe: super::learning::recipe_name(params.recipe).to_owned(),
            candidates: features.map(|(&row, f)| CandidateLog { row, features: f.clone() }).collect(),
            slate: entries(slates[0], ranking, &gathered.rows, size),
            created_at: now(),
        })?;
        for (i, (slate, labels)) in judged.iter().enumerate() {
            self.store.add_labels(&recall_id, i, &judge_labels(slate, labels, &gathered.rows))?;
            self.store.add_round(&recall_id, &entries(slates[i + 1], ranking, &gathered.rows, size))?;
        }
        self.sweep()?;
        Ok(recall_id)
    }

    /// Lets go of recalls that were left open for too long, now and then.
    fn sweep(&self) -> Result<()> {
        let count = self.recalls_logged.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if count.is_multiple_of(SWEEP_EVERY) {
            let settings = self.settings();
            self.store.expire(settings.max_open_recalls, settings.max_open_age)?;
        }
        Ok(())
    }

    /// What is shown; who is not among the `best` by the learned ranking is there to explore.
    fn answer(
        &self,
        recall_id: &str,
        learned: &Learned,
        gathered: &Gathered,
        ranking: &Ranking,
        slate: &Slate,
        best: usize,
    ) -> Recall {
        let (base_ranks, learned_ranks) = (ranking.base_ranks(), ranking.learned_ranks());
        let results = slate.picks.iter().enumerate().map(|(place, pick)| {
            let i = pick.candidate.0;
            Recalled {
                rank: place + 1,
                score: pick.terms.score,
                scores: scores(gathered, ranking, i),
                base_rank: base_ranks[i],
                explored: learned_ranks[i] > best,
                memory: gathered.memories[i].clone(),
            }
        });
        let results: Vec<Recalled> = results.collect();
        Recall {
            recall_id: recall_id.to_owned(),
            namespace: self.name.clone(),
            learning_version: learned.version,
            context: context(&results),
            abstained: results.is_empty(),
            results,
            confidence: None,
            critic_calls: 0,
            warning: None,
            took_ms: 0.0,
        }
    }
}

pub(super) fn scores(gathered: &Gathered, ranking: &Ranking, candidate: usize) -> Scores {
    let evidence = &gathered.evidence[candidate];
    Scores {
        dense: evidence.dense,
        lexical: evidence.words.bm25,
        base: ranking.base[candidate],
        learned: ranking.learned[candidate],
    }
}

/// Checks a request and resolves its `top_k`.
fn check(request: &RecallRequest, default_size: usize) -> Result<usize> {
    if request.query.trim().is_empty() {
        return Err(Error::invalid("query", "is blank: ask a question"));
    }
    if request.query.len() > MAX_QUERY_BYTES {
        return Err(Error::invalid(
            "query",
            format!("has {} bytes; the limit is {MAX_QUERY_BYTES}", request.query.len()),
        ));
    }
    if let Some(calls) = request.max_critic_calls.filter(|&calls| calls > MAX_CRITIC_CALLS) {
        return Err(Error::invalid("max_critic_calls", format!("is {calls}, but must be at most {MAX_CRITIC_CALLS}")));
    }
    let size = request.top_k.unwrap_or(default_size);
    if request.min_confidence.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
        return Err(Error::invalid("min_confidence", "must be between 0 and 1"));
    }
    if (1..=MAX_TOP_K).contains(&size) {
        return Ok(size);
    }
    Err(Error::invalid("top_k", format!("is {size}, but must be between 1 and {MAX_TOP_K}")))
}

/// What exploring brought.
#[derive(Default)]
struct Explored {
    /// Slates with their labels, in order.
    rounds: Vec<(Slate, Vec<Option<Label>>)>,
    calls: usize,
    warning: Option<String>,
}

/// Shows slates to the judge until the budget is spent, too little is left to find, or the judge is of no use.
fn explore(
    turn: &mut Turn,
    request: &RecallRequest,
    judge: &mut Judge<'_>,
    memories: &[Memory],
    most: usize,
    size: usize,
) -> Explored {
    let mut explored = Explored::default();
    for _ in 0..request.max_critic_calls.unwrap_or(most) {
        if request.explore == Explore::Auto && turn.is_settled(size) {
            break;
        }
        let slate = turn.next_slate(size);
        if slate.is_empty() {
            break;
        }
        let shown: Vec<&Memory> = slate.picks.iter().map(|pick| &memories[pick.candidate.0]).collect();
        explored.calls += 1;
        match judge(&request.query, &shown) {
            Ok(labels) if labels.iter().any(Option::is_some) => {
                turn.observe(&slate, &labels);
                explored.rounds.push((slate, labels));
            }
            unusable => {
                explored.warning = Some(unjudged(unusable.err()));
                break;
            }
        }
    }
    explored
}

/// Says that a judge was of no use. Addresses are left out: whoever asks need not know them.
fn unjudged(error: Option<Error>) -> String {
    let reason = match error {
        Some(Error::Remote { reason, .. }) => format!("failed: {reason}"),
        Some(error) => format!("failed: {error}"),
        None => "said nothing that could be read as citations".to_owned(),
    };
    format!("the critic {reason} (the best memories are shown without its further help)")
}

/// Brings an exploration to where the stored rounds left it.
fn resume(turn: &mut Turn, recall: &StoredRecall, rows: &[Row]) {
    let place = |row: Row| rows.iter().position(|&r| r == row);
    for round in &recall.rounds {
        let shown: Vec<(Row, usize)> =
            round.slate.iter().filter_map(|entry| Some((entry.row, place(entry.row)?))).collect();
        let label = |row: Row| round.labels.iter().find(|l| l.row == row).map(|l| Label::from_useful(l.useful));
        let picks =
            shown.iter().map(|&(_, i)| crate::recall::Pick { candidate: Candidate(i), terms: Default::default() });
        let slate = Slate { picks: picks.collect(), noise: Vec::new() };
        let labels: Vec<Option<Label>> = shown.iter().map(|&(row, _)| label(row)).collect();
        turn.observe(&slate, &labels);
    }
}

/// A slate as the store keeps it; explored is who is not among the `best` by the learned ranking.
fn entries(slate: &Slate, ranking: &Ranking, rows: &[Row], best: usize) -> Vec<SlateEntry> {
    let ranks = ranking.learned_ranks();
    let entry = |pick: &crate::recall::Pick| SlateEntry {
        row: rows[pick.candidate.0],
        explored: ranks[pick.candidate.0] > best,
    };
    slate.picks.iter().map(entry).collect()
}

fn judge_labels(slate: &Slate, labels: &[Option<Label>], rows: &[Row]) -> Vec<store::Label> {
    let label = |(pick, label): (&crate::recall::Pick, &Option<Label>)| {
        let useful = (*label)? == Label::Useful;
        Some(store::Label { row: rows[pick.candidate.0], useful, source: source::CRITIC.to_owned() })
    };
    slate.picks.iter().zip(labels).filter_map(label).collect()
}

/// Cuts the slate where its text would have more than about `max_tokens` tokens (four bytes each); one always stays.
fn limit_tokens(slate: &mut Slate, memories: &[Memory], max_tokens: Option<usize>) {
    let Some(limit) = max_tokens else { return };
    let mut spent = 0;
    let fits = slate.picks.iter().take_while(|pick| {
        spent += memories[pick.candidate.0].content.len().div_ceil(4);
        spent <= limit
    });
    let kept = fits.count().max(1);
    slate.picks.truncate(kept);
}

/// The results as numbered lines for a prompt, with date and author where known.
fn context(results: &[Recalled]) -> String {
    results.iter().map(|r| r.memory.numbered(r.rank)).collect::<Vec<_>>().join("\n")
}
