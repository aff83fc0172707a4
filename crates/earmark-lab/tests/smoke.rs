//! The LoCoMo experiment from the file to the figures, on a tiny made-up set with made-up vectors.

use std::path::Path;

use earmark::Params;
use earmark::encode::Side;
use earmark_lab::data;
use earmark_lab::experiments::locomo::{self, Settings};
use earmark_lab::experiments::plan::ResultFolder;
use earmark_lab::experiments::select;
use earmark_lab::report::Provenance;
use earmark_lab::split::SplitKind;
use earmark_lab::text::MemoryText;
use indicatif::ProgressBar;
use serde_json::json;

const THINGS: [&str; 10] = ["boat", "kite", "oboe", "tent", "sled", "drum", "vase", "lamp", "harp", "wok"];

/// Two conversations; turn t of session 1 tells that something was bought, and one question asks for each.
fn write_set(folder: &Path) {
    let conversation = |name: &str| {
        let turn = |(i, thing): (usize, &&str)| json!({"speaker": name, "dia_id": format!("D1:{}", i + 1), "text": format!("I bought a {thing}.")});
        let question = |(i, thing): (usize, &&str)| json!({"question": format!("When did {name} buy the {thing}?"), "evidence": [format!("D1:{}", i + 1)], "category": 4});
        json!({
            "sample_id": name,
            "conversation": {"session_1": THINGS.iter().enumerate().map(turn).collect::<Vec<_>>(), "session_1_date_time": "1:56 pm on 8 May, 2023"},
            "qa": THINGS.iter().enumerate().map(question).collect::<Vec<_>>()
        })
    };
    std::fs::create_dir_all(folder.join("locomo")).unwrap();
    let set = json!([conversation("Ada"), conversation("Ben")]);
    std::fs::write(folder.join("locomo/locomo10.json"), set.to_string()).unwrap();
}

/// Letters of the text, each a dimension: alike texts have alike vectors.
fn letters(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; 26];
    for byte in text.bytes().map(|byte| byte.to_ascii_lowercase()).filter(u8::is_ascii_lowercase) {
        vector[usize::from(byte - b'a')] += 1.0;
    }
    vector
}

fn settings() -> Settings {
    let params = Params { candidates: 8, ..Params::paper() };
    Settings {
        params,
        learning_rates: vec![1e-3],
        seeds: 2,
        split: SplitKind::Random,
        memory_text: MemoryText::Speaker,
        quick: false,
    }
}

fn run(data: &Path, results: &Path, settings: &Settings) -> anyhow::Result<usize> {
    let mut dataset = data::load(data, "locomo")?;
    let dropped = dataset.drop_without_gold();
    let folder = ResultFolder::open(results)?;
    let mut encoded = 0;
    let mut encode = |texts: &[&str], _: Side| {
        encoded += texts.len();
        Ok(texts.iter().map(|text| letters(text)).collect())
    };
    let ran = locomo::run(settings, &folder, &dataset, "letters", &mut encode, &ProgressBar::hidden())?;
    let provenance = Provenance::here("earmark-lab locomo".into());
    locomo::write_report(settings, &folder, dropped, ran.then_some(&provenance))?;
    assert_eq!(ran, encoded > 0);
    Ok(encoded)
}

#[test]
fn locomo_end_to_end() {
    let work = tempfile::tempdir().unwrap();
    let results = work.path().join("results");
    write_set(work.path());
    assert_eq!(run(work.path(), &results, &settings()).unwrap(), 40);

    let folder = ResultFolder::open(&results).unwrap();
    let rows = folder.rows().unwrap();
    assert_eq!(rows.len(), 7 * 2, "one row for each method and seed");
    for row in &rows {
        assert_eq!((row.n, row.recall_by_question.len()), (4, 4));
        assert!(row.scores.recall_at_5 <= row.scores.hit_at_5 && row.scores.recall_at_5 <= row.pool_ceiling);
        let calls =
            if row.key.method.contains("explorer-only") || row.key.method == "ear-explorer" { 3.0 } else { 0.0 };
        assert_eq!(row.critic_calls_per_query, calls, "{}", row.key.method);
    }
    let start = |method: &str| {
        let curve = folder.curve().unwrap();
        curve.iter().find(|point| point.key.method == method && point.n_train == 0).unwrap().scores
    };
    let retriever = rows.iter().find(|row| row.key.method == "only-retriever" && row.key.seed == 1).unwrap();
    assert_eq!(start("ear"), retriever.scores, "an untrained adapter ranks as the retriever does");
    for file in ["README.md", "summary.md", "methods-letters.svg", "curve-letters.svg"] {
        assert!(std::fs::metadata(results.join(file)).unwrap().len() > 300, "{file}");
    }
    let summary = std::fs::read_to_string(results.join("summary.md")).unwrap();
    assert!(summary.contains("read test labels") && summary.contains("| ear-explorer |"), "{summary}");
}

#[test]
fn a_broken_run_is_taken_up_and_gives_the_same_rows() {
    let work = tempfile::tempdir().unwrap();
    let results = work.path().join("results");
    write_set(work.path());
    run(work.path(), &results, &settings()).unwrap();
    let path = results.join("rows.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(run(work.path(), &results, &settings()).unwrap(), 0, "nothing is missing, so nothing is encoded");

    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(run(work.path(), &results, &settings()).unwrap(), 40);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
}

#[test]
fn runs_with_other_settings_are_not_mixed() {
    let work = tempfile::tempdir().unwrap();
    let results = work.path().join("results");
    write_set(work.path());
    run(work.path(), &results, &settings()).unwrap();
    let other = Settings { learning_rates: vec![1e-4], ..settings() };
    let message = run(work.path(), &results, &other).unwrap_err().to_string();
    assert!(message.contains("--name"), "{message}");
}

#[test]
fn a_learning_rate_is_chosen_on_training_questions_and_told() {
    let work = tempfile::tempdir().unwrap();
    let results = work.path().join("results");
    write_set(work.path());
    let settings = Settings { learning_rates: vec![0.0, 1e-2], ..settings() };
    run(work.path(), &results, &settings).unwrap();
    let validations = select::read(&ResultFolder::open(&results).unwrap()).unwrap();
    assert_eq!(validations.len(), 2 * 2);
    assert!(validations.iter().all(|validation| validation.n == 3), "a fifth of 16 training questions");
    let rates: Vec<f32> =
        ResultFolder::open(&results).unwrap().rows().unwrap().iter().map(|row| row.params.learning_rate).collect();
    assert!(rates.iter().all(|rate| Some(*rate) == select::choose(&validations, "letters", &[0.0, 1e-2], &[1, 2])));
    assert!(std::fs::read_to_string(results.join("README.md")).unwrap().contains("*training* questions"));
    assert_eq!(run(work.path(), &results, &settings).unwrap(), 0);
}
