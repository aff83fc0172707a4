//! Tables 2 and 3 on LoCoMo, from the file on.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use earmark_lab::data;
use earmark_lab::experiments::paper::{Lab, locomo};
use earmark_lab::experiments::plan::ResultFolder;
use earmark_lab::experiments::select;
use earmark_lab::report::Provenance;
use indicatif::ProgressBar;
use serde_json::json;

use super::{THINGS, options, source};

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

/// Runs with the best of `rates`; returns how many texts were encoded.
fn run(data: &Path, results: &Path, rates: &[f32]) -> anyhow::Result<usize> {
    let encoded = Rc::new(Cell::new(0));
    let lab = Lab::new(source(|setting| data::load(data, &setting.set), encoded.clone()));
    let (options, folder) = (options(2), ResultFolder::open(results)?);
    let ran = locomo::run(&options, rates, &lab, &folder, &ProgressBar::hidden())?;
    let provenance = Provenance::here("earmark-lab locomo".into());
    locomo::write(&options, rates, &folder, ran.then_some(&provenance))?;
    assert_eq!(ran, encoded.get() > 0);
    Ok(encoded.get())
}

#[test]
fn locomo_end_to_end() {
    let work = tempfile::tempdir().unwrap();
    let results = work.path().join("results");
    write_set(work.path());
    assert_eq!(run(work.path(), &results, &[1e-3]).unwrap(), 40);

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
    for file in ["README.md", "summary.md", "methods-locomo-letters.svg", "curve-locomo-letters.svg"] {
        assert!(std::fs::metadata(results.join(file)).unwrap().len() > 300, "{file}");
    }
    let summary = std::fs::read_to_string(results.join("summary.md")).unwrap();
    assert!(summary.contains("reads its labels") && summary.contains("| ear-explorer |"), "{summary}");
}

#[test]
fn a_broken_run_is_taken_up_and_gives_the_same_rows() {
    let work = tempfile::tempdir().unwrap();
    let results = work.path().join("results");
    write_set(work.path());
    run(work.path(), &results, &[1e-3]).unwrap();
    let path = results.join("rows.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(run(work.path(), &results, &[1e-3]).unwrap(), 0, "nothing is missing, so nothing is encoded");

    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(run(work.path(), &results, &[1e-3]).unwrap(), 40);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
}

#[test]
fn runs_with_other_settings_are_not_mixed() {
    let work = tempfile::tempdir().unwrap();
    let results = work.path().join("results");
    write_set(work.path());
    run(work.path(), &results, &[1e-3]).unwrap();
    let message = run(work.path(), &results, &[1e-4]).unwrap_err().to_string();
    assert!(message.contains("--name"), "{message}");
}

#[test]
fn a_learning_rate_is_chosen_on_training_questions_and_told() {
    let work = tempfile::tempdir().unwrap();
    let results = work.path().join("results");
    write_set(work.path());
    let rates = [0.0, 1e-2];
    run(work.path(), &results, &rates).unwrap();
    let validations = select::read(&ResultFolder::open(&results).unwrap()).unwrap();
    assert_eq!(validations.len(), 2 * 2);
    assert!(validations.iter().all(|validation| validation.n == 3), "a fifth of 16 training questions");
    let best = select::choose(&validations, "letters", &rates, &[1, 2]);
    let rows = ResultFolder::open(&results).unwrap().rows().unwrap();
    assert!(rows.iter().all(|row| Some(row.params.learning_rate) == best));
    assert!(std::fs::read_to_string(results.join("README.md")).unwrap().contains("*training* questions"));
    assert_eq!(run(work.path(), &results, &rates).unwrap(), 0);
}
