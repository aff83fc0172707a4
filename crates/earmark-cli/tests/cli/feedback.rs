//! Recalls are closed, refined, explained; what was learned is steered.

use serde_json::{Value, json};

use crate::support::{Home, contents, text};

fn five(home: &Home) -> Vec<String> {
    let texts = ["dinner is at seven", "dinner is on Friday", "dinner for four", "dinner with Ben", "dinner at home"];
    let stored = home.json(&[&["remember"], &texts[..]].concat());
    stored.as_array().unwrap().iter().map(|one| text(one, "id").to_owned()).collect()
}

fn recall(home: &Home) -> (String, Vec<String>) {
    let answer = home.json(&["recall", "when is dinner?"]);
    let ids = answer["results"].as_array().unwrap().iter().map(|r| text(r, "id").to_owned()).collect();
    (text(&answer, "recall_id").to_owned(), ids)
}

/// B24: every way to cite.
#[test]
fn citations_are_read_as_they_are_written() {
    let home = Home::new();
    five(&home);
    let check = |answer: &str, used: &[usize], unknown: &[usize]| {
        let (id, shown) = recall(&home);
        assert_eq!(shown.len(), 5);
        let report =
            home.pipe(answer.as_bytes(), &["feedback", &id, "--answer", "-", "--json"]).expect(0, &[answer]).out;
        let report: Value = serde_json::from_str(&report).unwrap();
        let expected: Vec<&String> = used.iter().map(|place| &shown[place - 1]).collect();
        assert_eq!(report["useful"], json!(expected), "{answer}");
        assert_eq!(report["unknown_citations"], json!(unknown), "{answer}");
        assert_eq!(report["closed"], json!(!used.is_empty()), "{answer}");
        if !unknown.is_empty() {
            assert_eq!(report["not_useful"], json!([]), "{answer}");
        }
    };
    check("Dinner is at seven [2].", &[2], &[]);
    check("Both say so [1, 3].", &[1, 3], &[]);
    check("Both say so [1][3].", &[1, 3], &[]);
    check("Both say so [1，3]。", &[1, 3], &[]);
    check("见【4】。", &[4], &[]);
    check("All of these [1-3].", &[1, 2, 3], &[]);
    check("Twice [5], and again [5].", &[5], &[]);
    check("Use `items[2]` for that.", &[], &[]);
    check("```\nx[1] = y[3]\n```", &[], &[]);
    check("See [4](https://example.org/menu).", &[], &[]);
    check("As noted [9].", &[], &[9]);
    check("As noted [0].", &[], &[0]);
}

#[test]
fn feedback_is_given_once_and_for_what_was_shown() {
    let home = Home::new();
    let ids = five(&home);
    let (id, shown) = recall(&home);
    assert!(home.fails(3, &["feedback", "rc_nope", "--useful", "1"]).contains("rc_nope"));
    assert!(home.fails(2, &["feedback", &id]).contains("empty"));
    assert!(home.fails(2, &["feedback", &id, "--useful", "9"]).contains("place 9"));
    let other = home.remember(&["a sentence about boats"]);
    assert!(home.fails(2, &["feedback", &id, "--useful", &other]).contains(&other));
    assert!(home.fails(2, &["feedback", &id, "--useful", "1", "--not-useful", &shown[0]]).contains("not_useful"));
    assert_eq!(home.json(&["learning", "status"])["experiences"], 0, "nothing was stored by any of these");
    let first = home.json(&["feedback", &id, "--useful", &format!("1,{}", ids[4])]);
    assert_eq!((first["closed"].clone(), first["repeated"].clone()), (json!(true), json!(false)));
    let again = home.json(&["feedback", &id, "--useful", &format!("1,{}", ids[4])]);
    assert_eq!(again["repeated"], true);
    assert!(home.ok(&["feedback", &id, "--useful", &format!("1,{}", ids[4])]).contains("known already"));
    assert!(home.fails(4, &["feedback", &id, "--not-useful", "2"]).contains("closed"));
    assert!(home.fails(4, &["refine", &id, "--not-useful", "2"]).contains("closed"));
    assert_eq!(home.json(&["learning", "status"])["experiences"], 1);
}

