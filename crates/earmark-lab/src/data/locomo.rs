//! LoCoMo, the official `locomo10.json`, with its quirks.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use regex_lite::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Bank, Dataset, LabMemory, Question, read, when};

/// Which memories of a conversation a question may find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// The turns, as in the paper's main tables.
    Dialogues,
    /// The statements drawn from each session.
    Observations,
    /// Turns, then observations.
    Both,
}

/// A turn's place: session and turn number.
type TurnId = (u32, u32);

#[derive(Deserialize)]
struct Sample {
    sample_id: String,
    conversation: Map<String, Value>,
    qa: Vec<Qa>,
    #[serde(default)]
    observation: Map<String, Value>,
}

#[derive(Deserialize)]
struct Qa {
    question: String,
    #[serde(default)]
    answer: Value,
    #[serde(default)]
    evidence: Vec<String>,
    category: u8,
}

#[derive(Deserialize)]
struct Turn {
    speaker: String,
    dia_id: String,
    text: String,
    blip_caption: Option<String>,
}

/// Reads `folder/locomo10.json`.
pub(super) fn load(folder: &Path, stores: Stores) -> Result<Dataset> {
    build(read::json(folder, "locomo10.json")?, stores)
}

fn build(samples: Vec<Sample>, stores: Stores) -> Result<Dataset> {
    let mut dataset = Dataset { name: "locomo".into(), banks: Vec::new(), questions: Vec::new() };
    for sample in samples {
        let turns = turns(&sample).with_context(|| format!("conversation {}", sample.sample_id))?;
        let known: HashSet<TurnId> = turns.iter().flat_map(|entry| entry.turns.iter().copied()).collect();
        let mut entries = Vec::new();
        if stores != Stores::Observations {
            entries.extend(turns.iter().cloned());
        }
        if stores != Stores::Dialogues {
            entries.extend(observations(&sample, &known));
        }
        add_questions(&mut dataset, &sample, &known, &entries);
        let memories = entries.into_iter().map(|entry| entry.memory).collect();
        dataset.banks.push(Bank { name: sample.sample_id, memories });
    }
    Ok(dataset)
}

/// A memory, and the turns that it is or that it was drawn from.
#[derive(Clone)]
struct Entry {
    memory: LabMemory,
    turns: Vec<TurnId>,
}

/// The turns of all sessions in order. Sessions are numbered from 1 without gaps; dates of sessions that do
/// not exist are ignored.
fn turns(sample: &Sample) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for number in 1u32.. {
        let session = format!("session_{number}");
        let Some(turns) = sample.conversation.get(&session) else { break };
        let turns: Vec<Turn> = serde_json::from_value(turns.clone()).with_context(|| session.clone())?;
        let date = session_date(sample, &session);
        entries.extend(turns.into_iter().map(|turn| turn_entry(turn, &session, date.as_deref())));
    }
    Ok(entries)
}

fn session_date(sample: &Sample, session: &str) -> Option<String> {
    sample.conversation.get(&format!("{session}_date_time"))?.as_str().map(str::to_owned)
}

fn turn_entry(turn: Turn, session: &str, date: Option<&str>) -> Entry {
    let turns = turn_ids(&turn.dia_id);
    let memory = LabMemory {
        id: turn.dia_id,
        text: Arc::from(turn.text),
        caption: turn.blip_caption,
        author: Some(turn.speaker),
        session: Some(session.to_owned()),
        date: date.map(str::to_owned),
        occurred_at: date.and_then(when::parse),
        kind: Some("episodic".into()),
    };
    Entry { memory, turns }
}

/// `session_<n>_observation` -> speaker -> [[text, evidence]].
fn observations(sample: &Sample, known: &HashSet<TurnId>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for (key, speakers) in &sample.observation {
        let Some(session) = key.strip_suffix("_observation") else { continue };
        let date = session_date(sample, session);
        let said = speakers.as_object().into_iter().flatten();
        let said =
            said.flat_map(|(speaker, said)| said.as_array().into_iter().flatten().map(move |one| (speaker, one)));
        for mut entry in said.filter_map(|(speaker, statement)| observation(speaker, statement, known)) {
            entry.memory.id = format!("O{}", entries.len() + 1);
            entry.memory.session = Some(session.to_owned());
            entry.memory.occurred_at = date.as_deref().and_then(when::parse);
            entry.memory.date.clone_from(&date);
            entries.push(entry);
        }
    }
    entries
}

/// Without id, session and date, which the caller knows.
fn observation(speaker: &str, statement: &Value, known: &HashSet<TurnId>) -> Option<Entry> {
    let text = statement.get(0)?.as_str()?;
    let evidence = evidence_strings(statement.get(1)?);
    let memory = LabMemory {
        id: String::new(),
        text: Arc::from(text),
        caption: None,
        author: Some(speaker.to_owned()),
        session: None,
        date: None,
        occurred_at: None,
        kind: Some("semantic".into()),
    };
    let turns = evidence.iter().flat_map(|text| turn_ids(text)).filter(|id| known.contains(id)).collect();
    Some(Entry { memory, turns })
}

/// Evidence is an id, ids joined by commas, or a list of such.
fn evidence_strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn add_questions(dataset: &mut Dataset, sample: &Sample, known: &HashSet<TurnId>, entries: &[Entry]) {
    for (index, qa) in sample.qa.iter().enumerate() {
        let Some(category) = category(qa.category) else { continue };
        let gold_turns: Vec<TurnId> =
            qa.evidence.iter().flat_map(|text| turn_ids(text)).filter(|id| known.contains(id)).collect();
        dataset.questions.push(Question {
            id: format!("{}/{index}", sample.sample_id),
            bank: dataset.banks.len(),
            text: qa.question.clone(),
            gold: meeting(entries, &gold_turns),
            answer: read::answer(&qa.answer),
            category: Some(category.into()),
            date: None,
            conversation: sample.sample_id.clone(),
        });
    }
}

