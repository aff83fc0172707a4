//! Texts of every kind, good and bad.

use serde_json::json;

use crate::support::{Home, text};

/// B01: blank texts are refused with the reason; the odd but visible ones are kept.
#[test]
fn blank_texts_are_refused() {
    let home = Home::new();
    for blank in ["", "   ", "\n\t\r\n", "\u{200b}\u{200b}"] {
        let error = home.fails(2, &["remember", blank]);
        assert!(error.contains("blank"), "{error}");
    }
    let error = home.fails(2, &["remember", "fine", "  "]);
    assert!(error.contains("items[1].content"), "{error}");
    assert!(home.exported().is_empty());
    home.ok(&["remember", "\u{2026}", "\u{1fae5}", "The spare key hangs behind the boiler."]);
    let recall = home.json(&["recall", "where is the spare key?", "-k", "10"]);
    assert!(text(&recall["results"][0], "content").contains("boiler"));
    for result in recall["results"].as_array().unwrap() {
        let numbers = result["scores"].as_object().unwrap().values().chain([&result["score"]]);
        assert!(numbers.map(|x| x.as_f64()).all(|x| x.is_some_and(f64::is_finite)), "{result}");
    }
    for blank in ["", "   "] {
        assert!(home.fails(2, &["recall", blank]).contains("blank"));
    }
}

/// B02: no cut falls inside a character, and the tail of a long text is found.
#[test]
fn long_texts_are_kept_whole_and_shown_cut() {
    let home = Home::new();
    let long = |k: usize, word: &str| {
        format!("{}{}{} endmarker{word}", "a".repeat(k), "\u{200c}".repeat(7000), "\u{1f9ed}".repeat(1500))
    };
    let words = ["alfa", "bravo", "carol", "delta"];
    for (k, word) in words.iter().enumerate() {
        home.pipe(long(k, word).as_bytes(), &["remember", "-"]).expect(0, &["remember -"]);
    }
    let stored: Vec<String> = home.exported().iter().map(|m| text(m, "content").to_owned()).collect();
    assert_eq!(stored, words.iter().enumerate().map(|(k, word)| long(k, word)).collect::<Vec<_>>());
    assert_eq!(home.recalled(&["endmarkerbravo"])[0], long(1, "bravo"));
    for columns in ["40", "120"] {
        let mut narrow = home.command(&["recall", "endmarkercarol"]);
        let output = narrow.env("COLUMNS", columns).output().unwrap();
        assert!(output.status.success() && output.stdout.len() < 50_000);
    }
    for k in 0..4 {
        let query = format!("{}{} compass", "b".repeat(k), "\u{2007}".repeat(3000));
        home.pipe(query.as_bytes(), &["recall", "-"]).expect(0, &["recall -"]);
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let home = Home::new();
    for args in [&["remember", "-"][..], &["remember"], &["recall", "-"], &["remember", "--jsonl", "-"]] {
        let run = home.pipe(b"good\xff\xfe bad", args).expect(2, args);
        assert!(run.err.contains("UTF-8"), "{}", run.err);
    }
    assert!(home.exported().is_empty());
    home.still_works();
}

#[test]
fn hostile_and_foreign_texts_come_back_as_they_were() {
    let home = Home::new();
    let texts = [
        "before\0after".to_owned(),
        "שלום עולם \u{202e}abc\u{202c} مرحبا".to_owned(),
        "family 👨‍👩‍👧‍👦 and flag 🏴󠁧󠁢󠁳󠁣󠁴󠁿".to_owned(),
        "two\nlines\tand a tab".to_owned(),
        "Cafe\u{301} and Café".to_owned(),
    ];
    for content in &texts {
        home.pipe(content.as_bytes(), &["remember", "-"]).expect(0, &["remember -"]);
    }
    let stored: Vec<String> = home.exported().iter().map(|m| text(m, "content").to_owned()).collect();
    assert_eq!(stored, texts);
    assert!(home.recalled(&["before after", "-k", "5"]).contains(&texts[0]));
    home.still_works();
}

#[test]
fn five_megabytes_are_one_memory() {
    let home = Home::new();
    let long = format!("{} lastword", "many words in a row ".repeat(5 << 20).split_at(5 << 20).0);
    home.pipe(long.as_bytes(), &["remember"]).expect(0, &["remember"]);
    assert_eq!(home.exported()[0]["content"], json!(long));
    let shown = home.ok(&["recall", "lastword"]);
    assert!(shown.len() < 2000, "a table shows the gist, not {} bytes", shown.len());
    let error = home.pipe(&vec![b'a'; 17 << 20], &["remember", "-"]).expect(2, &["17 MB"]).err;
    assert!(error.contains("the limit is"), "{error}");
    home.still_works();
}

#[test]
fn messages_keep_speaker_and_time() {
    let home = Home::new();
    let messages = json!([
        {"role": "user", "name": "Ana", "content": "I moved the bikes.", "timestamp": 1798761600},
        {"role": "assistant", "content": null, "tool_calls": []},
        {"role": "user", "content": [{"type": "text", "text": "To the"}, {"type": "text", "text": "cellar."}]},
    ]);
    let args = ["remember", "--messages", "-", "--session", "s1", "--tag", "home"];
    home.pipe(messages.to_string().as_bytes(), &args).expect(0, &args);
    let stored = home.exported();
    assert_eq!(stored.len(), 2);
    assert_eq!((text(&stored[0], "author"), text(&stored[0], "occurred_at")), ("Ana", "2027-01-01T00:00:00Z"));
    assert_eq!((text(&stored[1], "author"), text(&stored[1], "content")), ("user", "To the\ncellar."));
    assert!(stored.iter().all(|m| m["session_id"] == "s1" && m["tags"] == json!(["home"])));
    for bad in ["{}", "[{\"role\":\"user\",\"content\":\"x\",\"timestamp\":\"soon\"}]", "not json"] {
        home.pipe(bad.as_bytes(), &["remember", "--messages", "-"]).expect(2, &[bad]);
    }
    assert_eq!(home.exported().len(), 2);
}

#[test]
fn what_cannot_be_read_is_named() {
    let home = Home::new();
    for (args, expected) in [
        (&["remember", "x", "--metadata", "[1]"][..], "metadata"),
        (&["remember", "x", "--at", "soon"], "at"),
        (&["remember", "--jsonl", "no-such-file"], "no-such-file"),
        (&["recall", "x", "-k", "0"], "top_k"),
        (&["recall", "x", "-k", "1000000000"], "top_k"),
        (&["recall", "x", "--after", "soon"], "after"),
        (&["feedback", "rc_1"], "rc_1"),
        (&["-n", "", "recall", "x"], "namespace"),
        (&["--recipe", "best", "recall", "x"], "recipe"),
    ] {
        let run = home.run(args);
        assert!([2, 3, 6].contains(&run.code) && run.err.contains(expected), "{args:?}: {run:?}");
    }
    assert_eq!(home.run(&["recall", "x", "-k", "ten"]).code, 2);
    assert_eq!(home.run(&["remembre", "x"]).code, 2);
    home.still_works();
}