#[test]
fn the_next_recall_closes_the_one_before() {
    let home = Home::new();
    five(&home);
    let (id, _) = recall(&home);
    home.ok(&["recall", "and with whom?", "--previous", &id, "--previous-answer", "At seven [1]."]);
    let labels = home.json(&["learning", "status"])["labels"]["next_recall"].clone();
    assert_eq!(labels["useful"], 1);
    assert_eq!(home.run(&["recall", "x", "--previous", &id]).code, 2, "what was used is missing");
    home.fails(3, &["recall", "x", "--previous", "rc_nope", "--used", "m_1"]);
}

#[test]
fn refine_shows_others() {
    let home = Home::new();
    five(&home);
    home.ok(&["remember", "dinner in the garden", "dinner by candle light"]);
    let (id, first) = recall(&home);
    let refined = home.json(&["refine", &id, "--not-useful", "1,2,3,4,5"]);
    let second: Vec<&str> = refined["results"].as_array().unwrap().iter().map(|r| text(r, "id")).collect();
    assert_eq!(refined["recall_id"], json!(id));
    let new = |id: &&str| !first.iter().any(|f| f == id);
    assert!(second.len() == 5 && second[..2].iter().all(new), "the two that were not shown come first: {second:?}");
    let explained = home.json(&["explain", &id]);
    assert_eq!(explained["rounds"].as_array().unwrap().len(), 2);
    assert!(home.ok(&["explain", &id]).contains("not useful"));
    home.fails(3, &["explain", "rc_nope"]);
}

/// B07: what was forgotten can be remembered again, and nothing of it stays.
#[test]
fn forgotten_means_gone() {
    let home = Home::new();
    let gate = "The gate code is 4471.";
    let first = home.remember(&[gate]);
    let id = text(&home.json(&["recall", "gate code"]), "recall_id").to_owned();
    home.ok(&["feedback", &id, "--useful", &first]);
    assert_eq!(home.json(&["forget", &first])["forgotten"], 1);
    home.fails(3, &["forget", &first]);
    let again = home.json(&["remember", gate]);
    assert_eq!(again[0]["created"], true);
    let answer = home.json(&["recall", "gate code"]);
    assert_eq!(contents(&answer), [gate]);
    assert_eq!(answer["results"][0]["id"], again[0]["id"]);
    let explained = home.json(&["explain", text(&answer, "recall_id")]).to_string();
    assert!(!explained.contains(&first), "{explained}");
    assert_eq!(home.json(&["explain", text(&answer, "recall_id")])["neighbours"], json!([]));
}

#[test]
fn forgetting_many_wants_a_yes() {
    let home = Home::new();
    home.ok(&["remember", "one", "two", "--user", "u1"]);
    home.ok(&["remember", "three", "--user", "u2"]);
    assert!(home.fails(2, &["forget", "--user", "u1"]).contains("2 memories"));
    assert!(home.fails(2, &["forget", "--yes"]).contains("restricts nothing"));
    home.fails(2, &["forget", "m_1", "--user", "u1"]);
    assert_eq!(home.exported().len(), 3);
    assert_eq!(home.json(&["forget", "--user", "u1", "--yes"])["forgotten"], 2);
    assert_eq!(home.json(&["forget", "--user", "u1", "--yes"])["forgotten"], 0);
    assert_eq!(home.exported().len(), 1);
}

