//! What the `default` recipe knows about each candidate of a question, as numbers that mean the same everywhere.

use super::facts::{Facts, Question};
use crate::lexical::{Moments, WordScore};

/// Facts about one candidate of one question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Cosine of query and memory.
    pub dense: f32,
    /// What the shared words are worth.
    pub words: WordScore,
    /// What the text itself says.
    pub facts: Facts,
    /// Cosine of the query and the turn before in the same session.
    pub previous: Option<f32>,
    /// The same for the turn after.
    pub next: Option<f32>,
    /// How much of the question those of its words make up that this text lacks, but up to [`AROUND`] turns before or
    /// after it in the same session have, in [0, 1].
    pub around: f32,
    /// Whether it was said in a session.
    pub in_session: bool,
    /// What similar past questions say about it.
    pub past: Hindsight,
}

/// Turns on either side whose words count as said around a candidate.
pub const AROUND: usize = 2;

/// What similar past questions say about a candidate.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Hindsight {
    /// How much it was useful for them, in [0, 2].
    pub useful: f32,
    /// How much it was shown in vain, in [0, 2].
    pub useless: f32,
    /// How much it is like another memory that was useful for one of them, in [0, 1].
    pub like_useful: f32,
}

/// Numbers of the whole namespace for one question.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Corpus {
    /// Cosine with the query over all memories.
    pub dense: Moments,
    /// BM25 over all memories.
    pub lexical: Moments,
    /// Rare-word BM25 over all memories.
    pub rare: Moments,
    /// Mean number of words of a memory.
    pub mean_length: f32,
}

/// Name, prior mean and prior precision of each feature. The means make the static ranking; a precision says how
/// firmly a weight holds on to its mean.
const TABLE: [(&str, f64, f64); FEATURES] = [
    ("every memory", -6.0, 0.1),
    ("meaning and words together", 0.9, PRECISION),
    ("meaning", 0.0, PRECISION),
    ("words", 0.0, PRECISION),
    ("rare words", 0.0, PRECISION),
    ("closest in meaning", 0.0, PRECISION),
    ("closest in words", 0.0, PRECISION),
    ("turn beside: meaning", 0.0, PRECISION),
    ("words in the turns around", 1.0, PRECISION),
    ("author named", 0.5, PRECISION),
    ("asked by the user about the user", 0.5, PRECISION),
    ("asked about the assistant", 0.6, PRECISION),
    ("said by an assistant", -0.5, PRECISION),
    ("a time where one is asked for", 0.0, PRECISION),
    ("has a time", 0.0, PRECISION),
    ("has a number", 0.0, PRECISION),
    ("month or year asked for", 0.3, PRECISION),
    ("a number where one is asked for", 0.3, PRECISION),
    ("length", 0.0, PRECISION),
    ("is a question", -0.4, PRECISION),
    ("has a question", 0.0, PRECISION),
    ("opens its session", 0.3, PRECISION),
    ("useful for similar questions", 2.0, PAST_PRECISION),
    ("shown in vain for similar questions", 0.0, PAST_PRECISION),
    ("like what was useful for similar questions", 1.0, PAST_PRECISION),
];
/// Of most weights: early fits stay close to the static ranking.
const PRECISION: f64 = 16.0;
/// Of the weights of past feedback.
const PAST_PRECISION: f64 = 4.0;

/// Number of features `F`.
pub const FEATURES: usize = 25;

/// Where the features of past feedback begin: useful, useless, like useful.
pub const PAST_FEATURES: usize = FEATURES - 3;

/// Names of the features `[F]`, for explanations.
pub const FEATURE_NAMES: [&str; FEATURES] = {
    let mut names = [""; FEATURES];
    let mut i = 0;
    while i < FEATURES {
        names[i] = TABLE[i].0;
        i += 1;
    }
    names
};

