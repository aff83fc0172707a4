//! Words and what they are worth: how a text becomes index words, and BM25 over them. Pure.

mod bm25;
mod text;

pub use bm25::{Collection, Moments, WordScore, bm25, coverage, idf, rarity, score_text};
pub use text::{MAX_WORD_CHARS, query_words, words};
