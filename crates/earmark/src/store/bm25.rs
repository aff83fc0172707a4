//! The BM25 formula.

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Numbers of the whole collection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collection {
    /// Number of texts.
    pub(crate) texts: u64,
    /// Words in all of them.
    pub(crate) words: u64,
}

impl Collection {
    fn mean_length(self) -> f32 {
        (self.words as f32 / self.texts.max(1) as f32).max(1.0)
    }
}

/// Inverse document frequency of a word that `texts_with_word` texts have: `ln(1 + (N - n + 0.5) / (n + 0.5))`.
pub(crate) fn idf(collection: Collection, texts_with_word: u64) -> f32 {
    let n = texts_with_word as f32;
    let others = collection.texts.saturating_sub(texts_with_word) as f32;
    (1.0 + (others + 0.5) / (n + 0.5)).ln()
}

/// Score that one word gives to one text: `idf * f (k1 + 1) / (f + k1 (1 - b + b * length / mean length))`
/// with k1 = 1.2 and b = 0.75; `frequency` is f. The score of a text is the sum over the query's words.
pub(crate) fn bm25(idf: f32, frequency: u32, length: u32, collection: Collection) -> f32 {
    let f = frequency as f32;
    let length = length as f32 / collection.mean_length();
    idf * f * (K1 + 1.0) / (f + K1 * (1.0 - B + B * length))
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
}
