//! Search by words: BM25 over the word index, with a bounded cost.

use std::collections::{BTreeMap, HashSet};

use rusqlite::Connection;

use super::bm25::{Collection, bm25, idf};
use super::database::Attempt;
use super::lexicon::{self, Term};
use super::scope::{self, Checker};
use super::search::{Allowed, allowed, best_first};
use super::shortlist::Shortlist;
use super::{Hit, Row, Store, text};
use crate::error::Result;
use crate::record::Scope;

/// Words of a query that are looked up; a longer query is cut.
const MOST_LOOKED_UP: usize = 512;
/// Words of a query that are scored: the rarest.
const MOST_SCORED: usize = 32;
/// Postings read for one query, as a multiple of the number of memories, and at least so many.
const BUDGET_PER_MEMORY: u64 = 2;
const LEAST_BUDGET: u64 = 50_000;
/// Longest list to ask one by one before the whole scope is listed instead.
const MOST_ASKED: usize = 8_192;

impl Store {
    /// The `k` memories of the scope with the highest BM25 score; best first, ties by lower row. Only
    /// memories that share a word with the query come back. Of a long query the rarest words count, so that
    /// common ones never cost more than a scan of the vectors.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn search_words(&self, query: &str, k: usize, scope: &Scope) -> Result<Vec<Hit>> {
        let words = text::query_words(query);
        self.database.read(|snapshot| {
            let scores = score_all(self, snapshot, &words)?;
            if k == 0 || scores.is_empty() {
                return Ok(Vec::new());
            }
            let bank = self.bank(snapshot)?;
            match allowed(snapshot, &bank, scope)? {
                Allowed::Everything => Ok(scores.best(k)),
                Allowed::Listed(listed) if listed.exact => Ok(scores.best_of(&listed.rows, k)),
                Allowed::Listed(listed) => {
                    let list = scores.best_of(&listed.rows, listed.rows.len());
                    passed(list, &mut Checker::new(snapshot, scope)?, k)
                }
                Allowed::Ask(_) => ask(snapshot, &scores, scope, k),
            }
        })
    }

    /// The BM25 score of each of `rows`, in order: the same number that [`Store::search_words`] gives; 0 for a
    /// memory that shares no word with the query.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn word_scores(&self, query: &str, rows: &[Row]) -> Result<Vec<f32>> {
        let words = text::query_words(query);
        self.database.read(|snapshot| {
            let collection = lexicon::collection(snapshot)?;
            let terms = choose_terms(snapshot, &words, collection)?;
            rows.iter().map(|row| score_row(snapshot, *row, &terms, collection)).collect()
        })
    }
}

/// The query's words that are scored, rarest first.
fn choose_terms(connection: &Connection, words: &[String], collection: Collection) -> Attempt<Vec<Term>> {
    let found = words.iter().take(MOST_LOOKED_UP).map(|word| lexicon::term(connection, word));
    let mut terms: Vec<Term> = found.collect::<Attempt<Vec<_>>>()?.into_iter().flatten().collect();
    terms.sort_unstable_by_key(|term| (term.texts, term.id));
    terms.truncate(MOST_SCORED);
    let budget = (collection.texts * BUDGET_PER_MEMORY).max(LEAST_BUDGET);
    let mut spent = 0;
    let affordable = terms.iter().take_while(|term| {
        let first = spent == 0;
        spent += term.texts;
        first || spent <= budget
    });
    Ok(affordable.copied().collect())
}

fn score_row(connection: &Connection, row: Row, terms: &[Term], collection: Collection) -> Attempt<f32> {
    let Some((length, counts)) = lexicon::document(connection, row)? else { return Ok(0.0) };
    let score = |term: &Term| {
        let at = counts.binary_search_by_key(&term.id, |(id, _)| *id).ok()?;
        Some(bm25(idf(collection, term.texts), counts[at].1, length, collection))
    };
    // From the rarest word on, as in `score_all`, so that the sums are equal to the last bit.
    Ok(terms.iter().filter_map(score).fold(0.0, |sum, score| sum + score))
}

fn score_all(store: &Store, connection: &Connection, words: &[String]) -> Attempt<Scores> {
    let collection = lexicon::collection(connection)?;
    let mut scores = Scores::default();
    for term in choose_terms(connection, words, collection)? {
        let idf = idf(collection, term.texts);
        let whole = lexicon::for_each_posting(connection, term.id, |posting| {
            scores.add(posting.row, bm25(idf, posting.frequency, posting.length, collection));
        })?;
        if !whole {
            return Err(store.database.corrupt("the word index does not hold together").into());
        }
    }
    Ok(scores)
}

/// Goes down the list and asks of each memory whether it is in the scope.
fn ask(connection: &Connection, scores: &Scores, scope: &Scope, k: usize) -> Attempt<Vec<Hit>> {
    let mut checker = Checker::new(connection, scope)?;
    let mut want = 4 * k + 256;
    while want <= MOST_ASKED.max(2 * k) {
        let list = scores.best(want);
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
#[derive(Debug, Default)]
struct Scores {
    pages: BTreeMap<i64, Vec<f32>>,
    /// The page in hand; postings come in row order.
    open: Option<(i64, Vec<f32>)>,
}

const PAGE: i64 = 4_096;

impl Scores {
    fn add(&mut self, row: i64, score: f32) {
        let page = row.div_euclid(PAGE);
        if self.open.as_ref().is_none_or(|(open, _)| *open != page) {
            self.turn_to(page);
        }
        if let Some((_, scores)) = &mut self.open {
            scores[row.rem_euclid(PAGE) as usize] += score;
        }
    }

    fn turn_to(&mut self, page: i64) {
        if let Some((number, scores)) = self.open.take() {
            self.pages.insert(number, scores);
        }
        let scores = self.pages.remove(&page).unwrap_or_else(|| vec![0.0; PAGE as usize]);
        self.open = Some((page, scores));
    }

    fn is_empty(&self) -> bool {
        self.open.is_none()
    }

    fn pages(&self) -> impl Iterator<Item = (i64, &Vec<f32>)> {
        self.pages.iter().map(|(number, scores)| (*number, scores)).chain(self.open.as_ref().map(|(n, s)| (*n, s)))
    }

    fn best(&self, k: usize) -> Vec<Hit> {
        let mut list = Shortlist::new(k, 0.0);
        for (number, scores) in self.pages() {
            for (at, score) in scores.iter().enumerate().filter(|(_, score)| **score > 0.0) {
                list.push(*score, Row(number * PAGE + at as i64));
            }
        }
        hits(list, k)
    }

    fn best_of(&self, rows: &[Row], k: usize) -> Vec<Hit> {
        let rows: HashSet<Row> = rows.iter().copied().collect();
        let mut list = Shortlist::new(k, 0.0);
        for (number, scores) in self.pages() {
            for (at, score) in scores.iter().enumerate().filter(|(_, score)| **score > 0.0) {
                let row = Row(number * PAGE + at as i64);
                if rows.contains(&row) {
                    list.push(*score, row);
                }
            }
        }
        hits(list, k)
    }
}

fn hits(list: Shortlist<Row>, k: usize) -> Vec<Hit> {
    let mut hits: Vec<Hit> = list.finish().into_iter().map(|(score, row)| Hit { row, score }).collect();
    hits.sort_by(best_first);
    hits.truncate(k);
    hits
}
