//! LongMemEval_S: the compact form (each session once), or the official `longmemeval_s_cleaned.json`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::{Bank, Dataset, LabMemory, Question, read, when};

const OFFICIAL: &str = "longmemeval_s_cleaned.json";

#[derive(Deserialize)]
struct Session {
    id: String,
    turns: Vec<(String, Arc<str>)>,
}

/// What both layouts say of a question.
#[derive(Deserialize)]
struct Asked {
    question_id: String,
    question_type: String,
    question: String,
    #[serde(default)]
    answer: Value,
    question_date: String,
}

#[derive(Deserialize)]
struct CompactQuestion {
    #[serde(flatten)]
    asked: Asked,
    haystack: Vec<(String, String)>,
    gold: Vec<(usize, usize)>,
}

#[derive(Deserialize)]
struct OfficialQuestion {
    #[serde(flatten)]
    asked: Asked,
    haystack_session_ids: Vec<String>,
    haystack_dates: Vec<String>,
    haystack_sessions: Vec<Vec<OfficialTurn>>,
}

#[derive(Deserialize)]
struct OfficialTurn {
    role: String,
    content: Arc<str>,
    #[serde(default)]
    has_answer: bool,
}

/// Reads the official file where it is there, else the compact pair.
pub(super) fn load(folder: &Path) -> Result<Dataset> {
    let mut dataset = Dataset { name: "longmemeval".into(), banks: Vec::new(), questions: Vec::new() };
    if read::exists(folder, OFFICIAL) {
        add_official(&mut dataset, read::json(folder, OFFICIAL)?)?;
    } else {
        let sessions = read::json_lines(folder, "sessions.jsonl")?;
        add_compact(&mut dataset, sessions, read::json_lines(folder, "questions_499.jsonl")?)?;
    }
    Ok(dataset)
}

fn add_compact(dataset: &mut Dataset, sessions: Vec<Session>, questions: Vec<CompactQuestion>) -> Result<()> {
    let sessions: HashMap<String, Session> =
        sessions.into_iter().map(|session| (session.id.clone(), session)).collect();
    for question in questions {
        let mut bank = BankBuilder::default();
        for (index, (id, date)) in question.haystack.iter().enumerate() {
            let session = sessions.get(id).with_context(|| {
                format!("question {} names session {id}, which is missing", question.asked.question_id)
            })?;
            for (turn, (role, content)) in session.turns.iter().enumerate() {
                let gold = question.gold.contains(&(index, turn));
                bank.add((index, turn), id, date, role, content, gold);
            }
        }
        bank.finish(dataset, question.asked);
    }
    Ok(())
}

fn add_official(dataset: &mut Dataset, questions: Vec<OfficialQuestion>) -> Result<()> {
    let mut distinct: HashMap<Arc<str>, Arc<str>> = HashMap::new();
    for question in questions {
        let sessions = question.haystack_sessions.len();
        ensure!(
            question.haystack_session_ids.len() == sessions && question.haystack_dates.len() == sessions,
            "question {} has {sessions} sessions but {} ids and {} dates",
            question.asked.question_id,
            question.haystack_session_ids.len(),
            question.haystack_dates.len()
        );
        let mut bank = BankBuilder::default();
        for (index, session) in question.haystack_sessions.iter().enumerate() {
            let (id, date) = (&question.haystack_session_ids[index], &question.haystack_dates[index]);
            for (turn, said) in session.iter().enumerate() {
                let content = distinct.entry(said.content.clone()).or_insert_with(|| said.content.clone()).clone();
                bank.add((index, turn), id, date, &said.role, &content, said.has_answer);
            }
        }
        bank.finish(dataset, question.asked);
    }
    Ok(())
}

/// Collects one question's own bank. A haystack may hold a session twice, so a memory is named by its place.
#[derive(Default)]
struct BankBuilder {
    memories: Vec<LabMemory>,
    gold: Vec<usize>,
}

impl BankBuilder {
    /// Blank turns are left out: there is nothing to encode.
    fn add(&mut self, place: (usize, usize), session: &str, date: &str, role: &str, content: &Arc<str>, gold: bool) {
        if content.trim().is_empty() {
            return;
        }
        if gold {
            self.gold.push(self.memories.len());
        }
        self.memories.push(LabMemory {
            id: format!("{}:{}", place.0, place.1),
            text: content.clone(),
            caption: None,
            author: Some(role.to_owned()),
            session: Some(session.to_owned()),
            date: Some(date.to_owned()),
            occurred_at: when::parse(date),
            kind: Some("episodic".into()),
        });
    }

