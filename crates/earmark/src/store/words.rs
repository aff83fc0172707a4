//! Search by words: BM25 over the word index, with a bounded cost.

use std::collections::{BTreeMap, HashSet};

use rusqlite::Connection;

use super::database::Attempt;
use super::lexicon::{self, Term};
use super::scope::{self, Checker};
use super::search::{Allowed, best_first};
use super::shortlist::Shortlist;
use super::{Hit, Row, Store, WordHits};
use crate::error::Result;
use crate::lexical::{Collection, Moments, WordScore, bm25, idf, query_words, rarity, score_text};
use crate::record::Scope;

/// Words of a query that are looked up; a longer query is cut.
const MOST_LOOKED_UP: usize = 512;
/// Words of a query that are scored: the rarest. [`WordScore::shared`] has a bit for each.
const MOST_SCORED: usize = 32;
/// Postings read for one query, as a multiple of the number of memories, and at least so many.
const BUDGET_PER_MEMORY: u64 = 2;
const LEAST_BUDGET: u64 = 50_000;
/// Words of a text below which what a word is worth that it has once is looked up instead of computed.
const SHORT: u32 = 256;
/// Longest list to ask one by one before the whole scope is listed instead.
const MOST_ASKED: usize = 8_192;

impl Store {
    /// The `k` memories of the scope with the highest BM25 score; best first, ties by lower row. Only
    /// memories that share a word with the query come back. Of a long query the rarest words count, so that
    /// common ones never cost more than a scan of the vectors.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn search_words(&self, query: &str, k: usize, scope: &Scope) -> Result<WordHits> {
        let words = query_words(query);
        self.database.read(|snapshot| {
            let collection = lexicon::collection(snapshot)?;
            let looked_up = look_up_terms(snapshot, &words)?;
            let terms = choose_terms(&looked_up, collection);
            let scores = score_all(self, snapshot, &terms, collection)?;
            let [moments, rare_moments] = scores.moments(collection);
            let weights = shares(&looked_up, &terms, collection);
            let mut found = WordHits { moments, rare_moments, weights, collection, ..Default::default() };
            if k == 0 || scores.is_empty() {
                return Ok(found);
            }
            let bank = self.bank(snapshot)?;
            found.hits = match self.allowed(snapshot, &bank, scope)? {
                Allowed::Everything => scores.best(k, |_| true),
                Allowed::Kept(rows) => scores.best(k, |row| rows.contains(row)),
                Allowed::Listed(listed) if listed.exact => scores.best_of(&listed.rows, k),
                Allowed::Listed(listed) => {
                    let list = scores.best_of(&listed.rows, listed.rows.len());
                    passed(list, &mut Checker::new(snapshot, scope)?, k)?
                }
                Allowed::Ask(_, checker) => ask(snapshot, &scores, scope, checker, k)?,
            };
            found.scores = scores;
            Ok(found)
        })
    }

    /// What the words shared with the query are worth for each of `rows`, in order; BM25 is the same number that
    /// [`Store::search_words`] gives, and 0 for a memory that shares no word.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn word_scores(&self, query: &str, rows: &[Row]) -> Result<Vec<WordScore>> {
        let words = query_words(query);
        self.database.read(|snapshot| {
            let collection = lexicon::collection(snapshot)?;
            let terms = choose_terms(&look_up_terms(snapshot, &words)?, collection);
            rows.iter().map(|row| score_row(snapshot, *row, &terms, collection)).collect()
        })
    }
}

/// The query's words as the index has them, `None` for a word that no text has.
fn look_up_terms(connection: &Connection, words: &[String]) -> Attempt<Vec<Option<Term>>> {
    words.iter().take(MOST_LOOKED_UP).map(|word| lexicon::term(connection, word)).collect()
}

/// The words that are scored, rarest first.
fn choose_terms(looked_up: &[Option<Term>], collection: Collection) -> Vec<Term> {
    let mut terms: Vec<Term> = looked_up.iter().flatten().copied().collect();
    terms.sort_unstable_by_key(|term| (term.texts, term.id));
    terms.truncate(MOST_SCORED);
    let budget = (collection.texts * BUDGET_PER_MEMORY).max(LEAST_BUDGET);
    let mut spent = 0;
    let affordable = terms.iter().take_while(|term| {
        let first = spent == 0;
        spent += term.texts;
        first || spent <= budget
    });
    affordable.copied().collect()
}

/// The share of each of `terms` in the idf of all the query's words.
fn shares(looked_up: &[Option<Term>], terms: &[Term], collection: Collection) -> Vec<f32> {
    let all: f32 = looked_up.iter().map(|term| idf(collection, term.map_or(0, |term| term.texts))).sum();
    terms.iter().map(|term| idf(collection, term.texts) / all).collect()
}

fn score_row(connection: &Connection, row: Row, terms: &[Term], collection: Collection) -> Attempt<WordScore> {
    let Some((length, counts)) = lexicon::document(connection, row)? else { return Ok(WordScore::default()) };
    let frequency = |term: &Term| counts.binary_search_by_key(&term.id, |(id, _)| *id).map_or(0, |at| counts[at].1);
    // From the rarest word on, as in `score_all`, so that the sums are equal to the last bit.
    Ok(score_text(terms.iter().map(|term| (term.texts, frequency(term))), length, collection))
}

