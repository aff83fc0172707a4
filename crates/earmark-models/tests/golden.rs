//! Tiny models in the real formats against what the original Python libraries make of them
//! (`scripts/golden_models.py` writes both).

use std::path::{Path, PathBuf};

use earmark::encode::{Encoder, Side};
use earmark_models::{ModelOptions, Qwen2Encoder, open_encoder, open_reranker};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    queries: Vec<Made>,
    memories: Vec<Made>,
    causal_memories: Vec<Made>,
}

#[derive(Deserialize)]
struct Made {
    text: String,
    vector: Vec<f32>,
}

#[derive(Deserialize)]
struct Scored {
    query: String,
    text: String,
    score: f32,
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn expected<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    serde_json::from_str(&std::fs::read_to_string(golden(name).join("expected.json")).unwrap()).unwrap()
}

fn open(folder: &Path) -> Box<dyn Encoder> {
    open_encoder(folder.to_str().unwrap(), &ModelOptions::default()).unwrap()
}

/// A copy of a model that can be changed.
fn copy(name: &str) -> tempfile::TempDir {
    fn copy_folder(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => copy_folder(&entry.path(), &target),
                false => drop(std::fs::copy(entry.path(), target).unwrap()),
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    copy_folder(&golden(name), folder.path());
    folder
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{} has no {from}", path.display());
    std::fs::write(path, text.replace(from, to)).unwrap();
}

fn check_vectors(encoder: &dyn Encoder, made: &[Made], side: Side, tolerance: f32) {
    let texts: Vec<&str> = made.iter().map(|one| one.text.as_str()).collect();
    let vectors = encoder.encode(&texts, side).unwrap();
    for (made, vector) in made.iter().zip(&vectors) {
        assert_eq!(vector.len(), encoder.dimension());
        let difference = difference(vector, &made.vector);
        assert!(difference <= tolerance, "{:?}: off by {difference}", made.text);
    }
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn check_encoder(name: &str, dimension: usize) {
    let encoder = open(&golden(name));
    assert_eq!((encoder.model(), encoder.dimension()), (name, dimension));
    let expected: Vectors = expected(name);
    check_vectors(&*encoder, &expected.queries, Side::Query, 1e-4);
    check_vectors(&*encoder, &expected.memories, Side::Memory, 1e-4);
}

#[test]
fn stella_with_mean_pooling_and_dense_head() {
    check_encoder("stella", 24);
}

#[test]
fn gte_with_last_token_and_bfloat16_shards() {
    check_encoder("gte-qwen2", 32);
}

#[test]
fn causal_attention_where_the_config_asks_for_it() {
    for (name, from, to) in [
        ("stella", "\"model_type\"", "\"is_causal\": true, \"model_type\""),
        ("gte-qwen2", "\"is_causal\": false", "\"is_causal\": true"),
    ] {
        let folder = copy(name);
        edit(&folder.path().join("config.json"), from, to);
        let expected: Vectors = expected(name);
        let encoder = open(folder.path());
        check_vectors(&*encoder, &expected.causal_memories, Side::Memory, 1e-4);
        let (one, other) = (&expected.memories[0].vector, &expected.causal_memories[0].vector);
        assert!(difference(one, other) > 0.01, "{name}: the direction of attention makes no difference");
    }
}

#[test]
fn a_text_alone_or_in_company_has_the_same_vector() {
    let encoder = open(&golden("stella"));
    let texts: Vec<String> = (0..120).map(|n| "the key hangs behind the boiler ".repeat(n % 7)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = encoder.encode(&texts, Side::Memory).unwrap();
    for (text, vector) in texts.iter().zip(&together).take(7) {
        let alone = encoder.encode(&[text], Side::Memory).unwrap();
        assert!(difference(&alone[0], vector) < 1e-5, "{text}");
    }
    assert!(encoder.encode(&[], Side::Query).unwrap().is_empty());
}

#[test]
fn long_texts_are_cut_into_windows_and_pooled() {
    let folder = copy("gte-qwen2");
    std::fs::write(folder.path().join("sentence_bert_config.json"), "{\"max_seq_length\": 12}").unwrap();
    let encoder = open(folder.path());
    let long = "the key, ".repeat(30);
    let (whole, start) = (encoder.encode(&[&long], Side::Memory).unwrap(), open(&golden("gte-qwen2")));
    let length: f32 = whole[0].iter().map(|value| value * value).sum();
    assert!((length - 1.0).abs() < 1e-5);
    assert!(difference(&whole[0], &start.encode(&[&long], Side::Memory).unwrap()[0]) > 0.01);
}

#[test]
fn a_text_of_no_tokens_has_a_vector() {
    let folder = copy("gte-qwen2");
    edit(&folder.path().join("tokenizer_config.json"), "\"add_eos_token\": true", "\"add_eos_token\": false");
    let vectors = open(folder.path()).encode(&["", "the key"], Side::Memory).unwrap();
    assert!(difference(&vectors[0], &[0.0; 32]) > 0.01 && vectors[0].iter().all(|value| value.is_finite()));
}

#[test]
fn halved_weights_and_other_prefixes() {
    let options = |bfloat16, prefix: &str| ModelOptions {
        query_prefix: Some(prefix.to_owned()),
        memory_prefix: Some(prefix.to_owned()),
        bfloat16,
    };
    let encoder = |bfloat16, prefix| Qwen2Encoder::from_folder("x", &golden("stella"), &options(bfloat16, prefix));
    let expected: Vectors = expected("stella");
    let largest = expected.memories.iter().flat_map(|made| &made.vector).fold(0.0_f32, |a, b| a.max(b.abs()));
    check_vectors(&encoder(true, "").unwrap(), &expected.memories, Side::Memory, 0.05 * largest);
    let text = &expected.memories[0].text;
    let plain = encoder(false, "").unwrap().encode(&[text], Side::Query).unwrap();
    assert!(difference(&plain[0], &expected.memories[0].vector) < 1e-4);
    let other = encoder(false, "ask: ").unwrap().encode(&[text], Side::Memory).unwrap();
    assert!(difference(&other[0], &plain[0]) > 0.01);
}

fn check_reranker(name: &str) {
    let reranker = open_reranker(golden(name).to_str().unwrap()).unwrap();
    let expected: Vec<Scored> = expected(name);
    for pairs in expected.chunk_by(|one, other| one.query == other.query) {
        let texts: Vec<&str> = pairs.iter().map(|pair| pair.text.as_str()).collect();
        let scores = reranker.score(&pairs[0].query, &texts).unwrap();
        for (pair, score) in pairs.iter().zip(&scores) {
            let text = &pair.text;
            assert!((pair.score - score).abs() <= 1e-4, "{name}, {text:?}: {score} instead of {}", pair.score);
        }
    }
}

#[test]
fn mono_t5() {
    check_reranker("mono-t5");
    check_reranker("mono-t5-untied");
}

#[test]
fn cross_encoder() {
    check_reranker("cross-encoder");
}

#[test]
fn what_is_missing_or_broken_is_told() {
    let cases: [(&str, Break, &str); 12] = [
        ("stella", |f| remove(f, "tokenizer.json"), "no tokenizer.json"),
        ("stella", |f| remove(f, "modules.json"), "modules.json is missing"),
        ("stella", |f| remove(f, "2_Dense_1024/model.safetensors"), "2_Dense_1024 has none of"),
        ("stella", |f| remove(f, "1_Pooling/config.json"), "1_Pooling/config.json is missing"),
        ("gte-qwen2", |f| remove(f, "model-00002-of-00003.safetensors"), "model-00002-of-00003.safetensors"),
        ("stella", |f| cut(&f.join("model.safetensors")), "ends too early"),
        ("stella", |f| std::fs::write(f.join("model.safetensors"), "hello").unwrap(), "model.safet"),
        (
            "stella",
            |f| edit(&f.join("config.json"), "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"),
            "no tensor `model.layers.2.",
        ),
        (
            "stella",
            |f| edit(&f.join("config.json"), "\"intermediate_size\": 48", "\"intermediate_size\": 40"),
            "but config.json asks for [40, 32]",
        ),
        (
            "stella",
            |f| edit(&f.join("config.json"), "\"vocab_size\": 128", "\"vocab_size\": 20"),
            "do not belong together",
        ),
        (
            "stella",
            |f| edit(&f.join("1_Pooling/config.json"), "mode_max_tokens\": false", "mode_max_tokens\": true"),
            "is not supported",
        ),
        ("stella", |f| edit(&f.join("tokenizer_config.json"), "<|endoftext|>", "<|nothing|>"), "asks for an end token"),
    ];
    for (name, break_it, part) in cases {
        let folder = copy(name);
        break_it(folder.path());
        let opened = open_encoder(folder.path().to_str().unwrap(), &ModelOptions::default());
        let message = opened.err().unwrap().to_string();
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn what_a_reranker_lacks_is_told() {
    let cases: [(&str, Break, &str); 5] = [
        ("mono-t5", |f| edit(&f.join("tokenizer.json"), "▁true", "▁wahr"), "no token `▁true`"),
        ("mono-t5", |f| cut(&f.join("pytorch_model.bin")), "pytorch_model.bin"),
        ("mono-t5", |f| edit(&f.join("config.json"), "\"num_layers\": 2", "\"num_layers\": 3"), "cannot find tensor"),
        ("cross-encoder", |f| edit(&f.join("config.json"), "\"bert\"", "\"electra\""), "`electra` is not supported"),
        ("cross-encoder", |f| remove(f, "config.json"), "no config.json"),
    ];
    for (name, break_it, part) in cases {
        let folder = copy(name);
        break_it(folder.path());
        let message = open_reranker(folder.path().to_str().unwrap()).err().unwrap().to_string();
        assert!(message.contains(part), "{part}: {message}");
    }
}

/// A change that makes a model unusable.
type Break = fn(&Path);

fn remove(folder: &Path, file: &str) {
    std::fs::remove_file(folder.join(file)).unwrap();
}

/// Drops the last third of a file.
fn cut(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() * 2 / 3]).unwrap();
}
