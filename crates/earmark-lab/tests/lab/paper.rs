//! Every experiment of the paper.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use anyhow::Result;
use earmark::Params;
use earmark_lab::experiments::paper::{Lab, Options, Reranking, Run, Source, catalogue, report};
use earmark_lab::experiments::plan::ResultFolder;
use earmark_lab::report::Provenance;
use indicatif::ProgressBar;

use super::{made_up, options, source};

/// A reranker that knows what is asked for: the last word of the question.
fn knowing(query: &str, texts: &[&str]) -> Result<Vec<f32>> {
    let thing = query.trim_end_matches('?').rsplit(' ').next().unwrap_or_default();
    Ok(texts.iter().map(|text| f32::from(u8::from(text.contains(thing)))).collect())
}

/// Runs an experiment in a folder named after it; returns how many texts were encoded.
fn run(name: &str, options: &Options, results: &Path, earlier: &[ResultFolder]) -> Result<(ResultFolder, usize)> {
    let encoded = Rc::new(Cell::new(0));
    let source = source(|setting| Ok(made_up(setting.stores)), encoded.clone());
    let reranker = Some(Reranking { depth: 10, score: Box::new(knowing) });
    let lab = Lab::new(Source { reranker, ..source });
    let experiment = catalogue::find(name).unwrap();
    let folder = ResultFolder::open(&results.join(name))?;
    let ran = Run { experiment, options, lab: &lab }.run(&folder, earlier, &ProgressBar::hidden())?;
    let provenance = Provenance::here(format!("earmark-lab {name}"));
    report::write(experiment, options, &folder, ran.then_some(&provenance))?;
    Ok((folder, encoded.get()))
}

/// Runs an experiment twice: its summary and figures hold `words`, and the second time nothing is left to do.
fn check(name: &str, rows: usize, figures: &[&str], words: &[&str]) {
    let work = tempfile::tempdir().unwrap();
    let (folder, _) = run(name, &options(2), work.path(), &[]).unwrap();
    assert_eq!(folder.rows().unwrap().len(), rows, "{name}: one row for each method, seed and store");
    let readme = std::fs::read_to_string(folder.file("README.md")).unwrap();
    assert!(readme.contains(&format!("earmark-lab {name}")) && readme.contains("commit"), "{readme}");
    let summary = std::fs::read_to_string(folder.file("summary.md")).unwrap();
    for word in words {
        assert!(summary.contains(word), "{name}: no `{word}` in\n{summary}");
    }
    for figure in figures {
        let svg = std::fs::read_to_string(folder.file(figure)).unwrap();
        assert!(svg.contains("letters") && summary.contains(&format!("({figure})")), "{name}: {figure}");
    }
    let before = std::fs::read_to_string(folder.file("rows.jsonl")).unwrap();
    let (folder, encoded) = run(name, &options(2), work.path(), &[]).unwrap();
    assert_eq!(encoded, 0, "{name}: nothing is left to do");
    assert_eq!(std::fs::read_to_string(folder.file("rows.jsonl")).unwrap(), before);
    assert_eq!(std::fs::read_to_string(folder.file("README.md")).unwrap(), readme);
}

#[test]
fn table2() {
    check("table2", 4 * 2, &["methods-locomo-letters.svg"], &["| ear-explorer |", "55.06", "70.83"]);
}

#[test]
fn table3() {
    check("table3", 7 * 2, &["methods-locomo-letters.svg"], &["| buffer-in-training |", "29.54", "+12.5"]);
}

#[test]
fn table10() {
    check("table10", 6 * 2, &["methods-locomo-letters.svg"], &["| reranker-ear-explorer |", "62.08", "61.46"]);
    let work = tempfile::tempdir().unwrap();
    let (folder, _) = run("table10", &options(2), work.path(), &[]).unwrap();
    let rows = folder.rows().unwrap();
    let of = |method: &str| -> Vec<f64> {
        rows.iter().filter(|row| row.key.method == method).map(|row| row.scores.recall_at_5).collect()
    };
    assert!(
        of("reranker").into_iter().all(|recall| recall == 1.0),
        "all ten memories are candidates, and it knows the right one"
    );
    assert!(of("only-retriever").into_iter().any(|recall| recall < 1.0), "the retriever is not perfect");
}

