//! Texts to windows of token ids.

use std::path::Path;

use tokenizers::Tokenizer;

use super::checkpoint::Result;

/// A piece of a text that fits the model.
pub struct Window {
    /// Position of the text in the call.
    pub text: usize,
    /// Token ids, special ones included.
    pub ids: Vec<u32>,
    /// Tokens without the special ones, at least 1: the weight of this window in the vector of its text.
    pub weight: f32,
}

/// A tokenizer that cuts texts into windows instead of dropping their ends.
pub struct Windows {
    tokenizer: Tokenizer,
    /// Special tokens before and behind every window.
    before: Vec<u32>,
    behind: Vec<u32>,
    /// Most tokens of a window without the special ones.
    size: usize,
}

impl Windows {
    /// Windows of at most `size` tokens, special ones included. The token `end` stands behind every window, once
    /// where the tokenizer puts it there itself.
    ///
    /// # Errors
    /// When nothing of a text fits, or the tokenizer cannot be used so.
    pub fn new(tokenizer: Tokenizer, end: Option<u32>, size: usize) -> Result<Self> {
        let (before, mut behind) = special_tokens(&tokenizer)?;
        behind.extend(end.filter(|end| behind.last() != Some(end)));
        match size.checked_sub(before.len() + behind.len()) {
            None | Some(0) => Err(format!("a window of {size} tokens leaves no room for a text")),
            Some(size) => Ok(Windows { tokenizer, before, behind, size }),
        }
    }

    /// The windows of one text, at least one; that of a text of no tokens has only the special ones, if there are any.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn of(&self, position: usize, text: &str) -> Result<Vec<Window>> {
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

/// Cuts windows, longest first, into runs of at most `tokens` tokens; a longer window goes alone.
pub fn batches(windows: &[Window], tokens: usize) -> Vec<&[Window]> {
    let mut batches = Vec::new();
    let mut rest = windows;
    while !rest.is_empty() {
        let mut sum = 0;
        let fits = rest.iter().take_while(|window| {
            sum += window.ids.len();
            sum <= tokens
        });
        let (batch, after) = rest.split_at(fits.count().max(1));
        batches.push(batch);
        rest = after;
    }
    batches
}

/// `tokenizer.json` of a folder, without the padding and truncation that it may ask for.
///
/// # Errors
/// When the file is missing or broken.
pub fn read_tokenizer(folder: &Path) -> Result<Tokenizer> {
    let path = folder.join("tokenizer.json");
    if !path.is_file() {
        return Err(format!("{} is missing; save the tokenizer in its fast form", path.display()));
    }
    let mut tokenizer = Tokenizer::from_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
    Ok(tokenizer)
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
        "pre_tokenizer": {"type": "Whitespace"}, AROUND
        "model": {"type": "WordLevel", "vocab": {"-": 0, "<": 1, ">": 2, "a": 3, "b": 4}, "unk_token": "-"}}"#;
    const AROUND: &str = r#""post_processor": {"type": "BertProcessing", "cls": ["<", 1], "sep": [">", 2]},"#;

    fn windows(around: &str, end: Option<u32>, size: usize) -> Result<Windows> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tokenizer.json"), TOKENIZER.replace("AROUND", around)).unwrap();
        Windows::new(read_tokenizer(folder.path())?, end, size)
    }

    #[test]
    fn long_texts_become_windows() {
        for (around, end, size, text, expected) in [
            (AROUND, None, 5, "a b", &[(&[1, 3, 4, 2][..], 2.0)][..]),
            (AROUND, None, 5, "a b a b b", &[(&[1, 3, 4, 3, 2], 3.0), (&[1, 4, 4, 2], 2.0)]),
            (AROUND, None, 5, " ", &[(&[1, 2], 1.0)]),
            (AROUND, Some(2), 9, "a b", &[(&[1, 3, 4, 2], 2.0)]),
            ("", None, 2, "a b a", &[(&[3, 4], 2.0), (&[3], 1.0)]),
            ("", Some(2), 3, "a b a", &[(&[3, 4, 2], 2.0), (&[3, 2], 1.0)]),
            ("", Some(2), 3, " ", &[(&[2], 1.0)]),
            ("", None, 3, "", &[(&[], 1.0)]),
        ] {
            let made = windows(around, end, size).unwrap().of(7, text).unwrap();
            assert!(made.iter().all(|window| window.text == 7));
            let made: Vec<(&[u32], f32)> = made.iter().map(|window| (&window.ids[..], window.weight)).collect();
            assert_eq!(made, expected, "{around} {end:?} {size} {text}");
        }
    }

    #[test]
    fn a_window_has_to_hold_a_token() {
        assert!(windows(AROUND, None, 2).is_err() && windows("", Some(2), 1).is_err());
    }

    #[test]
    fn a_batch_holds_so_many_tokens_or_one_window() {
        let window = |tokens: &usize| Window { text: 0, ids: vec![0; *tokens], weight: 1.0 };
        let windows: Vec<Window> = [9, 4, 3, 1, 1].iter().map(window).collect();
        let sizes: Vec<usize> = batches(&windows, 8).iter().map(|batch| batch.len()).collect();
        assert_eq!(sizes, [1, 3, 1]);
    }
}