/// Weights `[F]` that rank before anything was learned: the prior's mean.
pub const STATIC_WEIGHTS: [f64; FEATURES] = {
    let mut means = [0.0; FEATURES];
    let mut i = 0;
    while i < FEATURES {
        means[i] = TABLE[i].1;
        i += 1;
    }
    means
};

/// Inverse prior variances `[F]`.
pub const STATIC_PRECISION: [f64; FEATURES] = {
    let mut precisions = [0.0; FEATURES];
    let mut i = 0;
    while i < FEATURES {
        precisions[i] = TABLE[i].2;
        i += 1;
    }
    precisions
};

/// Static score of a candidate by meaning and words together, at least 0. Chooses the pool.
///
/// `S = sqrt(D² + L²)` with `D = max(0, z(cosine))` and
/// `L = 0.45 (1 + a) ((1 - a) max(0, z(bm25)) + a max(0, z(rare)))`; `a` grows from 0 to 1 with the number of the
/// question's words, because in long questions rare words say more.
pub fn fused_score(question: &Question, corpus: &Corpus, evidence: &Evidence) -> f32 {
    let (meaning, words) = (corpus.dense.standard(evidence.dense).max(0.0), lexical_term(question, corpus, evidence));
    meaning.hypot(words)
}

fn lexical_term(question: &Question, corpus: &Corpus, evidence: &Evidence) -> f32 {
    let long = long_question(question.terms());
    let plain = corpus.lexical.standard(evidence.words.bm25).max(0.0);
    let rare = corpus.rare.standard(evidence.words.rare).max(0.0);
    0.45 * (1.0 + long) * ((1.0 - long) * plain + long * rare)
}

/// How much a question counts as long, in [0, 1]: 0 up to 11 words, 1 from 29.
fn long_question(terms: usize) -> f32 {
    (((1.0 + terms as f32).ln() - 2.5) / 0.9).clamp(0.0, 1.0)
}

/// Features `[K x F]` of the candidates of one question.
pub fn features(question: &Question, corpus: &Corpus, evidence: &[Evidence]) -> Vec<[f32; FEATURES]> {
    let pool = PoolView::of(question, evidence);
    (0..evidence.len()).map(|i| row(question, corpus, &pool, i)).collect()
}

/// What a candidate's features need to know of the others.
struct PoolView<'a> {
    evidence: &'a [Evidence],
    dense_ranks: Vec<usize>,
    lexical_ranks: Vec<usize>,
    /// Whether the question names any candidate's author.
    someone_named: bool,
}

impl<'a> PoolView<'a> {
    fn of(question: &Question, evidence: &'a [Evidence]) -> Self {
        let ranks = |score: &dyn Fn(&Evidence) -> f32| {
            let scores: Vec<f32> = evidence.iter().map(score).collect();
            let mut ranks = vec![0; scores.len()];
            for (rank, place) in super::top_k(&scores, scores.len()).into_iter().enumerate() {
                ranks[place] = rank;
            }
            ranks
        };
        let named = |e: &Evidence| e.facts.has_name() && e.facts.author.as_deref().is_some_and(|a| question.names(a));
        PoolView {
            dense_ranks: ranks(&|e| e.dense),
            lexical_ranks: ranks(&|e| e.words.bm25),
            someone_named: evidence.iter().any(named),
            evidence,
        }
    }

    /// +1 the author is named, -1 another one is, 0 nobody is (or the author is no name).
    fn named(&self, question: &Question, facts: &Facts) -> f32 {
        match facts.author.as_deref().filter(|_| self.someone_named && facts.has_name()) {
            None => 0.0,
            Some(author) if question.names(author) => 1.0,
            Some(_) => -1.0,
        }
    }
}

