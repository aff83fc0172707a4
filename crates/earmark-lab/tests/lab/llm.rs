//! Table 9 and the answers from the set to the tables, with a made-up model behind a real endpoint on loopback.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use earmark::chat::{Chat, LlmOptions, Prompt, Reply};
use earmark::recall::{Candidate, Label};
use earmark_lab::candidates;
use earmark_lab::data::Stores;
use earmark_lab::experiments::paper::answering::{self, Answering};
use earmark_lab::experiments::paper::table9::{self, Critics};
use earmark_lab::experiments::paper::{Lab, answering_report, table9_report};
use earmark_lab::experiments::plan::ResultFolder;
use earmark_lab::llm::Llm;
use earmark_lab::llm_critic::{Asking, LlmCritic, Tally};
use earmark_lab::report::Provenance;
use earmark_lab::text::MemoryText;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{THINGS, letters, made_up, options, source};

fn lab() -> Lab<'static> {
    Lab::new(source(|setting| Ok(made_up(setting.stores)), Rc::default()))
}

/// A model that knows what is asked for: it cites the note of the thing, says yes to it, names it where it stands in the
/// notes, and judges by equality.
fn knowing(user: &str) -> &'static str {
    let thing = THINGS.iter().find(|thing| user.contains(&format!("the {thing}?"))).copied().unwrap_or("?");
    let bought = format!("I bought a {thing}.");
    let said = |head: &str| user.lines().find_map(|line| line.strip_prefix(head)).unwrap_or_default().to_owned();
    if user.contains("\nReference: ") {
        return if said("Reference: the ") == said("Response: ") { "Yes." } else { "Hm" };
    }
    if let Some((_, note)) = user.split_once("\nNote: ") {
        return if note.contains(&bought) { "Yes" } else { "No" };
    }
    match user.lines().find(|line| line.ends_with(&bought)) {
        Some(line) if line.starts_with("[1]") => "It was that [1].",
        Some(line) if line.starts_with("[2]") => "It was that [2].",
        Some(line) if line.starts_with("[3]") => "It was that [3].",
        Some(line) if line.starts_with("[4]") => "It was that [4].",
        Some(line) if line.starts_with("[5]") => "It was that [5].",
        Some(_) => thing,
        None if user.contains("\n[1] ") => "[NO_CITE]",
        None => "",
    }
}

fn completion(body: &str) -> Value {
    let body: Value = serde_json::from_str(body).unwrap();
    let user = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    let said = knowing(user);
    let mut choice = json!({ "message": { "role": "assistant", "content": said } });
    if body["logprobs"] == true {
        let other = if said == "Yes" { " no" } else { " yes" };
        let likeliest = json!([{ "token": said, "logprob": -0.25 }, { "token": other, "logprob": -1.5 }]);
        choice["logprobs"] = json!({ "content": [{ "token": said, "logprob": -0.25, "top_logprobs": likeliest }] });
    }
    json!({ "choices": [choice], "usage": { "prompt_tokens": 50, "completion_tokens": 3 } })
}

fn answer(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    std::io::Read::read_exact(&mut reader, &mut body).unwrap();
    let body = completion(std::str::from_utf8(&body).unwrap()).to_string();
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).unwrap();
}

/// Serves the knowing model until the test ends; returns its address and a count of the calls.
fn serve() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Relaxed);
            answer(stream.unwrap());
        }
    });
    (url, calls)
}

fn open(url: &str, cache: &Path) -> Llm<'static> {
    let chat = Chat::open("llm", &LlmOptions::new(url, "knowing")).unwrap();
    Llm::open(cache, "knowing", "{}", Box::new(move |prompt| chat.ask(prompt))).unwrap()
}

fn critics<'a>(llm: &'a Llm<'a>) -> Critics<'a> {
    Critics { llm, askings: vec![Asking::Citations, Asking::YesNo], threshold: 0.0, questions: 6, explored: 3 }
}

#[test]
fn table9_end_to_end() {
    let work = tempfile::tempdir().unwrap();
    let (url, calls) = serve();
    let (cache, results) = (work.path().join("cache"), work.path().join("results"));
    let run = || {
        let (llm, folder) = (open(&url, &cache), ResultFolder::open(&results).unwrap());
        let (critics, options) = (critics(&llm), options(1));
        let ran = table9::run(&critics, &options, &lab(), &folder, &ProgressBar::hidden()).unwrap();
        let provenance = Provenance::here("earmark-lab table9".into());
        table9_report::write(&critics, &options, &folder, ran.then_some(&provenance)).unwrap();
        folder
    };
    let folder = run();
    let rows = folder.rows().unwrap();
    assert_eq!(rows.len(), 2 + 5 * 2, "two without a critic, and two for each of five critics");
    let alike = |row: &earmark_lab::rows::Row| match row.key.method.as_str() {
        "only-retriever" => (row.n, row.n_train) == (4, 0),
        "only-retriever-on-explored" => (row.n, row.n_train) == (3, 0),
        method if method.ends_with("-explorer") => {
            (row.n, row.n_train, row.critic_calls_per_query as usize) == (3, 6, 3)
        }
        _ => (row.n, row.n_train, row.critic_calls_per_query as usize) == (4, 6, 0),
    };
    assert!(rows.iter().all(alike), "{rows:?}");

    for judged in table9::read(&folder).unwrap().iter().filter(|judged| judged.model.is_some()) {
        let Tally { slates, shown, gold, useful, useful_gold, prompts, prompt_tokens, .. } = judged.tally;
        let rounds = if judged.key.method.ends_with("-explorer") { 3 } else { 4 };
        assert_eq!((slates, shown), (judged.questions * rounds, judged.questions * rounds * 5));
        assert_eq!((useful, useful_gold), (gold, gold), "the model is never wrong");
        assert_eq!(prompts, if judged.key.method.starts_with("yes-no") { shown } else { slates });
        assert_eq!(prompt_tokens, 50 * prompts as u64);
    }
    let summary = std::fs::read_to_string(folder.file("summary.md")).unwrap();
    for words in ["| citations | 100 | 100 |", "| simulated-as-yes-no |", "GPT 5 Mini", "70.1", "| 20.0 | 1000 + 60 |"]
    {
        assert!(summary.contains(words), "no `{words}` in\n{summary}");
    }
    let (before, rows) = (calls.load(Relaxed), rows.len());
    std::fs::remove_file(folder.file("rows.jsonl")).unwrap();
    assert_eq!(run().rows().unwrap().len(), rows);
    assert_eq!(calls.load(Relaxed), before, "every answer was known, so the second run asked nothing");
    assert_eq!(std::fs::read_to_string(folder.file("summary.md")).unwrap(), summary);
}

