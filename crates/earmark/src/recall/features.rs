//! What the `default` recipe knows about each candidate of a question, as numbers that mean the same everywhere.

/// Raw facts about one candidate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Cosine of query and memory.
    pub dense: f32,
    /// BM25 of the shared words.
    pub lexical: f32,
    /// Best cosine among the turns right before and after; `None` without such a turn.
    pub neighbour_dense: Option<f32>,
    /// Best BM25 among the turns right before and after; 0 if none.
    pub neighbour_lexical: f32,
    /// Weighted labels of the same memory from similar past questions.
    pub past: f32,
    /// 1 if the question names the author, -1 if it names another author, else 0.
    pub author: f32,
    /// Length of the text in characters.
    pub length: usize,
    /// Whether the text asks something itself.
    pub is_question: bool,
}

/// Number of features `F`.
pub const FEATURES: usize = 10;

/// Names of the features, for explanations.
pub const FEATURE_NAMES: [&str; FEATURES] = [
    "every memory",
    "similar meaning",
    "shared words",
    "closest in meaning",
    "closest in words",
    "neighbour in meaning",
    "neighbour in words",
    "author named",
    "useful before",
    "is a question",
];

/// Weights `[F]` of the static ranking: the prior's mean.
pub const STATIC_WEIGHTS: [f64; FEATURES] = [-3.0, 1.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];

/// Inverse prior variances `[F]`.
pub const STATIC_PRECISION: [f64; FEATURES] = [1.0; FEATURES];

/// Features `[K x F]` of the candidates of one question.
pub fn features(evidence: &[Evidence]) -> Vec<Vec<f32>> {
    let dense: Vec<f32> = evidence.iter().map(|e| e.dense).collect();
    let (mean, deviation) = moments(&dense);
    let best_words = evidence.iter().map(|e| e.lexical).fold(1e-6, f32::max);
    let (by_meaning, by_words) = (ranks(&dense), ranks(&evidence.iter().map(|e| e.lexical).collect::<Vec<_>>()));
    let standard = |x: f32| ((x - mean) / deviation).clamp(-4.0, 4.0);
    let row = |(i, e): (usize, &Evidence)| {
        vec![
            1.0,
            standard(e.dense),
            e.lexical / best_words,
            1.0 / (1.0 + by_meaning[i] as f32),
            if e.lexical > 0.0 { 1.0 / (1.0 + by_words[i] as f32) } else { 0.0 },
            e.neighbour_dense.map_or(0.0, standard),
            (e.neighbour_lexical / best_words).min(1.0),
            e.author,
            e.past.clamp(-3.0, 3.0),
            f32::from(u8::from(e.is_question)),
        ]
    };
    evidence.iter().enumerate().map(row).collect()
}

/// Place of each score, 0 for the highest; ties by the earlier one.
fn ranks(scores: &[f32]) -> Vec<usize> {
    let mut ranks = vec![0; scores.len()];
    for (rank, place) in super::top_k(scores, scores.len()).into_iter().enumerate() {
        ranks[place] = rank;
    }
    ranks
}

fn moments(values: &[f32]) -> (f32, f32) {
    let n = values.len().max(1) as f32;
    let mean = values.iter().sum::<f32>() / n;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / n;
    (mean, variance.sqrt().max(1e-6))
}
