//! Who turns text into vectors: endpoints of every make, another model, local weights.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    stub::{Stub, bag, colour},
    support::{Home, text},
};

const FRUIT: [&str; 3] = ["red apple", "green pear", "blue plum"];

/// B11: a base address with and without version.
#[test]
fn base_addresses_meet_their_endpoint() {
    for (suffix, expected) in [
        ("", "/v1/embeddings"),
        ("/", "/v1/embeddings"),
        ("/v1", "/v1/embeddings"),
        ("/v1/", "/v1/embeddings"),
        ("/api/paas/v4", "/api/paas/v4/embeddings"),
        ("/v1/embeddings", "/v1/embeddings"),
    ] {
        let mut home = Home::with(Stub::of(colour));
        home.set("EARMARK_ENCODER__URL", &format!("{}{suffix}", home.stub.base));
        home.ok(&["remember", "red apple"]);
        assert!(!home.stub.paths().is_empty());
        assert!(home.stub.paths().iter().all(|path| path == expected), "{suffix}: {:?}", home.stub.paths());
    }
}

#[test]
fn an_endpoint_that_is_not_there_is_named() {
    let home = Home::with(Stub::serve(|_| ("404 Not Found", json!({"error": "no such model"}))));
    let error = home.fails(5, &["remember", "red apple"]);
    assert!(error.contains(&format!("{}/v1/embeddings", home.stub.base)) && error.contains("404"), "{error}");
    assert!(home.exported().is_empty());
    let error = home.fails(2, &["--encoder-url", "localhost:80", "remember", "x"]);
    assert!(error.contains("encoder.url"), "{error}");
}

/// B13: vectors out of order, without index, as base64.
#[test]
fn vectors_meet_their_texts() {
    fn reversed(texts: &[String]) -> Value {
        texts.iter().enumerate().rev().map(|(i, t)| json!({"index": i, "embedding": colour(t)})).collect()
    }
    fn without_index(texts: &[String]) -> Value {
        texts.iter().map(|t| json!({"embedding": colour(t)})).collect()
    }
    fn base64(texts: &[String]) -> Value {
        // One in eight places: four bytes a number, three bytes four characters.
        let encoded = |text: &String| {
            let bytes: Vec<u8> = colour(text).into_iter().flat_map(f32::to_le_bytes).collect();
            to_base64(&bytes)
        };
        texts.iter().map(|t| json!({"embedding": encoded(t)})).collect()
    }
    for (name, data) in
        [("reversed", reversed as fn(&[String]) -> Value), ("without index", without_index), ("base64", base64)]
    {
        let home = Home::with(Stub::serve(move |texts| ("200 OK", json!({"data": data(texts)}))));
        home.ok(&[&["remember"], &FRUIT[..]].concat());
        for fruit in FRUIT {
            let best = home.json(&["recall", fruit])["results"][0].clone();
            assert_eq!(text(&best, "content"), fruit, "{name}");
            assert!((best["scores"]["dense"].as_f64().unwrap() - 1.0).abs() < 1e-4, "{name}: {best}");
        }
    }
}

fn to_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let n = chunk.iter().chain([0, 0].iter()).take(3).fold(0u32, |n, &b| n << 8 | u32::from(b));
        let digit = |i: usize| if i <= chunk.len() { ALPHABET[(n >> (18 - 6 * i)) as usize & 63] as char } else { '=' };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[test]
fn vectors_that_cannot_be_right_store_nothing() {
    fn same_index(texts: &[String]) -> Value {
        texts.iter().enumerate().map(|(i, t)| json!({"index": i / 2, "embedding": colour(t)})).collect()
    }
    fn one_short(texts: &[String]) -> Value {
        texts.iter().skip(usize::from(texts.len() > 1)).map(|t| json!({"embedding": colour(t)})).collect()
    }
    for data in [same_index as fn(&[String]) -> Value, one_short] {
        let home = Home::with(Stub::serve(move |texts| ("200 OK", json!({"data": data(texts)}))));
        home.fails(5, &[&["remember"], &FRUIT[..]].concat());
        assert!(home.exported().is_empty());
    }
}

