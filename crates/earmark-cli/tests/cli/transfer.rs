//! Files of this and of other programs.

use serde_json::{Value, json};

use crate::support::{Home, text};

fn import(home: &Home, format: &str, bytes: &[u8], code: i32) -> Value {
    let file = home.path("import.file");
    std::fs::write(&file, bytes).unwrap();
    let args = ["import", format, file.to_str().unwrap(), "--json"];
    serde_json::from_str(&home.run(&args).expect(code, &args).out).unwrap()
}

/// B20: a byte order mark and bad lines.
#[test]
fn good_lines_are_imported_and_bad_ones_named() {
    let home = Home::new();
    let mut bytes = vec![0xEF, 0xBB, 0xBF];
    bytes.extend(b"{\"content\":\"first apple\"}\r\n\r\n{\"content\":\"second pear\"}\n{\"content\":\n");
    bytes.extend(b"{\"kind\":\"entity\"}\n{\"content\":\"third plum\"}");
    let report = import(&home, "jsonl", &bytes, 2);
    assert_eq!((report["created"].clone(), report["existing"].clone()), (json!(3), json!(0)));
    let lines: Vec<Value> = report["refused"].as_array().unwrap().iter().map(|r| r["line"].clone()).collect();
    assert_eq!(lines, [4, 5]);
    let again = import(&home, "jsonl", &bytes, 2);
    assert_eq!((again["created"].clone(), again["existing"].clone()), (json!(0), json!(3)));
    let stored: Vec<String> = home.exported().iter().map(|m| text(m, "content").to_owned()).collect();
    assert_eq!(stored, ["first apple", "second pear", "third plum"]);
    let file = home.path("import.file");
    let shown = home.run(&["import", "jsonl", file.to_str().unwrap()]).expect(2, &["import"]);
    assert!(shown.out.contains("line 4: ") && shown.out.contains("line 5: "), "{}", shown.out);
    let utf16: Vec<u8> = "\u{feff}{\"content\":\"x\"}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(&file, utf16).unwrap();
    assert!(home.fails(2, &["import", "jsonl", file.to_str().unwrap()]).contains("UTF-16"));
}

#[test]
fn what_is_exported_can_be_imported() {
    let home = Home::new();
    let line = json!({"content": "Höhe: 3 m\n✓", "author": "Ana", "kind": "semantic", "metadata": {"a": [1, {"b": null}]},
        "tags": ["t"], "user_id": "u", "agent_id": "g", "session_id": "s", "occurred_at": "2027-02-14T18:45:00.5Z"});
    home.remember_lines(&[line, json!({"content": "plain"})]);
    assert!(home.ok(&["export", "out.jsonl"]).contains("2 memories"));
    home.ok(&["-n", "copy", "import", "jsonl", "out.jsonl"]);
    let without_ids = |mut memory: Value| {
        let fields = memory.as_object_mut().unwrap();
        fields.retain(|key, _| key != "id" && key != "created_at");
        memory
    };
    let copy = home.ok(&["-n", "copy", "export"]);
    let copy: Vec<Value> = copy.lines().map(|line| without_ids(serde_json::from_str(line).unwrap())).collect();
    assert_eq!(copy, home.exported().into_iter().map(without_ids).collect::<Vec<_>>());
    home.fails(6, &["export", "no/such/folder/out.jsonl"]);
    home.ok(&["export", "/dev/null"]);
}

#[test]
fn locomo_longmemeval_and_mem0_are_read() {
    let home = Home::new();
    let locomo = json!([{"sample_id": "conv-1", "qa": [], "conversation": {"speaker_a": "Ana", "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ana", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a dog on a beach"}]}}]);
    assert_eq!(import(&home, "locomo", locomo.to_string().as_bytes(), 0)["created"], 1);
    let sessions = json!([[{"role": "user", "content": "I adopted a parrot.", "has_answer": true}, {"role": "assistant", "content": ""}]]);
    let longmemeval = json!([{"question_id": "q1", "haystack_session_ids": ["s9"], "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": sessions}]);
    assert_eq!(import(&home, "longmemeval", longmemeval.to_string().as_bytes(), 0)["created"], 1);
    let mem0 = json!({"results": [{"id": "1", "memory": "Likes green tea", "user_id": "u1", "created_at": "2025-01-02T03:04:05-08:00"}]});
    assert_eq!(import(&home, "mem0", mem0.to_string().as_bytes(), 0)["created"], 1);
    let stored = home.exported();
    let by = |part: &str| stored.iter().find(|m| text(m, "content").contains(part)).unwrap();
    assert_eq!((text(by("dog"), "author"), text(by("dog"), "occurred_at")), ("Ana", "2023-05-08T13:56:00Z"));
    assert_eq!((text(by("parrot"), "session_id"), text(by("parrot"), "author")), ("s9", "user"));
    assert_eq!((text(by("tea"), "user_id"), text(by("tea"), "kind")), ("u1", "semantic"));
    for format in ["locomo", "longmemeval", "mem0"] {
        let file = home.path("import.file");
        for bad in [&b"[{}]"[..], b"nonsense", b"{\"a\": 1}", b"\xff"] {
            std::fs::write(&file, bad).unwrap();
            home.fails(2, &["import", format, file.to_str().unwrap()]);
        }
    }
    assert_eq!(home.exported().len(), 3);
}
