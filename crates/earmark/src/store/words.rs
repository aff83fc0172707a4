//! Search by words: BM25 over the word index, with a bounded cost.

use std::collections::{BTreeMap, HashSet};

use rusqlite::Connection;

use super::database::Attempt;
use super::lexicon::{self, Term};
use super::scope::{self, Checker};
use super::search::{Allowed, allowed, best_first};
use super::shortlist::Shortlist;
use super::{Hit, Row, Store, WordHits};
use crate::error::Result;
use crate::lexical::{Collection, Moments, WordScore, bm25, idf, query_words, rarity, score_text};
use crate::record::Scope;

/// Words of a query that are looked up; a longer query is cut.
const MOST_LOOKED_UP: usize = 512;
/// Words of a query that are scored: the rarest.
const MOST_SCORED: usize = 32;
/// Postings read for one query, as a multiple of the number of memories, and at least so many.
const BUDGET_PER_MEMORY: u64 = 2;
const LEAST_BUDGET: u64 = 50_000;
/// Words of a query from which on rare words are weighed apart.
const RARE_MATTERS_ABOVE: usize = 11;
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
            let terms = choose_terms(snapshot, &words, collection)?;
            let scores = score_all(self, snapshot, &terms, collection, |_| 1.0)?;
            let (moments, best) = scores.moments(collection);
            let mut found = WordHits { moments, best, collection, ..Default::default() };
            if words.len() > RARE_MATTERS_ABOVE {
                let weight = |texts| rarity(collection, texts);
                found.rare_scores = score_all(self, snapshot, &terms, collection, weight)?;
                found.rare_moments = found.rare_scores.moments(collection).0;
            }
            if k == 0 || scores.is_empty() {
                return Ok(found);
            }
            let bank = self.bank(snapshot)?;
            found.hits = match allowed(snapshot, &bank, scope)? {
                Allowed::Everything => scores.best(k),
                Allowed::Listed(listed) if listed.exact => scores.best_of(&listed.rows, k),
                Allowed::Listed(listed) => {
                    let list = scores.best_of(&listed.rows, listed.rows.len());
                    passed(list, &mut Checker::new(snapshot, scope)?, k)?
                }
                Allowed::Ask(_) => ask(snapshot, &scores, scope, k)?,
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

fn score_row(connection: &Connection, row: Row, terms: &[Term], collection: Collection) -> Attempt<WordScore> {
    let Some((length, counts)) = lexicon::document(connection, row)? else { return Ok(WordScore::default()) };
    let frequency = |term: &Term| counts.binary_search_by_key(&term.id, |(id, _)| *id).map_or(0, |at| counts[at].1);
    // From the rarest word on, as in `score_all`, so that the sums are equal to the last bit.
    Ok(score_text(terms.iter().map(|term| (term.texts, frequency(term))), length, collection))
}

/// Scores of all memories that have one of `terms`; `weight` of a word follows from how many texts have it.
fn score_all(
    store: &Store,
    connection: &Connection,
    terms: &[Term],
    collection: Collection,
    weight: impl Fn(u64) -> f32,
) -> Attempt<Scores> {
    let mut scores = Scores::default();
    for term in terms {
        let (idf, weight) = (idf(collection, term.texts), weight(term.texts));
        let whole = lexicon::for_each_posting(connection, term.id, |posting| {
            scores.add(posting.row, bm25(idf, posting.frequency, posting.length, collection) * weight);
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
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Scores {
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

    /// The score of one memory.
    pub(crate) fn of(&self, row: Row) -> f32 {
        let page = row.0.div_euclid(PAGE);
        let open = self.open.as_ref().filter(|(number, _)| *number == page).map(|(_, scores)| scores);
        let scores = open.or_else(|| self.pages.get(&page));
        scores.map_or(0.0, |scores| scores[row.0.rem_euclid(PAGE) as usize])
    }

    /// Over all memories, and the highest; those without a shared word count as 0.
    fn moments(&self, collection: Collection) -> (Moments, f32) {
        let all = self.pages().flat_map(|(_, scores)| scores);
        let (sum, squares, best) = all.fold((0.0, 0.0, 0.0f32), |(sum, squares, best), &score| {
            let x = f64::from(score);
            (sum + x, squares + x * x, best.max(score))
        });
        (Moments::of_sums(sum, squares, collection.texts), best)
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
