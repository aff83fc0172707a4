//! From a question to its candidates and everything known about them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Namespace,
    learning::{Learned, features_of},
};
use crate::{
    error::{Error, Result},
    learn::{PastQuestion, hindsight},
    lexical::{WordScore, coverage},
    params::Recipe,
    recall::{AROUND, Corpus, Evidence, Facts, Pool, Question, features, fused_score, top_k},
    record::{Memory, Scope},
    store::{Hit, Neighbours, Row, Store, StoredRecall, WordHits},
    threads::at_once,
};

/// The candidates of one question. All lists are parallel; a place in them is a [`Candidate`](crate::recall::Candidate).
pub(super) struct Gathered {
    pub(super) rows: Vec<Row>,
    pub(super) memories: Vec<Memory>,
    pub(super) pool: Arc<Pool>,
    pub(super) evidence: Vec<Evidence>,
    /// `[K x F]`; rows are empty under the `paper` recipe.
    pub(super) features: Vec<Vec<f32>>,
}

/// A candidate with what is known about it.
struct Found {
    row: Row,
    memory: Memory,
    vector: Vec<f32>,
    evidence: Evidence,
}

impl Gathered {
    /// Candidates without features; one whose vector is gone by now is left out.
    fn new(query: &[f32], found: Vec<Found>) -> Result<Gathered> {
        let found: Vec<Found> = found.into_iter().filter(|one| one.vector.len() == query.len()).collect();
        let vectors: Vec<&[f32]> = found.iter().map(|one| one.vector.as_slice()).collect();
        let pool = Arc::new(Pool::from_rows(query, &vectors)?);
        let features = vec![Vec::new(); found.len()];
        let (mut rows, mut memories, mut evidence) = (Vec::new(), Vec::new(), Vec::new());
        for one in found {
            rows.push(one.row);
            memories.push(one.memory);
            evidence.push(one.evidence);
        }
        Ok(Gathered { rows, memories, pool, evidence, features })
    }

    /// Cosines `[K]`.
    pub(super) fn dense(&self) -> Vec<f32> {
        self.evidence.iter().map(|e| e.dense).collect()
    }

    /// Score of each candidate `[K]` by its features.
    pub(super) fn scores(&self, score: impl Fn(&[f32]) -> f64) -> Vec<f32> {
        self.features.iter().map(|features| score(features) as f32).collect()
    }
}

/// What one question found out about memories, so that nothing is looked up twice.
struct Known<'a> {
    store: &'a Store,
    query: &'a [f32],
    asked: Question,
    dense: HashMap<Row, f32>,
    words: WordHits,
    corpus: Corpus,
}

impl Known<'_> {
    fn dense(&self, row: Row) -> f32 {
        self.dense.get(&row).copied().unwrap_or_default()
    }

    /// What both arms say of a row.
    fn evidence(&self, row: Row) -> Evidence {
        Evidence { dense: self.dense(row), words: self.words.score(row), ..Evidence::default() }
    }

    /// The best `wanted` rows of both arms by the static score of meaning and words.
    fn shortlist(&self, dense: &[Hit], wanted: usize) -> Vec<Row> {
        let rows = union(dense, &self.words.hits);
        let fused = |row: &Row| fused_score(&self.asked, &self.corpus, &self.evidence(*row));
        let scores: Vec<f32> = rows.iter().map(fused).collect();
        top_k(&scores, wanted).into_iter().map(|i| rows[i]).collect()
    }

    /// Everything that is known about each of `rows` which is there.
    fn look_at(&self, rows: &[Row]) -> Result<Vec<Found>> {
        let memories = self.store.memories(rows)?;
        let rows: Vec<Row> = memories.iter().map(|(row, _)| *row).collect();
        let (vectors, contexts) = (self.store.vectors(&rows)?, self.contexts(&memories)?);
        let found = |(((row, memory), vector), context): (((Row, Memory), Vec<f32>), Context)| {
            let facts = Facts::read(&memory.content, memory.author.as_deref(), memory.occurred_at);
            let Context { beside: [previous, next], around } = context;
            let in_session = memory.session_id.is_some();
            let evidence = Evidence { previous, next, around, facts, in_session, ..self.evidence(row) };
            Found { row, memory, vector, evidence }
        };
        Ok(memories.into_iter().zip(vectors).zip(contexts).map(found).collect())
    }

    /// What was said around each memory in its session.
    fn contexts(&self, memories: &[(Row, Memory)]) -> Result<Vec<Context>> {
        let neighbours = self.store.neighbours(memories, AROUND)?;
        let beside = |n: &Neighbours| [n.before.first(), n.after.first()].map(|row| row.copied());
        let near: Vec<Row> = neighbours.iter().flat_map(beside).flatten().collect();
        let cosines = self.store.cosines(self.query, &near)?;
        let dense: HashMap<Row, f32> = near.into_iter().zip(cosines).collect();
        let context = |(row, n): (Row, &Neighbours)| {
            let shared = |row: &Row| self.words.score(*row).shared;
            let around = n.before.iter().chain(&n.after).fold(0, |bits, row| bits | shared(row)) & !shared(&row);
            let beside = beside(n).map(|row| row.map(|row| dense[&row]));
            Context { beside, around: coverage(&self.words.weights, around) }
        };
        Ok(memories.iter().map(|(row, _)| *row).zip(&neighbours).map(context).collect())
    }
}

/// What was said around a memory in its session.
#[derive(Clone, Copy)]
struct Context {
    /// Cosines of the turns right before and after.
    beside: [Option<f32>; 2],
    /// [`Evidence::around`].
    around: f32,
}