    fn finish(self, dataset: &mut Dataset, asked: Asked) {
        dataset.questions.push(Question {
            bank: dataset.banks.len(),
            text: asked.question,
            gold: self.gold,
            answer: read::answer(&asked.answer),
            category: Some(asked.question_type),
            date: when::parse(&asked.question_date),
            conversation: asked.question_id.clone(),
            id: asked.question_id.clone(),
        });
        dataset.banks.push(Bank { name: asked.question_id, memories: self.memories });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write_compact(folder: &Path) {
        let sessions = [
            json!({"id": "s1", "turns": [["user", "I moved to Oslo."], ["assistant", ""], ["assistant", "Nice."]]}),
            json!({"id": "s2", "turns": [["user", "Tell me a joke."]]}),
        ];
        let questions = [
            json!({"question_id": "q1", "question_type": "single-session-user", "question": "Where do I live?",
            "answer": 7, "question_date": "2023/05/30 (Tue) 23:40", "answer_session_ids": ["s1"],
            "haystack": [["s1", "2023/05/20 (Sat) 02:21"], ["s2", "2023/05/21 (Sun) 02:00"], ["s1", "2023/05/22 (Mon) 10:00"]],
            "gold": [[0, 0], [2, 0]]}),
            json!({"question_id": "q2_abs", "question_type": "abs", "question": "What is my cat called?",
            "question_date": "2023/05/30 (Tue) 23:40", "haystack": [["s2", "2023/05/21 (Sun) 02:00"]], "gold": []}),
        ];
        let lines = |rows: &[serde_json::Value]| rows.iter().map(|row| format!("{row}\n")).collect::<String>();
        std::fs::write(folder.join("sessions.jsonl"), lines(&sessions)).unwrap();
        std::fs::write(folder.join("questions_499.jsonl"), lines(&questions)).unwrap();
    }

    fn write_official(folder: &Path) {
        let s1 = json!([{"role": "user", "content": "I moved to Oslo.", "has_answer": true},
            {"role": "assistant", "content": ""}, {"role": "assistant", "content": "Nice."}]);
        let s2 = json!([{"role": "user", "content": "Tell me a joke."}]);
        let questions = json!([{"question_id": "q1", "question_type": "single-session-user", "question": "Where do I live?",
            "answer": 7, "question_date": "2023/05/30 (Tue) 23:40", "haystack_session_ids": ["s1", "s2", "s1"],
            "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:00", "2023/05/22 (Mon) 10:00"],
            "haystack_sessions": [s1, s2, s1]},
            {"question_id": "q2_abs", "question_type": "abs", "question": "What is my cat called?",
            "question_date": "2023/05/30 (Tue) 23:40", "haystack_session_ids": ["s2"],
            "haystack_dates": ["2023/05/21 (Sun) 02:00"], "haystack_sessions": [s2]}]);
        std::fs::write(folder.join(OFFICIAL), questions.to_string()).unwrap();
    }

    #[test]
    fn both_layouts_give_the_same_set() {
        let (compact, official) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write_compact(compact.path());
        write_official(official.path());
        let dataset = load(compact.path()).unwrap();
        assert_eq!(dataset, load(official.path()).unwrap());

        let ids: Vec<&str> = dataset.banks[0].memories.iter().map(|memory| memory.id.as_str()).collect();
        assert_eq!(ids, ["0:0", "0:2", "1:0", "2:0", "2:2"], "a repeated session keeps both places, blank turns go");
        assert_eq!(dataset.questions[0].gold, [0, 3]);
        assert_eq!(dataset.questions[0].answer.as_deref(), Some("7"), "some answers are numbers");
        assert!(dataset.questions[1].gold.is_empty());
        assert_eq!(dataset.questions[0].date.unwrap().to_string(), "2023-05-30T23:40:00");
    }

    #[test]
    fn a_missing_session_is_named() {
        let folder = tempfile::tempdir().unwrap();
        write_compact(folder.path());
        std::fs::write(folder.path().join("sessions.jsonl"), "{\"id\": \"s2\", \"turns\": []}\n").unwrap();
        let message = load(folder.path()).unwrap_err().to_string();
        assert!(message.contains("q1") && message.contains("s1"), "{message}");
    }
}
