//! The laboratory's experiments from the set to the figures, on a tiny made-up set with made-up vectors.

mod llm;
mod locomo;
mod paper;

use std::cell::Cell;
use std::rc::Rc;

use anyhow::Result;
use earmark::Params;
use earmark::encode::Side;
use earmark_lab::data::{Bank, Dataset, LabMemory, Question, Stores};
use earmark_lab::experiments::paper::{Options, Setting, Source};
use earmark_lab::split::SplitKind;

pub(crate) const THINGS: [&str; 10] = ["boat", "kite", "oboe", "tent", "sled", "drum", "vase", "lamp", "harp", "wok"];
const TYPES: [&str; 4] = ["single-hop", "multi-hop", "temporal", "open-domain"];

fn memory(author: &str, text: String, kind: &str) -> LabMemory {
    LabMemory {
        id: text.clone(),
        text: text.into(),
        caption: None,
        author: Some(author.into()),
        session: None,
        date: Some("8 May, 2023".into()),
        occurred_at: None,
        kind: Some(kind.into()),
    }
}

/// Two people who bought ten things each; a question for each thing, whose gold is what was said or noted of it.
pub(crate) fn made_up(stores: Stores) -> Dataset {
    let mut dataset = Dataset { name: String::new(), banks: Vec::new(), questions: Vec::new() };
    for (bank, name) in ["Ada", "Ben"].into_iter().enumerate() {
        let said = THINGS.iter().map(|thing| memory(name, format!("I bought a {thing}."), "episodic"));
        let noted = THINGS.iter().map(|thing| memory(name, format!("{name} owns a {thing}."), "semantic"));
        let mut memories = Vec::new();
        memories.extend(said.filter(|_| stores != Stores::Observations));
        memories.extend(noted.filter(|_| stores != Stores::Dialogues));
        for (index, thing) in THINGS.iter().enumerate() {
            dataset.questions.push(Question {
                id: format!("{name}/{thing}"),
                bank,
                text: format!("When did {name} buy the {thing}?"),
                gold: (0..memories.len()).filter(|row| row % THINGS.len() == index).collect(),
                category: Some(TYPES[index % 4].into()),
                answer: Some(format!("the {thing}")),
                date: None,
                conversation: name.into(),
            });
        }
        dataset.banks.push(Bank { name: name.into(), memories });
    }
    dataset
}

/// Letters of the text, each a dimension: alike texts have alike vectors.
pub(crate) fn letters(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; 26];
    for byte in text.bytes().map(|byte| byte.to_ascii_lowercase()).filter(u8::is_ascii_lowercase) {
        vector[usize::from(byte - b'a')] += 1.0;
    }
    vector
}

pub(crate) fn options(seeds: u64) -> Options {
    Options {
        sets: vec!["locomo".into()],
        encoders: vec!["models/letters".into()],
        params: Params { candidates: 8, ..Params::paper() },
        seeds,
        split: SplitKind::Random,
        memory_text: None,
        quick: false,
    }
}

/// What `load` gives, with [`letters`] as vectors; `encoded` counts the texts.
pub(crate) fn source<'a>(load: impl Fn(&Setting) -> Result<Dataset> + 'a, encoded: Rc<Cell<usize>>) -> Source<'a> {
    let encode = move |_: &Setting, texts: &[&str], _: Side| {
        encoded.set(encoded.get() + texts.len());
        Ok(texts.iter().map(|text| letters(text)).collect())
    };
    Source { load: Box::new(load), encode: Box::new(encode.clone()), encode_live: Box::new(encode), reranker: None }
}