/// Scores of all memories that have one of `terms`.
fn score_all(store: &Store, connection: &Connection, terms: &[Term], collection: Collection) -> Attempt<Scores> {
    let mut scores = Scores::default();
    for (place, term) in terms.iter().enumerate() {
        let (idf, rarity) = (idf(collection, term.texts), rarity(collection, term.texts));
        let (bit, worth) = (WordScore::bit(place), |frequency, length| bm25(idf, frequency, length, collection));
        let once: Vec<f32> = (0..SHORT).map(|length| worth(1, length)).collect();
        let whole = lexicon::for_each_posting(connection, term.id, |posting| {
            let bm25 = match once.get(posting.length as usize) {
                Some(&known) if posting.frequency == 1 => known,
                _ => worth(posting.frequency, posting.length),
            };
            scores.of_mut(posting.row).add(bit, bm25, rarity);
        })?;
        if !whole {
            return Err(store.database.corrupt("the word index does not hold together").into());
        }
    }
    Ok(scores)
}

/// Goes down the list and asks of each memory whether it is in the scope.
fn ask(
    connection: &Connection,
    scores: &Scores,
    scope: &Scope,
    mut checker: Checker<'_>,
    k: usize,
) -> Attempt<Vec<Hit>> {
    let mut want = 4 * k + 256;
    while want <= MOST_ASKED.max(2 * k) {
        let list = scores.best(want, |_| true);
        let complete = list.len() < want;
        let passed = passed(list, &mut checker, k)?;
        if complete || passed.len() == k {
            return Ok(passed);
        }
        want *= 4;
    }
    Ok(scores.best_of(&scope::list_all(connection, scope)?, k))
}

/// The first `k` of the list that are in the scope.
fn passed(list: Vec<Hit>, checker: &mut Checker<'_>, k: usize) -> Attempt<Vec<Hit>> {
    let mut passed = Vec::with_capacity(k.min(list.len()));
    for hit in list {
        if passed.len() == k {
            break;
        }
        if checker.accepts(hit.row)? {
            passed.push(hit);
        }
    }
    Ok(passed)
}

/// Scores by row, in pages of neighbouring rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Scores {
    pages: BTreeMap<i64, Vec<WordScore>>,
    /// The page in hand; postings come in row order.
    open: Option<(i64, Vec<WordScore>)>,
}

/// A multiple of four.
const PAGE: i64 = 4_096;

impl Scores {
    #[inline]
    fn of_mut(&mut self, row: i64) -> &mut WordScore {
        let page = row.div_euclid(PAGE);
        if self.open.as_ref().is_none_or(|(open, _)| *open != page) {
            self.turn_to(page);
        }
        let (_, scores) = self.open.get_or_insert_default();
        &mut scores[row.rem_euclid(PAGE) as usize]
    }

    fn turn_to(&mut self, page: i64) {
        if let Some((number, scores)) = self.open.take() {
            self.pages.insert(number, scores);
        }
        let scores = self.pages.remove(&page).unwrap_or_else(|| vec![WordScore::default(); PAGE as usize]);
        self.open = Some((page, scores));
    }

    fn is_empty(&self) -> bool {
        self.open.is_none()
    }

    /// The score of one memory.
    pub(crate) fn of(&self, row: Row) -> WordScore {
        let page = row.0.div_euclid(PAGE);
        let open = self.open.as_ref().filter(|(number, _)| *number == page).map(|(_, scores)| scores);
        let scores = open.or_else(|| self.pages.get(&page));
        scores.map_or(WordScore::default(), |scores| scores[row.0.rem_euclid(PAGE) as usize])
    }

    /// Of BM25 and of [`WordScore::rare`] over all memories; those without a shared word count as 0.
    fn moments(&self, collection: Collection) -> [Moments; 2] {
        // Four sums side by side, because one addition would wait for the one before.
        let mut lanes = [[0.0; 4]; 4];
        for (_, scores) in self.pages() {
            for four in scores.as_chunks::<4>().0 {
                for (sums, score) in lanes.iter_mut().zip(four) {
                    let [x, y] = [score.bm25, score.rare].map(f64::from);
                    for (sum, value) in sums.iter_mut().zip([x, x * x, y, y * y]) {
                        *sum += value;
                    }
                }
            }
        }
        let sum = |i: usize| lanes.iter().map(|sums| sums[i]).sum();
        [(0, 1), (2, 3)].map(|(x, squares)| Moments::of_sums(sum(x), sum(squares), collection.texts))
    }

    fn pages(&self) -> impl Iterator<Item = (i64, &Vec<WordScore>)> {
        self.pages.iter().map(|(number, scores)| (*number, scores)).chain(self.open.as_ref().map(|(n, s)| (*n, s)))
    }

    /// The best `k` of those that pass.
    fn best(&self, k: usize, passes: impl Fn(Row) -> bool) -> Vec<Hit> {
        let mut list = Shortlist::new(k, 0.0);
        for (number, scores) in self.pages() {
            for (at, score) in scores.iter().enumerate() {
                let row = Row(number * PAGE + at as i64);
                if score.bm25 >= list.floor().max(f32::MIN_POSITIVE) && passes(row) {
                    list.push(score.bm25, row);
                }
            }
        }
        hits(list, k)
    }

    fn best_of(&self, rows: &[Row], k: usize) -> Vec<Hit> {
        let rows: HashSet<Row> = rows.iter().copied().collect();
        self.best(k, |row| rows.contains(&row))
    }
}

fn hits(list: Shortlist<Row>, k: usize) -> Vec<Hit> {
    let mut hits: Vec<Hit> = list.finish().into_iter().map(|(score, row)| Hit { row, score }).collect();
    hits.sort_by(best_first);
    hits.truncate(k);
    hits
}
