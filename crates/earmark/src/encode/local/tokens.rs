//! Texts to windows of token ids.

use tokenizers::{Tokenizer, TruncationDirection, TruncationParams, TruncationStrategy};

use super::checkpoint::Result;

/// A piece of a text that fits the model.
pub(super) struct Window {
    /// Position of the text in the call.
    pub(super) text: usize,
    /// Token ids, special ones included.
    pub(super) ids: Vec<u32>,
    /// Tokens without the special ones, at least 1: the weight of this window in the vector of its text.
    pub(super) weight: f32,
}

/// A tokenizer that cuts texts into windows instead of dropping their ends.
pub(super) struct Windows {
    tokenizer: Tokenizer,
    specials: usize,
}

impl Windows {
    /// Windows of at most `size` tokens; padding and truncation set in the file are replaced.
    pub(super) fn new(mut tokenizer: Tokenizer, size: usize) -> Result<Self> {
        let specials = tokenizer.get_post_processor().map_or(0, |processor| {
            tokenizers::PostProcessor::added_tokens(processor, false)
        });
        if size <= specials {
            return Err(format!("a window of {size} tokens leaves no room for a text"));
        }
        tokenizer.with_padding(None);
        let truncation = TruncationParams {
            max_length: size,
            stride: 0,
            strategy: TruncationStrategy::LongestFirst,
            direction: TruncationDirection::Right,
        };
        tokenizer.with_truncation(Some(truncation)).map_err(|error| error.to_string())?;
        Ok(Windows { tokenizer, specials })
    }

    /// The windows of one text, at least one.
    pub(super) fn of(&self, position: usize, text: &str) -> Result<Vec<Window>> {
        let encoding = self.tokenizer.encode_fast(text, true).map_err(|error| error.to_string())?;
        let ids = std::iter::once(&encoding).chain(encoding.get_overflowing()).map(|part| part.get_ids());
        Ok(ids.map(|ids| self.window(position, ids)).collect())
    }

    fn window(&self, text: usize, ids: &[u32]) -> Window {
        let weight = ids.len().saturating_sub(self.specials).max(1) as f32;
        Window { text, ids: ids.to_vec(), weight }
    }
}