#[test]
fn another_model_is_refused_until_reembed() {
    let mut home = Home::new();
    home.ok(&["remember", "red apple", "green pear"]);
    let id = text(&home.json(&["recall", "apple"]), "recall_id").to_owned();
    home.ok(&["feedback", &id, "--useful", "1"]);
    let other = Stub::of(colour);
    home.set("EARMARK_ENCODER__URL", &other.base);
    home.set("EARMARK_ENCODER__MODEL", "colours");
    for args in [&["remember", "blue plum"][..], &["recall", "apple"]] {
        let error = home.fails(4, args);
        assert!(error.contains("`stub (64 dimensions)`") && error.contains("reembed"), "{error}");
    }
    let report = home.json(&["reembed"]);
    assert_eq!((report["encoder"].clone(), report["memories"].clone()), (json!("colours"), json!(2)));
    assert!(report["queries"].as_u64().unwrap() >= 1);
    assert_eq!(home.recalled(&["green"])[0], "green pear");
    assert_eq!(home.json(&["learning", "status"])["experiences"], 1, "what was learned from stays");
    assert!(home.ok(&["reembed"]).contains("nothing to do"));
    home.ok(&["remember", "blue plum"]);
    assert_eq!(home.recalled(&["blue"])[0], "blue plum");
}

/// The same name with another dimension is another model too.
#[test]
fn another_dimension_is_refused() {
    let mut home = Home::new();
    home.ok(&["remember", "red apple"]);
    home.set("EARMARK_ENCODER__URL", &Stub::of(colour).base);
    let error = home.fails(4, &["recall", "apple"]);
    assert!(error.contains("64") && error.contains('8'), "{error}");
}

/// B12: one by one equals all at once. With weights where there are some, else with the stub.
#[test]
fn one_by_one_equals_all_at_once() {
    let mut home = Home::with(Stub::of(bag));
    if let Some(folder) = static_model() {
        home.set("EARMARK_ENCODER__URL", "");
        home.set("EARMARK_ENCODER__MODEL", &folder);
    } else {
        eprintln!("no weights in EARMARK_MODELS/wordllama-256: checked with the stub only");
    }
    let tins: Vec<String> = [5, 40, 200, 400].iter().map(|n| "tin ".repeat(*n)).collect();
    let mut texts = vec!["ok", "The parcel arrived."];
    texts.extend(tins.iter().map(String::as_str));
    texts.extend(["Grandmother's clock stopped at six.", "x", "!"]);
    for content in &texts {
        home.ok(&["-n", "one", "remember", content]);
    }
    home.ok(&[&["-n", "all", "remember"], &texts[..]].concat());
    let reverse: Vec<&str> = texts.iter().rev().copied().collect();
    home.ok(&[&["-n", "rev", "remember"], &reverse[..]].concat());
    for query in ["parcel", "clock", "tin tin tin"] {
        let scores = |namespace: &str| -> Vec<(String, f64)> {
            let answer = home.json(&["-n", namespace, "recall", query, "-k", "9"]);
            let of = |r: &Value| (text(r, "content").to_owned(), r["scores"]["dense"].as_f64().unwrap());
            let mut all: Vec<(String, f64)> = answer["results"].as_array().unwrap().iter().map(of).collect();
            all.sort_by(|a, b| a.0.cmp(&b.0));
            all
        };
        let one = scores("one");
        assert_eq!(one.len(), 9);
        for namespace in ["all", "rev"] {
            for (a, b) in one.iter().zip(scores(namespace)) {
                assert!(a.0 == b.0 && (a.1 - b.1).abs() <= 1e-4, "{query} in {namespace}: {a:?} {b:?}");
            }
        }
    }
}

#[test]
fn a_model_that_is_not_there_says_how_to_get_it() {
    let mut home = Home::new();
    home.set("EARMARK_ENCODER__URL", "");
    home.set("EARMARK_ENCODER__MODEL", "./no-such-model");
    let error = home.fails(5, &["remember", "red apple"]);
    assert!(error.contains("no-such-model") && error.contains("tokenizer.json"), "{error}");
    assert!(home.exported().is_empty());
    let run = home.run(&["doctor"]).expect(6, &["doctor"]);
    assert!(run.out.contains("WRONG  encoder ./no-such-model"), "{}", run.out);
}

/// The folder of the small static encoder, if it was fetched.
fn static_model() -> Option<String> {
    let root = std::env::var("EARMARK_MODELS").ok()?;
    let folder = Path::new(&root).join("wordllama-256");
    folder.is_dir().then(|| folder.to_str().map(str::to_owned)).flatten()
}
