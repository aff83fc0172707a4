//! Sets of the form `memories.jsonl` and `queries.jsonl`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::{Bank, Dataset, LabMemory, Question, read, when};

#[derive(Deserialize)]
struct MemoryLine {
    bank: String,
    id: String,
    text: Arc<str>,
    role: Option<String>,
    kind: Option<String>,
    time: Option<String>,
    session: Option<String>,
}

#[derive(Deserialize)]
struct QueryLine {
    bank: String,
    id: String,
    text: String,
    /// The text with ids masked, so that a query cannot be answered by matching an id.
    text_noid: Option<String>,
    gold: Vec<String>,
    #[serde(default)]
    answer: Value,
    category: Option<String>,
}

/// Reads both files of `folder`; `name` is what the set is called.
pub(super) fn load(folder: &Path, name: &str) -> Result<Dataset> {
    let mut dataset = Dataset { name: name.into(), banks: Vec::new(), questions: Vec::new() };
    let mut places = Places::default();
    for line in read::json_lines::<MemoryLine>(folder, "memories.jsonl")? {
        add_memory(&mut dataset, &mut places, line);
    }
    for line in read::json_lines::<QueryLine>(folder, "queries.jsonl")? {
        let question = question(&places, line).with_context(|| format!("data set {name}"))?;
        dataset.questions.push(question);
    }
    Ok(dataset)
}

/// Where each bank and memory went.
#[derive(Default)]
struct Places {
    banks: HashMap<String, usize>,
    memories: HashMap<(usize, String), usize>,
}

fn add_memory(dataset: &mut Dataset, places: &mut Places, line: MemoryLine) {
    let bank = *places.banks.entry(line.bank.clone()).or_insert_with(|| {
        dataset.banks.push(Bank { name: line.bank, memories: Vec::new() });
        dataset.banks.len() - 1
    });
    let memories = &mut dataset.banks[bank].memories;
    places.memories.insert((bank, line.id.clone()), memories.len());
    memories.push(LabMemory {
        id: line.id,
        text: line.text,
        caption: None,
        author: line.role,
        session: line.session,
        occurred_at: line.time.as_deref().and_then(when::parse),
        date: line.time,
        kind: line.kind,
    });
}

fn question(places: &Places, line: QueryLine) -> Result<Question> {
    let bank = *places
        .banks
        .get(&line.bank)
        .with_context(|| format!("query {} names bank {}, which has no memories", line.id, line.bank))?;
    let find = |id: &String| {
        let place = places.memories.get(&(bank, id.clone())).copied();
        place.with_context(|| format!("query {} names memory {id}, which is missing", line.id))
    };
    let mut gold = line.gold.iter().map(find).collect::<Result<Vec<usize>>>()?;
    gold.sort_unstable();
    gold.dedup();
    Ok(Question {
        id: line.id,
        bank,
        text: line.text_noid.unwrap_or(line.text),
        gold,
        answer: read::answer(&line.answer),
        category: line.category,
        date: None,
        conversation: line.bank,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const MEMORIES: &str = r#"{"bank": "a", "id": "1", "text": "red", "role": "user", "time": "March-15-2024"}
{"bank": "b", "id": "1", "text": "blue", "kind": "order"}
{"bank": "a", "id": "2", "text": "green"}
"#;

    fn folder(queries: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("memories.jsonl"), MEMORIES).unwrap();
        std::fs::write(folder.path().join("queries.jsonl"), queries).unwrap();
        folder
    }

    #[test]
    fn banks_are_kept_apart_and_masked_text_is_preferred() {
        let folder = folder(concat!(
            "{\"bank\": \"a\", \"id\": \"q1\", \"text\": \"#7?\", \"text_noid\": \"it?\", \"gold\": [\"2\", \"1\", \"2\"]}\n\n",
            "{\"bank\": \"b\", \"id\": \"q2\", \"text\": \"blue?\", \"gold\": []}\n"
        ));
        let dataset = load(folder.path(), "tau-retail").unwrap();
        assert_eq!((dataset.banks.len(), dataset.memory_count()), (2, 3));
        assert_eq!((dataset.questions[0].bank, &dataset.questions[0].gold[..]), (0, &[0, 1][..]));
        assert_eq!(dataset.questions[0].text, "it?");
        assert_eq!((dataset.questions[1].bank, dataset.questions[1].gold.len()), (1, 0));
    }

    #[test]
    fn bad_lines_are_named() {
        let rows = [
            ("{\"bank\": \"a\", \"id\": \"q\", \"text\": \"x\", \"gold\": [\"9\"]}", "memory 9"),
            ("{\"bank\": \"z\", \"id\": \"q\", \"text\": \"x\", \"gold\": []}", "bank z"),
            ("not json", "queries.jsonl line 1"),
        ];
        for (line, expected) in rows {
            let message = format!("{:#}", load(folder(line).path(), "cosqa").unwrap_err());
            assert!(message.contains(expected), "{message}");
        }
        let message = format!("{:#}", load(Path::new("/nowhere"), "cosqa").unwrap_err());
        assert!(message.contains("--data"), "{message}");
    }

    #[test]
    fn packed_files_are_read() {
        let folder = folder("{\"bank\": \"a\", \"id\": \"q\", \"text\": \"x\", \"gold\": [\"1\"]}");
        let plain = load(folder.path(), "cosqa").unwrap();
        for name in ["memories.jsonl", "queries.jsonl"] {
            let bytes = std::fs::read(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(format!("{name}.xz")), xz(&bytes)).unwrap();
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
        assert_eq!(load(folder.path(), "cosqa").unwrap(), plain);
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut writer = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }
}