#[test]
fn other_settings_need_another_folder() {
    let work = tempfile::tempdir().unwrap();
    let (url, _) = serve();
    let (llm, folder) = (open(&url, work.path()), ResultFolder::open(&work.path().join("results")).unwrap());
    let critics = Critics { askings: Vec::new(), ..critics(&llm) };
    table9::run(&critics, &options(1), &lab(), &folder, &ProgressBar::hidden()).unwrap();
    let more = Critics { questions: 7, ..critics };
    let message = table9::run(&more, &options(1), &lab(), &folder, &ProgressBar::hidden()).unwrap_err().to_string();
    assert!(message.contains("simulated") && message.contains("--name"), "{message}");
}

#[test]
fn an_endpoint_without_log_probabilities_is_told_so() {
    let work = tempfile::tempdir().unwrap();
    let ask = |_: &Prompt| Ok(Reply { text: "Yes".into(), ..Reply::default() });
    let llm = Llm::open(work.path(), "m", "", Box::new(ask)).unwrap();
    let dataset = made_up(Stores::Dialogues);
    let mut encode = |texts: &[&str], _| Ok(texts.iter().map(|text| letters(text)).collect());
    let cases = candidates::find(&dataset, MemoryText::Speaker, 5, &mut encode).unwrap();
    let critic = |asking| LlmCritic { llm: &llm, asking, threshold: 0.0, dataset: &dataset, cases: &cases };
    let mut tally = Tally::default();
    let slate = [Candidate(0), Candidate(1)];
    let message = critic(Asking::YesNo).judge(0, &slate, &mut tally).unwrap_err().to_string();
    assert!(message.contains("log-probabilities") && message.contains("citations"), "{message}");
    let labels: Vec<Option<Label>> = critic(Asking::Citations).judge(0, &slate, &mut tally).unwrap();
    assert_eq!((labels, tally.unreadable), (vec![None, None], 1), "an answer that cites nothing says nothing");
}

#[test]
fn answers_end_to_end() {
    let work = tempfile::tempdir().unwrap();
    let (url, calls) = serve();
    let (options, lab, cache) = (options(1), lab(), work.path().join("cache"));
    let folder = ResultFolder::open(&work.path().join("results")).unwrap();
    let answers_of = Cell::new(0);
    let run = |questions: usize| {
        let (llm, progress) = (open(&url, &cache), ProgressBar::hidden());
        let answering =
            Answering { llm: &llm, questions, options: &options, lab: &lab, folder: &folder, progress: &progress };
        let ran = answering.run().unwrap();
        let provenance = Provenance::here("earmark-lab answers".into());
        answering_report::write(&llm, &options, &folder, ran.then_some(&provenance)).unwrap();
        answers_of.set(answering::read(&folder).unwrap().len());
    };
    run(2);
    assert_eq!(answers_of.get(), 5 * 2);
    run(3);
    assert_eq!(answers_of.get(), 5 * 3, "more questions begin with the same ones");
    let asked = calls.load(Relaxed);
    run(3);
    assert_eq!((answers_of.get(), calls.load(Relaxed)), (15, asked));

    let dataset = made_up(Stores::Dialogues);
    for answer in answering::read(&folder).unwrap() {
        let question = dataset.questions.iter().find(|question| question.id == answer.question).unwrap();
        assert_eq!(answer.category, question.category);
        // The model names the thing if its memory was served, and says nothing otherwise.
        let expected = if answer.readable { (1.0, Some(true)) } else { (0.0, None) };
        assert_eq!((answer.f1, answer.strict), expected, "{answer:?}");
        assert_eq!(answer.judge_tokens, if answer.readable { 106 } else { 0 });
        let whole = folder.rows().unwrap().into_iter().find(|row| row.key == answer.key).unwrap();
        assert!(whole.scores.hit_at_5 < 1.0 || answer.readable, "what is always served is always answered");
    }
    let summary = std::fs::read_to_string(folder.file("summary.md")).unwrap();
    for words in ["| default-untaught |", "25.23", "54.44", "| single-hop | ", "| 50 + 3 |"] {
        assert!(summary.contains(words), "no `{words}` in\n{summary}");
    }
    let rows = std::fs::read_to_string(folder.file("answers.jsonl")).unwrap();
    assert!(!rows.contains("bought"), "no words of the set are kept");
}