#[test]
fn fig3() {
    check("fig3", 5 * 2, &["curve-locomo-letters.svg"], &["surpasses only-retriever", "| explorer-in-training |"]);
}

#[test]
fn fig4() {
    check("fig4", 3 * 2, &["curve-locomo-letters.svg"], &["critic calls", "| rl-update-4-epochs |", "1,400"]);
}

#[test]
fn fig5() {
    let figures = ["curve-ear-locomo-letters.svg", "curve-rl-locomo-letters.svg"];
    check("fig5", 9 * 2, &figures, &["| ear-70-70 |", "| rl-update-95-95 |"]);
}

#[test]
fn table6() {
    check("table6", 6 * 2, &["methods-locomo-letters.svg"], &["| ear-2-rounds |", "| ear-replay-8 |"]);
}

#[test]
fn table7() {
    check("table7", 4 * 2, &["methods-locomo-letters.svg"], &["| ear-replay-reward |", "| ear-replay-random |"]);
}

#[test]
fn table8() {
    check("table8", 4 * 2, &["methods-locomo-letters.svg"], &["| encode |", "| explore |", "16.88"]);
}

#[test]
fn fig7() {
    check("fig7", 4 * 2, &["sizes-locomo.svg", "size-curves-locomo.svg"], &["| letters | 26 | 1352 |", "paper: GTE"]);
}

#[test]
fn stores() {
    check("stores", 3 * 3 * 2, &["mix-letters.svg"], &["| both | ear |", "| temporal | only-retriever |", "60.94"]);
}

#[test]
fn geometry() {
    check("geometry", 0, &["geometry-letters.svg"], &["Δ after", "+0.149", "paper +0.022 and +0.157"]);
}

#[test]
fn choices() {
    check("choices", (1 + 3 * 22) * 2, &[], &["| update after every query |", "| constant rate of false positives |"]);
}

#[test]
fn no_experiment_is_untested() {
    let tests = include_str!("paper.rs");
    for experiment in &catalogue::ALL {
        assert!(tests.contains(&format!("fn {}() {{\n    ", experiment.name)), "{}", experiment.name);
    }
}

#[test]
fn runs_of_an_earlier_experiment_are_taken_over_where_the_settings_are_the_same() {
    let work = tempfile::tempdir().unwrap();
    let (table3, _) = run("table3", &options(2), work.path(), &[]).unwrap();
    let (table2, encoded) = run("table2", &options(2), work.path(), std::slice::from_ref(&table3)).unwrap();
    assert_eq!((table2.rows().unwrap().len(), encoded), (4 * 2, 0));
    let ear = |folder: &ResultFolder| folder.rows().unwrap().into_iter().find(|row| row.key.method == "ear").unwrap();
    assert_eq!(ear(&table2), ear(&table3));

    let other = Options { params: Params { baseline: 0.0, ..options(2).params }, ..options(2) };
    let fresh = tempfile::tempdir().unwrap();
    let (folder, encoded) = run("table2", &other, fresh.path(), &[table3]).unwrap();
    assert!(encoded > 0);
    assert!(folder.rows().unwrap().iter().all(|row| row.params.baseline == 0.0));
}

#[test]
fn a_pool_of_two_stores_is_balanced_and_counted_by_store() {
    let work = tempfile::tempdir().unwrap();
    let (folder, _) = run("stores", &options(2), work.path(), &[]).unwrap();
    let both: Vec<_> = folder.rows().unwrap().into_iter().filter(|row| row.key.dataset == "locomo-both").collect();
    assert_eq!(both.len(), 3 * 2);
    for row in both {
        for scores in &row.by_type {
            let names: Vec<&str> = scores.stores.iter().map(|store| store.store.as_str()).collect();
            assert_eq!(names, ["episodic", "semantic"]);
            let served: f64 = scores.stores.iter().map(|store| store.served).sum();
            assert!((served - 5.0).abs() < 1e-9, "five are served, of one store or the other");
        }
    }
}

#[test]
fn other_sets_have_one_store() {
    let options = Options { sets: vec!["longmemeval".into()], ..options(2) };
    assert!(options.settings(catalogue::find("stores").unwrap()).is_empty());
    assert_eq!(options.settings(catalogue::find("table2").unwrap()).len(), 1);
}
