//! `earmark import` and `earmark export`: file formats of other programs become memories.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    process::ExitCode,
};

use earmark::{Error, Imported, Metadata, Namespace, NewMemory, Result, parse_instant};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{advance, existing, io_error, print_json, print_text, progress, read_input};
use crate::{
    args::{Format, Import},
    open,
    render::{counted, printable},
    settings::Settings,
};

pub(crate) fn run(settings: &Settings, args: &Import) -> Result<ExitCode> {
    let bytes = read_input(&args.file)?;
    let namespace = open::namespace(settings)?;
    let bar = progress(settings, "importing");
    let report = match args.format {
        Format::Jsonl => namespace.import(&bytes, &mut advance(&bar))?,
        Format::Locomo => namespace.import_items(&locomo(&parse(&bytes)?)?, Vec::new(), &mut advance(&bar))?,
        Format::Longmemeval => {
            namespace.import_items(&longmemeval(&parse(&bytes)?)?, Vec::new(), &mut advance(&bar))?
        }
        Format::Mem0 => namespace.import_items(&mem0(&parse(&bytes)?)?, Vec::new(), &mut advance(&bar))?,
    };
    bar.finish_and_clear();
    print_report(settings, &report)?;
    Ok(exit_code(&report))
}

/// Success only if every line was good.
pub(crate) fn exit_code(report: &Imported) -> ExitCode {
    if report.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

pub(crate) fn print_report(settings: &Settings, report: &Imported) -> Result<()> {
    if settings.json {
        return print_json(report);
    }
    for refused in &report.refused {
        print_text(&format!("line {}: {}", refused.line, printable(&refused.reason)))?;
    }
    let (created, existing, refused) = (report.created, report.existing, report.refused.len());
    print_text(&format!("imported {created}, known already {existing}, refused {refused}"))
}

pub(crate) fn export(settings: &Settings, file: Option<&Path>) -> Result<()> {
    let namespace = existing(settings)?;
    let Some(path) = file.filter(|path| path.as_os_str() != "-") else {
        namespace.export(&mut BufWriter::new(std::io::stdout().lock()))?;
        return Ok(());
    };
    let count = if path.exists() && !path.is_file() { write_to(&namespace, path)? } else { replace(&namespace, path)? };
    if settings.json {
        print_json(&json!({ "exported": count }))
    } else {
        print_text(&format!("exported {}", counted(count, "memory", "memories")))
    }
}

/// Writes into a pipe or a device.
fn write_to(namespace: &Namespace, path: &Path) -> Result<usize> {
    let mut out = BufWriter::new(File::create(path).map_err(|e| io_error(path, &e))?);
    let count = namespace.export(&mut out)?;
    out.flush().map_err(|e| io_error(path, &e))?;
    Ok(count)
}

/// Writes beside the file and takes its place when all is there: a full disk leaves the old file whole.
fn replace(namespace: &Namespace, path: &Path) -> Result<usize> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut out = BufWriter::new(NamedTempFile::new_in(folder).map_err(|e| io_error(path, &e))?);
    let count = namespace.export(&mut out).map_err(|e| at(e, path))?;
    let file = out.into_inner().map_err(|e| io_error(path, e.error()))?;
    file.as_file().sync_all().map_err(|e| io_error(path, &e))?;
    file.persist(path).map_err(|e| io_error(path, &e.error))?;
    Ok(count)
}

/// Names the file in an error that only knows of an output.
fn at(error: Error, path: &Path) -> Error {
    match error {
        Error::Io { path: unnamed, reason } if unnamed.as_os_str() == "output" => {
            Error::Io { path: path.to_owned(), reason }
        }
        other => other,
    }
}

fn parse(bytes: &[u8]) -> Result<Value> {
    let bytes = bytes.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(bytes);
    serde_json::from_slice(bytes).map_err(|e| Error::invalid("file", format!("is not JSON: {e}")))
}

fn list<'a>(value: &'a Value, what: &str) -> Result<&'a Vec<Value>> {
    value.as_array().ok_or_else(|| Error::invalid("file", format!("is not {what}: a list was expected")))
}

/// Each turn of each session of each sample; the session's date and the caption of a shared picture are kept.
fn locomo(file: &Value) -> Result<Vec<NewMemory>> {
    let mut items = Vec::new();
    for sample in list(file, "the LoCoMo file")? {
        let name = sample["sample_id"].as_str().unwrap_or("sample");
        let conversation = sample["conversation"]
            .as_object()
            .ok_or_else(|| Error::invalid("file", "has a sample without `conversation`"))?;
        for number in 1.. {
            let Some(turns) = conversation.get(&format!("session_{number}")).and_then(Value::as_array) else { break };
            let date = conversation.get(&format!("session_{number}_date_time")).and_then(Value::as_str);
            let occurred_at = date.and_then(|d| civil("%I:%M %p on %d %B, %Y", d));
            items.extend(turns.iter().filter_map(|turn| locomo_turn(turn, name, number, occurred_at)));
        }
    }
    Ok(items)
}