/// B25: praise lifts, blame lowers, and blame alone counts.
#[test]
fn praise_lifts_and_blame_lowers() {
    let home = Home::new();
    let places =
        ["north", "south", "east", "west", "island", "town", "castle", "market", "museum", "garden", "school", "mill"];
    let lines: Vec<Value> =
        places.iter().map(|place| json!({"content": format!("the ferry to the {place} leaves at noon")})).collect();
    let file = home.path("lines.jsonl");
    std::fs::write(&file, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let file = file.to_str().unwrap();
    // The encoder counts words: another order of the same words is the same question to it.
    let words = ["which", "ferry", "leaves", "at", "noon", "today"];
    let ask = |namespace: &str, i: usize| {
        let question: Vec<&str> = (0..words.len()).map(|w| words[(w + i) % words.len()]).collect();
        home.json(&["-n", namespace, "recall", &question.join(" "), "-k", "12"])
    };
    let target = |answer: &Value, base_rank: u64| {
        let found = answer["results"].as_array().unwrap().iter().find(|r| r["base_rank"] == base_rank);
        found.map(|r| text(r, "content").to_owned())
    };
    let score = |answer: &Value, content: &str| {
        let found = answer["results"].as_array().unwrap().iter().find(|r| r["content"] == content);
        found.map(|r| r["scores"]["learned"].as_f64().unwrap())
    };
    for namespace in ["pos", "neg", "none"] {
        home.ok(&["-n", namespace, "import", "jsonl", file]);
    }
    let fresh = ask("none", 99);
    let (third, best) = (target(&fresh, 3).unwrap(), target(&fresh, 1).unwrap());
    for i in 0..6 {
        for (namespace, flag, content) in [("pos", "--useful", &third), ("neg", "--not-useful", &best)] {
            let answer = ask(namespace, i);
            let results = answer["results"].as_array().unwrap();
            let result = results.iter().find(|r| r["content"] == json!(content)).unwrap();
            home.ok(&["-n", namespace, "feedback", text(&answer, "recall_id"), flag, text(result, "id")]);
        }
    }
    let status = |namespace: &str| home.json(&["-n", namespace, "learning", "status"]);
    assert_eq!(status("pos")["labels"], json!({"explicit": {"useful": 6, "not_useful": 0}}));
    assert_eq!(status("neg")["labels"], json!({"explicit": {"useful": 0, "not_useful": 6}}));
    assert_eq!((status("none")["labels"].clone(), status("none")["version"].clone()), (json!({}), json!(0)));
    let none = ask("none", 100);
    assert!(score(&ask("pos", 100), &third) > score(&none, &third));
    assert!(score(&ask("neg", 100), &best) < score(&none, &best));
    for namespace in ["pos", "neg"] {
        home.ok(&["-n", namespace, "learning", "reset"]);
        let scores = |answer: &Value| -> Vec<(Value, Value)> {
            answer["results"].as_array().unwrap().iter().map(|r| (r["content"].clone(), r["score"].clone())).collect()
        };
        assert_eq!(scores(&ask(namespace, 100)), scores(&none), "{namespace} after a reset");
    }
}

#[test]
fn learning_is_steered() {
    let home = Home::new();
    five(&home);
    let close = || {
        let (id, _) = recall(&home);
        home.json(&["feedback", &id, "--useful", "3"])["learning_version"].as_i64().unwrap()
    };
    let first = close();
    let second = close();
    assert!(0 < first && first < second);
    assert!(home.ok(&["learning", "status"]).contains(&format!("Learned version {second} ranks")));
    assert_eq!(home.json(&["learning", "rollback", &first.to_string()])["learning_version"], first);
    assert_eq!(close(), first, "frozen after a rollback");
    assert!(home.fails(3, &["learning", "rollback", "999"]).contains("999"));
    let unfrozen = home.json(&["learning", "unfreeze"])["learning_version"].as_i64().unwrap();
    assert!(unfrozen > second);
    assert_eq!(home.json(&["learning", "freeze"])["learning_version"], unfrozen);
    assert!(home.ok(&["learning", "status"]).contains("frozen"));
    assert_eq!(home.json(&["learning", "reset"])["learning_version"], 0);
    assert!(home.json(&["learning", "train"])["learning_version"].as_i64().unwrap() > 0);
    assert_eq!(home.json(&["learning", "status"])["experiences"], 3);
}
