//! Texts to windows of token ids.

use tokenizers::Tokenizer;

use crate::files::{Result, TokenizerConfig, told};

/// A tokenizer that cuts texts into windows instead of dropping their ends.
pub(crate) struct Tokens {
    tokenizer: Tokenizer,
    before: Vec<u32>,
    behind: Vec<u32>,
    room: usize,
}

impl Tokens {
    /// Windows of at most `size` tokens, special ones included.
    pub(crate) fn new(tokenizer: Tokenizer, config: &TokenizerConfig, size: usize) -> Result<Self> {
        let (before, mut behind) = special_tokens(&tokenizer)?;
        if config.add_eos_token {
            let end = config.end_token().and_then(|token| tokenizer.token_to_id(token));
            let end = end.ok_or("tokenizer_config.json asks for an end token that tokenizer.json does not have")?;
            if behind.last() != Some(&end) {
                behind.push(end);
            }
        }
        match size.checked_sub(before.len() + behind.len()) {
            None | Some(0) => Err(format!("a window of {size} tokens leaves no room for a text")),
            Some(room) => Ok(Tokens { tokenizer, before, behind, room }),
        }
    }

    /// The windows of one text, at least one, each with its number of tokens without the special ones.
    /// A text of no tokens is a window of the special ones, or of the token 0 where there are none.
    pub(crate) fn windows(&self, text: &str) -> Result<Vec<(Vec<u32>, usize)>> {
        let ids = ids(&self.tokenizer, text, false)?;
        let window = |part: &[u32]| ([&self.before, part, &self.behind].concat(), part.len());
        if !ids.is_empty() {
            return Ok(ids.chunks(self.room).map(window).collect());
        }
        let blank: &[u32] = if self.before.is_empty() && self.behind.is_empty() { &[0] } else { &[] };
        Ok(vec![window(blank)])
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
    let encoding = tokenizer.encode_fast(text, specials).map_err(told)?;
    Ok(encoding.get_ids().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENIZER: &str = r#"{"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, POST
        "model": {"type": "WordLevel", "vocab": {"-": 0, "<": 1, ">": 2, "a": 3, "b": 4}, "unk_token": "-"}}"#;
    const AROUND: &str = r#""post_processor": {"type": "BertProcessing", "cls": ["<", 1], "sep": [">", 2]},"#;

    fn windows(post: &str, config: &str, size: usize, text: &str) -> Result<Vec<(Vec<u32>, usize)>> {
        let config = serde_json::from_str(config).unwrap();
        Tokens::new(TOKENIZER.replace("POST", post).parse().unwrap(), &config, size)?.windows(text)
    }

    #[test]
    fn an_end_token_comes_once_behind_every_window() {
        let plain = r#"{"add_eos_token": true, "eos_token": ">"}"#;
        let detailed = r#"{"add_eos_token": true, "eos_token": {"content": ">", "lstrip": false}}"#;
        for (post, config, size, text, expected) in [
            ("", "{}", 2, "a b a", vec![(vec![3, 4], 2), (vec![3], 1)]),
            ("", plain, 3, "a b a", vec![(vec![3, 4, 2], 2), (vec![3, 2], 1)]),
            ("", detailed, 9, "a b", vec![(vec![3, 4, 2], 2)]),
            (AROUND, plain, 9, "a b", vec![(vec![1, 3, 4, 2], 2)]),
            (AROUND, "{}", 3, "a b", vec![(vec![1, 3, 2], 1), (vec![1, 4, 2], 1)]),
            ("", plain, 3, " ", vec![(vec![2], 0)]),
            ("", "{}", 3, "", vec![(vec![0], 1)]),
        ] {
            assert_eq!(windows(post, config, size, text), Ok(expected), "{post} {config} {text}");
        }
    }

    #[test]
    fn windows_without_room_and_unknown_end_tokens_are_refused() {
        assert!(windows(AROUND, "{}", 2, "a").is_err());
        assert!(windows("", r#"{"add_eos_token": true, "eos_token": "?"}"#, 9, "a").is_err());
        assert!(windows("", r#"{"add_eos_token": true}"#, 9, "a").is_err());
    }
}