fn row(question: &Question, corpus: &Corpus, pool: &PoolView<'_>, i: usize) -> [f32; FEATURES] {
    let e = &pool.evidence[i];
    let facts = &e.facts;
    let flag = |holds: bool| f32::from(u8::from(holds));
    let dense_z = |cosine: f32| corpus.dense.standard(cosine);
    let beside = [e.previous, e.next].into_iter().flatten().map(dense_z).reduce(f32::max);
    let roles = flag(facts.is_user) - flag(facts.is_assistant);
    [
        1.0,
        fused_score(question, corpus, e),
        dense_z(e.dense),
        corpus.lexical.standard(e.words.bm25),
        corpus.rare.standard(e.words.rare),
        1.0 / (1.0 + pool.dense_ranks[i] as f32),
        if e.words.bm25 > 0.0 { 1.0 / (1.0 + pool.lexical_ranks[i] as f32) } else { 0.0 },
        beside.unwrap_or(0.0),
        e.around,
        pool.named(question, facts),
        flag(question.first_person) * roles,
        flag(question.second_person) * -roles,
        flag(facts.is_assistant),
        flag(question.asks_when && facts.has_time),
        flag(facts.has_time),
        flag(facts.has_number),
        question.month_match(facts),
        flag(question.asks_number && facts.has_number),
        ((facts.length.max(1) as f32) / corpus.mean_length.max(1.0)).ln(),
        flag(facts.asks),
        flag(facts.has_question),
        flag(e.in_session && e.previous.is_none()),
        e.past.useful,
        e.past.useless,
        e.past.like_useful,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus() -> Corpus {
        Corpus {
            dense: Moments { mean: 0.1, deviation: 0.1 },
            lexical: Moments { mean: 1.0, deviation: 2.0 },
            mean_length: 10.0,
            ..Corpus::default()
        }
    }

    fn candidate(dense: f32, bm25: f32) -> Evidence {
        Evidence { dense, words: WordScore { bm25, ..WordScore::default() }, ..Evidence::default() }
    }

    #[test]
    fn fused_score_by_hand() {
        // D = (0.4 - 0.1) / 0.1 = 3; L = 0.45 (5 - 1) / 2 = 0.9: sqrt(9 + 0.81).
        let question = Question::read("short question");
        let score = fused_score(&question, &corpus(), &candidate(0.4, 5.0));
        assert!((score - 9.81f32.sqrt()).abs() < 1e-4, "{score}");
        assert_eq!(fused_score(&question, &corpus(), &candidate(0.0, 0.0)), 0.0);
    }

    #[test]
    fn long_questions_weigh_rare_words() {
        assert_eq!((long_question(11), long_question(29)), (0.0, 1.0));
        assert!((long_question(18) - (19f32.ln() - 2.5) / 0.9).abs() < 1e-6);
    }

    #[test]
    fn every_feature_has_a_row_and_is_finite() {
        let question = Question::read("When did Ana buy the lamp?");
        let mut ana = candidate(0.4, 5.0);
        ana.facts = Facts::read("I bought it yesterday", Some("Ana"), None);
        ana.in_session = true;
        let mut ben = candidate(0.3, 0.0);
        ben.facts = Facts::read("Did you?", Some("Ben"), None);
        ben.in_session = true;
        (ben.previous, ben.around) = (Some(0.4), 0.75);
        let rows = features(&question, &corpus(), &[ana, ben]);
        let at = |name: &str| FEATURE_NAMES.iter().position(|n| *n == name).unwrap();
        assert_eq!((rows[0][at("author named")], rows[1][at("author named")]), (1.0, -1.0));
        assert_eq!((rows[0][at("opens its session")], rows[1][at("opens its session")]), (1.0, 0.0));
        assert_eq!(rows[0][at("a time where one is asked for")], 1.0);
        assert_eq!(rows[1][at("words in the turns around")], 0.75);
        assert!((rows[1][at("turn beside: meaning")] - 3.0).abs() < 1e-5);
        assert!(rows.iter().flatten().all(|x| x.is_finite()));
        assert!(features(&question, &Corpus::default(), &[Evidence::default()])[0].iter().all(|x| x.is_finite()));
    }
}
