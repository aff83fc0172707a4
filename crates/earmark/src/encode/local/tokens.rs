//! Texts to windows of token ids.

use tokenizers::Tokenizer;

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
    /// Special tokens before and behind every window.
    before: Vec<u32>,
    behind: Vec<u32>,
    /// Most tokens of a window without the special ones.
    size: usize,
}

impl Windows {
    /// Windows of at most `size` tokens, special ones included; padding and truncation set in the file are ignored.
    pub(super) fn new(mut tokenizer: Tokenizer, size: usize) -> Result<Self> {
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        let (before, behind) = special_tokens(&tokenizer)?;
        match size.checked_sub(before.len() + behind.len()) {
            None | Some(0) => Err(format!("a window of {size} tokens leaves no room for a text")),
            Some(size) => Ok(Windows { tokenizer, before, behind, size }),
        }
    }

    /// The windows of one text, at least one.
    pub(super) fn of(&self, position: usize, text: &str) -> Result<Vec<Window>> {
        let encoding = ids(&self.tokenizer, text, false)?;
        let parts = encoding.chunks(self.size);
        let empty: &[u32] = &[];
        let blank = encoding.is_empty().then_some(empty);
        Ok(parts.chain(blank).map(|part| self.window(position, part)).collect())
    }

    fn window(&self, text: usize, part: &[u32]) -> Window {
        Window { text, ids: [&self.before, part, &self.behind].concat(), weight: part.len().max(1) as f32 }
    }
}

/// What the tokenizer puts around a text.
fn special_tokens(tokenizer: &Tokenizer) -> Result<(Vec<u32>, Vec<u32>)> {
    let (bare, whole) = (ids(tokenizer, "a", false)?, ids(tokenizer, "a", true)?);
    let start = whole.windows(bare.len().max(1)).position(|part| part == bare);
    let start = start.ok_or("the tokenizer changes a text when it adds special tokens")?;
    Ok((whole[..start].to_vec(), whole[start + bare.len()..].to_vec()))
}

fn ids(tokenizer: &Tokenizer, text: &str, specials: bool) -> Result<Vec<u32>> {
    let encoding = tokenizer.encode_fast(text, specials).map_err(|error| error.to_string())?;
    Ok(encoding.get_ids().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENIZER: &str = r#"{"version": "1.0", "truncation": {"direction": "Right", "max_length": 4,
        "strategy": "LongestFirst", "stride": 0}, "padding": {"strategy": {"Fixed": 8}, "direction": "Right",
        "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "-"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "BertProcessing", "cls": ["<", 1], "sep": [">", 2]},
        "model": {"type": "WordLevel", "vocab": {"-": 0, "<": 1, ">": 2, "a": 3, "b": 4}, "unk_token": "-"}}"#;

    #[test]
    fn long_texts_become_windows() {
        let windows = Windows::new(TOKENIZER.parse().unwrap(), 5).unwrap();
        let cut = |text| {
            let windows = windows.of(7, text).unwrap();
            windows.into_iter().map(|window| (window.text, window.ids, window.weight)).collect::<Vec<_>>()
        };
        assert_eq!(cut("a b"), [(7, vec![1, 3, 4, 2], 2.0)]);
        assert_eq!(cut("a b a b b"), [(7, vec![1, 3, 4, 3, 2], 3.0), (7, vec![1, 4, 4, 2], 2.0)]);
        assert_eq!(cut(" "), [(7, vec![1, 2], 1.0)]);
    }

    #[test]
    fn a_window_has_to_hold_a_token() {
        assert!(Windows::new(TOKENIZER.parse().unwrap(), 2).is_err());
    }
}
