//! The local encoders against vectors of sentence-transformers, on real weights where they are.
//!
//! Weights are looked for in `EARMARK_MODELS`, then in `models` at the root of the workspace
//! (`scripts/fetch-models.sh minilm mpnet wordllama`). Tests without their weights say so and pass.
#![cfg(feature = "local")]

use std::path::{Path, PathBuf};

use earmark::encode::{Encoder, Local, LocalOptions, Side, StaticVectors};
use earmark::vector;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

fn weights(name: &str) -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let roots = std::env::var_os("EARMARK_MODELS").map(PathBuf::from).into_iter().chain([workspace]);
    let found = roots.map(|root| root.join(name)).find(|folder| folder.join("model.safetensors").is_file());
    if found.is_none() {
        eprintln!("skipped: no weights of {name}");
    }
    found
}

fn local(name: &str, threads: usize) -> Option<Local> {
    let options = LocalOptions { threads: Some(threads), full_precision: true, ..LocalOptions::default() };
    weights(name).map(|folder| Local::open(folder.to_str().unwrap(), &options).unwrap())
}

fn golden_texts() -> Vec<String> {
    serde_json::from_str(&std::fs::read_to_string(format!("{GOLDEN}/texts.json")).unwrap()).unwrap()
}

fn floats(path: &str) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

fn largest_difference(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len());
    left.iter().zip(right).map(|(left, right)| (left - right).abs()).fold(0.0, f32::max)
}

fn check_golden(name: &str) {
    let Some(encoder) = local(name, 2) else { return };
    let (texts, expected) = (golden_texts(), floats(&format!("{GOLDEN}/{name}.f32")));
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = encoder.encode(&texts, Side::Memory).unwrap();
    assert_eq!(expected.len(), texts.len() * encoder.dimension());
    for ((text, vector), expected) in texts.iter().zip(&vectors).zip(expected.chunks(encoder.dimension())) {
        let (cosine, distance) = (vector::cosine(vector, expected), largest_difference(vector, expected));
        let start: String = text.chars().take(40).collect();
        assert!(cosine >= 0.9999 && distance <= 1e-5, "{name}: cosine {cosine}, max|d| {distance} for `{start}`");
    }
}

#[test]
fn minilm_equals_sentence_transformers() {
    check_golden("all-MiniLM-L6-v2");
}

#[test]
fn mpnet_equals_sentence_transformers() {
    check_golden("all-mpnet-base-v2");
}

/// On a processor without the instruction both are the same.
fn check_bf16(name: &str) {
    let (Some(full), Some(folder)) = (local(name, 2), weights(name)) else { return };
    let options = LocalOptions { threads: Some(2), ..LocalOptions::default() };
    let rounded = Local::open(folder.to_str().unwrap(), &options).unwrap();
    let texts = golden_texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = rounded.encode(&texts, Side::Memory).unwrap();
    for ((text, vector), full) in texts.iter().zip(&vectors).zip(full.encode(&texts, Side::Memory).unwrap()) {
        let cosine = vector::cosine(vector, &full);
        assert!(cosine >= 0.9999, "{name}: cosine {cosine} for `{}`", text.chars().take(40).collect::<String>());
        assert_eq!(&rounded.encode(&[text], Side::Memory).unwrap()[0], vector, "alone: {text}");
    }
}

#[test]
fn bf16_stays_near_full_precision() {
    check_bf16("all-MiniLM-L6-v2");
    check_bf16("all-mpnet-base-v2");
}

#[test]
fn one_by_one_equals_all_at_once() {
    let (Some(one), Some(two)) = (local("all-MiniLM-L6-v2", 1), local("all-MiniLM-L6-v2", 2)) else { return };
    let tins = [5, 40, 200, 400].map(|count| "tin ".repeat(count));
    let mut texts = vec!["ok", "The parcel arrived.", "Grandmother's clock stopped at six.", "x", "!"];
    texts.extend(tins.iter().map(String::as_str));
    let all = one.encode(&texts, Side::Memory).unwrap();
    assert_eq!(two.encode(&texts, Side::Memory).unwrap(), all, "threads");
    let backwards: Vec<&str> = texts.iter().rev().copied().collect();
    let mut reversed = one.encode(&backwards, Side::Memory).unwrap();
    reversed.reverse();
    assert_eq!(reversed, all, "order");
    for (text, vector) in texts.iter().zip(&all) {
        assert_eq!(&two.encode(&[text], Side::Memory).unwrap()[0], vector, "alone: {text}");
    }
}