fn locomo_turn(turn: &Value, sample: &str, number: usize, occurred_at: Option<Timestamp>) -> Option<NewMemory> {
    let text = turn["text"].as_str()?.trim();
    let caption = turn["blip_caption"].as_str().map(|c| format!(" [shared a picture: {c}]")).unwrap_or_default();
    let content = format!("{text}{caption}");
    (!content.trim().is_empty()).then(|| NewMemory {
        content,
        author: turn["speaker"].as_str().map(str::to_owned),
        metadata: fields(&[("dia_id", &turn["dia_id"]), ("sample_id", &json!(sample))]),
        session_id: Some(format!("{sample}/{number}")),
        occurred_at,
        ..Default::default()
    })
}

/// Each turn of each session of each question's history.
fn longmemeval(file: &Value) -> Result<Vec<NewMemory>> {
    let mut items = Vec::new();
    for question in list(file, "the LongMemEval file")? {
        let sessions = list(&question["haystack_sessions"], "the LongMemEval layout (haystack_sessions)")?;
        for (i, session) in sessions.iter().enumerate() {
            let id = question["haystack_session_ids"][i].as_str().map_or_else(|| i.to_string(), str::to_owned);
            let occurred_at = question["haystack_dates"][i].as_str().and_then(longmemeval_date);
            let turns = session.as_array().map(Vec::as_slice).unwrap_or_default();
            items.extend(turns.iter().enumerate().filter_map(|(t, turn)| longmemeval_turn(turn, t, &id, occurred_at)));
        }
    }
    Ok(items)
}

fn longmemeval_turn(turn: &Value, place: usize, session: &str, occurred_at: Option<Timestamp>) -> Option<NewMemory> {
    let content = turn["content"].as_str().filter(|c| !c.trim().is_empty())?;
    Some(NewMemory {
        content: content.to_owned(),
        author: turn["role"].as_str().map(str::to_owned),
        metadata: fields(&[("turn", &json!(place))]),
        session_id: Some(session.to_owned()),
        occurred_at,
        ..Default::default()
    })
}

/// `2023/05/20 (Sat) 02:21`.
fn longmemeval_date(text: &str) -> Option<Timestamp> {
    let (day, rest) = text.split_once(" (")?;
    civil("%Y/%m/%d %H:%M", &format!("{day} {}", rest.split_once(") ")?.1))
}

fn civil(format: &str, text: &str) -> Option<Timestamp> {
    let read = DateTime::strptime(format, text.trim()).ok()?;
    TimeZone::UTC.to_timestamp(read).ok()
}

/// A list of mem0 memories, bare or under `results` or `memories`.
fn mem0(file: &Value) -> Result<Vec<NewMemory>> {
    let inner = ["results", "memories"].iter().find_map(|key| file.get(key)).unwrap_or(file);
    list(inner, "a mem0 export")?.iter().enumerate().map(|(i, item)| mem0_item(i, item)).collect()
}

fn mem0_item(i: usize, item: &Value) -> Result<NewMemory> {
    let text = |key: &str| item[key].as_str().map(str::to_owned);
    let content = text("memory").or_else(|| text("text"));
    let at = ["updated_at", "created_at"].iter().map(|key| &item[key]).find(|value| !value.is_null());
    Ok(NewMemory {
        content: content.ok_or_else(|| Error::invalid(format!("results[{i}].memory"), "is missing"))?,
        metadata: item["metadata"].as_object().cloned().unwrap_or_default(),
        kind: Some("semantic".to_owned()),
        user_id: text("user_id"),
        agent_id: text("agent_id"),
        session_id: text("run_id"),
        occurred_at: at.map(|at| parse_instant(&format!("results[{i}].created_at"), at)).transpose()?,
        ..Default::default()
    })
}

fn fields(pairs: &[(&str, &Value)]) -> Metadata {
    pairs
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| ((*key).to_owned(), (*value).clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locomo_turns_keep_speaker_date_and_caption() {
        let file = json!([{"sample_id": "conv-1", "conversation": {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [{"speaker": "Ana", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a dog"}],
            "session_3": [{"speaker": "Ben", "dia_id": "D3:1", "text": "after a gap"}],
        }}]);
        let items = locomo(&file).unwrap();
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].content, "Look! [shared a picture: a dog]");
        assert_eq!(items[0].author.as_deref(), Some("Ana"));
        assert_eq!(items[0].occurred_at.unwrap().to_string(), "2023-05-08T13:56:00Z");
    }

    #[test]
    fn longmemeval_turns_keep_role_and_date() {
        let file = json!([{"haystack_session_ids": ["s9"], "haystack_dates": ["2023/05/20 (Sat) 02:21"],
            "haystack_sessions": [[{"role": "user", "content": "Hi", "has_answer": true}, {"role": "assistant", "content": ""}]]}]);
        let items = longmemeval(&file).unwrap();
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].session_id.as_deref(), Some("s9"));
        assert_eq!(items[0].occurred_at.unwrap().to_string(), "2023-05-20T02:21:00Z");
    }

    #[test]
    fn mem0_exports_are_read_and_holes_named() {
        let one =
            json!({"results": [{"memory": "Likes tea", "user_id": "u1", "created_at": "2025-01-02T03:04:05-08:00"}]});
        assert_eq!(mem0(&one).unwrap()[0].occurred_at.unwrap().to_string(), "2025-01-02T11:04:05Z");
        let error = mem0(&json!([{"id": "x"}])).unwrap_err().to_string();
        assert!(error.contains("results[0].memory"), "{error}");
    }
}
