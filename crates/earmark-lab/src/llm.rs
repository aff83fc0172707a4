//! A language model whose answers are kept: what was asked once is not asked again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use earmark::Error;
use earmark::chat::{Prompt, Reply};
use serde::{Deserialize, Serialize};

use crate::rows;

/// Puts a prompt to a model.
pub type Ask<'a> = dyn Fn(&Prompt) -> earmark::Result<Reply> + 'a;

/// A model with the file of its answers, which grows with every new prompt.
pub struct Llm<'a> {
    model: String,
    settings: String,
    path: PathBuf,
    known: RefCell<HashMap<String, Reply>>,
    ask: Box<Ask<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    prompt: String,
    #[serde(flatten)]
    reply: Reply,
}

impl<'a> Llm<'a> {
    /// A model with its answers in the folder `cache`. An answer is known by the model's name, the `settings` of the
    /// calls and the prompt, so another model under the same name needs another cache.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(cache: &Path, model: &str, settings: &str, ask: Box<Ask<'a>>) -> Result<Self> {
        std::fs::create_dir_all(cache).with_context(|| format!("{} cannot be created", cache.display()))?;
        let path = cache.join(format!("answers-{}.jsonl", file_name(model)));
        rows::mend(&path)?;
        let lines: Vec<Line> = rows::read(&path)?;
        let known = RefCell::new(lines.into_iter().map(|line| (line.prompt, line.reply)).collect());
        Ok(Llm { model: model.to_owned(), settings: settings.to_owned(), path, known, ask })
    }

    /// The model's name as a part of file names.
    pub fn file_name(&self) -> String {
        file_name(&self.model)
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The answer to a prompt, from the file where it is there.
    ///
    /// # Errors
    /// Those of the endpoint; [`Error::Io`] if the answer cannot be kept.
    pub fn ask(&self, prompt: &Prompt) -> earmark::Result<Reply> {
        let key = self.key(prompt);
        if let Some(reply) = self.known.borrow().get(&key) {
            return Ok(reply.clone());
        }
        let reply = (self.ask)(prompt)?;
        let line = Line { prompt: key.clone(), reply: reply.clone() };
        let full = |error: anyhow::Error| Error::Io { path: self.path.clone(), reason: format!("{error:#}") };
        rows::append(&self.path, &[line]).map_err(full)?;
        self.known.borrow_mut().insert(key, reply.clone());
        Ok(reply)
    }

    /// Names a prompt in the file.
    fn key(&self, prompt: &Prompt) -> String {
        let Prompt { system, user, most_tokens, alternatives } = prompt;
        let numbers = format!("{most_tokens:?} {alternatives}");
        let mut hash = blake3::Hasher::new();
        for part in [&self.model, &self.settings, &numbers, system, user] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().to_hex()[..32].to_owned()
    }
}

/// The last part of a model's name, with nothing that a file name cannot hold.
fn file_name(model: &str) -> String {
    let last = model.trim_end_matches('/').rsplit('/').next().unwrap_or(model);
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    last.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(user: &str) -> Prompt {
        Prompt { user: user.into(), ..Prompt::default() }
    }

    #[test]
    fn a_prompt_is_asked_once() {
        let folder = tempfile::tempdir().unwrap();
        let asked = RefCell::new(Vec::new());
        let open = |settings: &str| {
            let ask = |prompt: &Prompt| {
                asked.borrow_mut().push(prompt.user.clone());
                Ok(Reply { text: prompt.user.to_uppercase(), prompt_tokens: 3, ..Reply::default() })
            };
            Llm::open(folder.path(), "lab/small:1", settings, Box::new(ask)).unwrap()
        };
        let first = open("").ask(&prompt("a")).unwrap();
        assert_eq!((first.text.as_str(), first.prompt_tokens), ("A", 3));
        assert_eq!(open("").ask(&prompt("a")).unwrap(), first);
        open("").ask(&Prompt { most_tokens: Some(1), ..prompt("a") }).unwrap();
        open("seed 7").ask(&prompt("a")).unwrap();
        assert_eq!(asked.borrow().len(), 3, "other limits and other settings are other prompts");

        let path = folder.path().join("answers-small-1.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        for _ in 0..2 {
            open("seed 7").ask(&prompt("a")).unwrap();
        }
        assert_eq!(asked.borrow().len(), 4, "an answer that a crash cut off is asked for again, once");
    }

    #[test]
    fn a_failure_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let failing = |_: &Prompt| Err(Error::Remote { url: "http://h".into(), reason: "busy".into() });
        let llm = Llm::open(folder.path(), "m", "", Box::new(failing)).unwrap();
        assert!(llm.ask(&prompt("a")).unwrap_err().to_string().contains("busy"));
        assert!(!folder.path().join("answers-m.jsonl").exists());
    }
}