impl Namespace {
    /// Finds the candidates (Eq. 1): the most similar memories, and under the `default` recipe also those that share
    /// words with the question; at most `wanted` of them, by the static ranking.
    pub(super) fn gather(
        &self,
        question: &str,
        query: &[f32],
        scope: &Scope,
        wanted: usize,
        learned: &Learned,
    ) -> Result<Gathered> {
        if self.settings().params.recipe == Recipe::Paper {
            let hits = self.store.search(query, wanted, scope)?;
            let rows: Vec<Row> = hits.iter().map(|hit| hit.row).collect();
            let evidence = |row: &Row| hits.iter().find(|hit| hit.row == *row).map_or(0.0, |hit| hit.score);
            return self.look_up(query, &rows, |row| Evidence { dense: evidence(row), ..Evidence::default() });
        }
        let (dense, known) = self.search_arms(question, query, scope, 2 * wanted)?;
        let rows = known.shortlist(&dense, wanted);
        let (left, right) = rows.split_at(rows.len() / 2);
        let (left, right) = at_once(|| known.look_at(left), || known.look_at(right));
        let (mut found, others) = (left?, right?);
        found.extend(others);
        let gathered = Gathered::new(query, found)?;
        self.with_features(gathered, &known, learned)
    }

    /// Both arms at once, on two threads.
    fn search_arms<'a>(
        &'a self,
        question: &str,
        query: &'a [f32],
        scope: &Scope,
        k: usize,
    ) -> Result<(Vec<Hit>, Known<'a>)> {
        let (hits, words) = at_once(
            || self.store.search(query, k, scope),
            || {
                let words = self.store.search_words(question, k, scope)?;
                let corpus = self.corpus(query, &words)?;
                let rows: Vec<Row> = words.hits.iter().map(|hit| hit.row).collect();
                let cosines = self.store.cosines(query, &rows)?;
                Ok::<_, Error>((words, corpus, rows.into_iter().zip(cosines)))
            },
        );
        let (hits, (words, corpus, cosines)) = (hits?, words?);
        let dense = hits.iter().map(|hit| (hit.row, hit.score)).chain(cosines).collect();
        let known = Known { store: &self.store, query, asked: Question::read(question), dense, words, corpus };
        Ok((hits, known))
    }

    fn corpus(&self, query: &[f32], words: &WordHits) -> Result<Corpus> {
        Ok(Corpus {
            dense: self.store.cosine_moments(query)?,
            lexical: words.moments,
            rare: words.rare_moments,
            mean_length: words.collection.words as f32 / words.collection.texts.max(1) as f32,
        })
    }

    /// The candidates of a stored recall with the features they were logged with.
    pub(super) fn gather_again(&self, recall: &StoredRecall) -> Result<Gathered> {
        let rows: Vec<Row> = recall.log.candidates.iter().map(|c| c.row).collect();
        let query = &recall.log.query_vector;
        let dense = self.store.cosines(query, &rows)?;
        let words = self.store.word_scores(&recall.log.query, &rows)?;
        let known: HashMap<Row, (f32, WordScore)> = rows.iter().copied().zip(dense.into_iter().zip(words)).collect();
        let mut gathered = self.look_up(query, &rows, |row| {
            let (dense, words) = known[row];
            Evidence { dense, words, ..Evidence::default() }
        })?;
        gathered.features = gathered.rows.iter().map(|row| features_of(recall, *row).to_vec()).collect();
        Ok(gathered)
    }

    /// The memories of `rows`, as far as they are there, without features.
    fn look_up(&self, query: &[f32], rows: &[Row], evidence: impl Fn(&Row) -> Evidence) -> Result<Gathered> {
        let memories = self.store.memories(rows)?;
        let rows: Vec<Row> = memories.iter().map(|(row, _)| *row).collect();
        let vectors = self.store.vectors(&rows)?;
        let found = |((row, memory), vector)| Found { evidence: evidence(&row), row, memory, vector };
        Gathered::new(query, memories.into_iter().zip(vectors).map(found).collect())
    }

    /// Adds what the `default` recipe ranks by.
    fn with_features(&self, mut gathered: Gathered, known: &Known<'_>, learned: &Learned) -> Result<Gathered> {
        let speaking = learned.past.speaking(known.query);
        let useful = self.useful_vectors(&speaking)?;
        for (i, evidence) in gathered.evidence.iter_mut().enumerate() {
            let vector = gathered.pool.memories().row(i).to_vec();
            evidence.past = hindsight(&speaking, &useful, gathered.rows[i].0, &vector);
        }
        let features = features(&known.asked, &known.corpus, &gathered.evidence);
        gathered.features = features.iter().map(|row| row.to_vec()).collect();
        Ok(gathered)
    }

    /// Vectors of the memories that were useful for past questions, by key.
    fn useful_vectors(&self, speaking: &[(&PastQuestion, f32)]) -> Result<HashMap<i64, Vec<f32>>> {
        let labels = speaking.iter().flat_map(|(past, _)| &past.labels);
        let rows: Vec<Row> = labels.filter(|label| label.useful).map(|label| Row(label.key)).collect();
        let vectors = self.store.vectors(&rows)?;
        Ok(rows.iter().map(|row| row.0).zip(vectors).filter(|(_, vector)| !vector.is_empty()).collect())
    }
}

/// Rows of both arms, each once, the arms taking turns.
fn union(dense: &[Hit], lexical: &[Hit]) -> Vec<Row> {
    let longest = dense.len().max(lexical.len());
    let taking_turns = (0..longest).flat_map(|i| [dense.get(i), lexical.get(i)]).flatten();
    let mut seen = HashSet::new();
    taking_turns.map(|hit| hit.row).filter(|row| seen.insert(*row)).collect()
}
