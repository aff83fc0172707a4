//! The BM25 formula, and what else word statistics say about a text.

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Numbers of the whole collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collection {
    /// Number of texts.
    pub texts: u64,
    /// Words in all of them.
    pub words: u64,
}

impl Collection {
    fn mean_length(self) -> f32 {
        (self.words as f32 / self.texts.max(1) as f32).max(1.0)
    }
}

/// Inverse document frequency of a word that `texts_with_word` texts have: `ln(1 + (N - n + 0.5) / (n + 0.5))`.
pub fn idf(collection: Collection, texts_with_word: u64) -> f32 {
    let n = texts_with_word as f32;
    let others = collection.texts.saturating_sub(texts_with_word) as f32;
    (1.0 + (others + 0.5) / (n + 0.5)).ln()
}

/// Score that one word gives to one text: `idf * f (k1 + 1) / (f + k1 (1 - b + b * length / mean length))`
/// with k1 = 1.2 and b = 0.75; `frequency` is f. The score of a text is the sum over the query's words.
pub fn bm25(idf: f32, frequency: u32, length: u32, collection: Collection) -> f32 {
    let f = frequency as f32;
    let length = length as f32 / collection.mean_length();
    idf * f * (K1 + 1.0) / (f + K1 * (1.0 - B + B * length))
}

/// How rare a word is: its idf as a share of the idf of a word that no text has, in (0, 1].
pub fn rarity(collection: Collection, texts_with_word: u64) -> f32 {
    idf(collection, texts_with_word) / idf(collection, 0).max(f32::MIN_POSITIVE)
}

/// What the words that a question and a text share are worth.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WordScore {
    /// BM25.
    pub bm25: f32,
    /// BM25 with each word's part times its [`rarity`]: rare words alone count.
    pub rare: f32,
    /// Which of the question's words the text has: bit `i` stands for the `i`-th word, up to 32.
    pub shared: u32,
}

impl WordScore {
    /// The bit of the `place`-th word of the question.
    pub(crate) fn bit(place: usize) -> u32 {
        u32::try_from(place).ok().and_then(|place| 1u32.checked_shl(place)).unwrap_or(0)
    }

    /// Adds what the word with this [`bit`](WordScore::bit) is worth for this text.
    #[inline]
    pub(crate) fn add(&mut self, bit: u32, bm25: f32, rarity: f32) {
        self.bm25 += bm25;
        self.rare += bm25 * rarity;
        self.shared |= bit;
    }
}

/// How much of a question its words in `shared` make up: the sum of their weights, in [0, 1] if all weights sum to 1.
/// `shared` may join the bits of several texts.
pub fn coverage(weights: &[f32], shared: u32) -> f32 {
    weights.iter().take(32).enumerate().filter(|(place, _)| shared >> place & 1 == 1).map(|(_, weight)| weight).sum()
}

/// Scores one text: `terms` are the question's words as (texts that have the word, frequency in this text);
/// frequency 0 where the text lacks it. `length` is the text's number of words. Summed in the order of `terms`.
pub fn score_text(terms: impl IntoIterator<Item = (u64, u32)>, length: u32, collection: Collection) -> WordScore {
    let mut score = WordScore::default();
    for (place, (texts, frequency)) in terms.into_iter().enumerate().filter(|(_, (_, frequency))| *frequency > 0) {
        let bm25 = bm25(idf(collection, texts), frequency, length, collection);
        score.add(WordScore::bit(place), bm25, rarity(collection, texts));
    }
    score
}

/// Mean and standard deviation of a score over all texts of a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// Mean.
    pub mean: f32,
    /// Standard deviation.
    pub deviation: f32,
}

impl Moments {
    /// Of `count` values with this sum and sum of squares (values not listed are 0).
    pub fn of_sums(sum: f64, squares: f64, count: u64) -> Moments {
        let n = count.max(1) as f64;
        let mean = sum / n;
        let variance = (squares / n - mean * mean).max(0.0);
        Moments { mean: mean as f32, deviation: variance.sqrt() as f32 }
    }

    /// `(x - mean) / deviation`; 0 where all values are equal.
    pub fn standard(&self, x: f32) -> f32 {
        if self.deviation > 1e-6 { (x - self.mean) / self.deviation } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bm25_by_hand() {
        let collection = Collection { texts: 4, words: 40 };
        // ln(1 + 3.5 / 1.5) = ln(10 / 3)
        assert!((idf(collection, 1) - 1.203_973).abs() < 1e-5);
        // mean length, f = 1: (k1 + 1) / (1 + k1) = 1
        assert!((bm25(2.0, 1, 10, collection) - 2.0).abs() < 1e-6);
        // twice the mean length, f = 2: 2 * 2.2 / (2 + 1.2 * 1.75) = 4.4 / 4.1
        assert!((bm25(1.0, 2, 20, collection) - 4.4 / 4.1).abs() < 1e-6);
    }

    #[test]
    fn score_of_a_text_by_hand() {
        let collection = Collection { texts: 4, words: 40 };
        // Of two words (in 1 and in no text) the text has the first once, at mean length: bm25 = idf = ln(10 / 3).
        let score = score_text([(1, 1), (0, 0)], 10, collection);
        let (shared, missing) = ((10.0f32 / 3.0).ln(), 10.0f32.ln());
        assert!((score.bm25 - shared).abs() < 1e-5);
        assert!((score.rare - shared * shared / missing).abs() < 1e-5);
        assert_eq!(score_text([], 10, collection), WordScore::default());
    }

    #[test]
    fn coverage_by_hand() {
        let collection = Collection { texts: 4, words: 40 };
        let has = |first: u32, last: u32| score_text([(1, first), (2, 0), (1, last)], 10, collection).shared;
        let weights = [0.5, 0.25, 0.125];
        assert_eq!((has(1, 0), has(0, 2)), (0b001, 0b100));
        assert_eq!(coverage(&weights, has(1, 0)), 0.5);
        assert_eq!(coverage(&weights, has(1, 0) | has(0, 2)), 0.625);
        // Words from the 33rd on have no bit.
        assert_eq!(score_text((0..40).map(|i| (1, u32::from(i == 35))), 10, collection).shared, 0);
    }

    #[test]
    fn moments_by_hand() {
        // 3, 1 and two zeros: mean 1, variance 10 / 4 - 1 = 1.5.
        let moments = Moments::of_sums(4.0, 10.0, 4);
        assert!((moments.mean - 1.0).abs() < 1e-6 && (moments.deviation - 1.5f32.sqrt()).abs() < 1e-6);
        assert_eq!(Moments::of_sums(0.0, 0.0, 4).standard(5.0), 0.0);
    }
}