/// Indices of the entries that are, or were drawn from, one of the turns.
fn meeting(entries: &[Entry], turns: &[TurnId]) -> Vec<usize> {
    let meets = |entry: &Entry| entry.turns.iter().any(|turn| turns.contains(turn));
    entries.iter().enumerate().filter(|(_, entry)| meets(entry)).map(|(index, _)| index).collect()
}

/// `None` for the adversarial questions, which have no answer to find and are left out, as in the paper.
fn category(number: u8) -> Option<&'static str> {
    match number {
        1 => Some("multi-hop"),
        2 => Some("temporal"),
        3 => Some("open-domain"),
        4 => Some("single-hop"),
        _ => None,
    }
}

/// Every turn id in a piece of evidence: "D8:6; D9:17" is two, "D:11:26" is one, "D30:05" is D30:5, "D" is none.
fn turn_ids(evidence: &str) -> Vec<TurnId> {
    static PATTERN: std::sync::LazyLock<Option<Regex>> =
        std::sync::LazyLock::new(|| Regex::new(r"D:?(\d+):(\d+)").ok());
    let Some(pattern) = PATTERN.as_ref() else { return Vec::new() };
    let ids = pattern.captures_iter(evidence).map(|found| found.extract::<2>().1);
    ids.filter_map(|[session, turn]| Some((session.parse().ok()?, turn.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Vec<Sample> {
        let value = json!([{
            "sample_id": "conv-1",
            "conversation": {
                "speaker_a": "Ada", "speaker_b": "Ben",
                "session_10": [{"speaker": "Ben", "dia_id": "D10:1", "text": "unreachable: session 3 is missing"}],
                "session_2": [
                    {"speaker": "Ben", "dia_id": "D2:1", "text": "I sold the boat."},
                    {"speaker": "Ada", "dia_id": "D2:2", "text": "Look!", "blip_caption": "a photo of a kite"}],
                "session_2_date_time": "9:05 am on 2 June, 2023",
                "session_1": [
                    {"speaker": "Ada", "dia_id": "D1:1", "text": "Hello."},
                    {"speaker": "Ben", "dia_id": "D1:2", "text": "I bought a boat."}],
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_7_date_time": "1:56 pm on 8 May, 2024"},
            "observation": {"session_1_observation": {"Ben": [
                ["Ben bought a boat.", "D1:2"], ["Ben trades boats.", ["D1:2", "D2:1"]], ["Both talk.", "D1:1, D2:2"]]}},
            "qa": [
                {"question": "two in one string", "answer": 2022, "evidence": ["D1:2; D2:1"], "category": 1},
                {"question": "extra colon, padded, twice", "answer": "a kite", "evidence": ["D:2:2", "D2:02", "D2:2"], "category": 2},
                {"question": "bare letter and nothing there", "evidence": ["D", "D9:9"], "category": 3},
                {"question": "empty", "evidence": [], "category": 3},
                {"question": "single", "evidence": ["D1:1"], "category": 4},
                {"question": "adversarial", "adversarial_answer": "x", "evidence": ["D1:1"], "category": 5}]
        }]);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn turns_come_in_session_order_with_author_date_and_caption() {
        let dataset = build(sample(), Stores::Dialogues).unwrap();
        let memories = &dataset.banks[0].memories;
        let ids: Vec<&str> = memories.iter().map(|memory| memory.id.as_str()).collect();
        assert_eq!(ids, ["D1:1", "D1:2", "D2:1", "D2:2"]);
        assert_eq!(memories[3].caption.as_deref(), Some("a photo of a kite"));
        assert_eq!(memories[3].author.as_deref(), Some("Ada"));
        assert_eq!(memories[3].occurred_at.unwrap().to_string(), "2023-06-02T09:05:00");
    }

    #[test]
    fn evidence_quirks() {
        let mut dataset = build(sample(), Stores::Dialogues).unwrap();
        let gold: Vec<&[usize]> = dataset.questions.iter().map(|question| question.gold.as_slice()).collect();
        assert_eq!(gold, [&[1, 2][..], &[3], &[], &[], &[0]]);
        let answers: Vec<_> = dataset.questions.iter().map(|question| question.answer.as_deref()).collect();
        assert_eq!(answers, [Some("2022"), Some("a kite"), None, None, None]);
        let categories: Vec<_> = dataset.questions.iter().filter_map(|question| question.category.as_deref()).collect();
        assert_eq!(categories, ["multi-hop", "temporal", "open-domain", "open-domain", "single-hop"]);
        assert_eq!(dataset.drop_without_gold(), 2);
        assert_eq!(dataset.questions.len(), 3);
    }

    #[test]
    fn observations_are_gold_where_their_evidence_meets_the_questions() {
        let dataset = build(sample(), Stores::Both).unwrap();
        assert_eq!(dataset.memory_count(), 7);
        assert_eq!(dataset.questions[0].gold, [1, 2, 4, 5]);
        assert_eq!(dataset.questions[1].gold, [3, 6]);
        let alone = build(sample(), Stores::Observations).unwrap();
        assert_eq!(alone.questions[0].gold, [0, 1]);
        assert_eq!(alone.banks[0].memories[0].kind.as_deref(), Some("semantic"));
    }
}