#[test]
fn odd_texts_have_finite_vectors() {
    let Some(encoder) = local("all-MiniLM-L6-v2", 1) else { return };
    let long = format!("{}{} endmarker", "\u{200c}".repeat(7000), "\u{1f9ed}".repeat(1500));
    let texts = ["", "   ", "\n\t\r\n", "\u{200b}\u{200b}", "\u{2026}", "\u{1fae5}", "\0", "\u{feff}a\u{202e}b", &long];
    for (text, vector) in texts.iter().zip(encoder.encode(&texts, Side::Query).unwrap()) {
        assert!((vector::norm(&vector) - 1.0).abs() < 1e-5, "{text:?}");
    }
    assert!(encoder.encode(&[], Side::Query).unwrap().is_empty());
}

#[test]
fn the_end_of_a_long_text_counts() {
    let Some(encoder) = local("all-MiniLM-L6-v2", 1) else { return };
    let filler = "The weather was fine and nothing much happened. ".repeat(60);
    let long = format!("{filler}The spare key hangs behind the boiler.");
    let vectors = encoder.encode(&["where is the spare key?", &long, &filler], Side::Memory).unwrap();
    let [with, without] = [1, 2].map(|index| vector::cosine(&vectors[0], &vectors[index]));
    assert!(with > without + 0.02, "{with} against {without}");
}

#[test]
fn wordllama_knows_words() {
    let Some(folder) = weights("wordllama-256") else { return };
    let encoder = StaticVectors::from_folder("wordllama-256", &folder).unwrap();
    let texts = ["The dog barks.", "A puppy is barking.", "Interest rates went up.", ""];
    let vectors = encoder.encode(&texts, Side::Memory).unwrap();
    assert_eq!(encoder.dimension(), 256);
    let [near, far] = [1, 2].map(|index| vector::cosine(&vectors[0], &vectors[index]));
    assert!(near > far + 0.2, "{near} against {far}");
    assert!(vectors[3].iter().all(|value| value.is_finite()));
}

/// Folders of `scripts/tiny_models.py`: random weights, and what transformers makes of two fixed texts with them.
fn check_tiny(name: &str) {
    let folder = Path::new(GOLDEN).join("tiny").join(name);
    let options = LocalOptions { threads: Some(1), full_precision: true, ..LocalOptions::default() };
    let encoder = Local::from_folder(name, &folder, &options).unwrap();
    let vectors = encoder.encode(&["the key hangs here", "key"], Side::Memory).unwrap().concat();
    let expected = floats(folder.join("expected.f32").to_str().unwrap());
    let distance = largest_difference(&vectors, &expected);
    // The weights are large, so that errors would be too; values are about 1.
    assert!(distance < 1e-5, "{name}: max|d| {distance}");
}

#[test]
fn a_pytorch_file_is_read() {
    check_tiny("bert-zip");
    check_tiny("bert-old-file");
}

#[test]
fn half_precision_and_roberta_are_read() {
    check_tiny("bert-f16");
    check_tiny("roberta-bf16-cls");
}

#[test]
fn a_cut_pytorch_file_is_an_error() {
    let source = Path::new(GOLDEN).join("tiny/bert-old-file");
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(source.join(name), folder.path().join(name)).unwrap();
    }
    let bytes = std::fs::read(source.join("pytorch_model.bin")).unwrap();
    for len in [0, 10, bytes.len() / 2, bytes.len() - 5] {
        std::fs::write(folder.path().join("pytorch_model.bin"), &bytes[..len]).unwrap();
        let result = Local::from_folder("cut", folder.path(), &LocalOptions::default());
        let message = result.err().expect("a cut file was accepted").to_string();
        assert!(message.contains("pytorch_model.bin"), "{message}");
    }
}
