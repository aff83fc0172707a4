//! What is remembered is kept as it was said.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};

use earmark::{Namespace, NewMemory, RecallRequest, Scope, messages};
use serde_json::{Value, json};

use super::{Home, ask, first, store};

#[test]
fn blank_texts_are_refused_and_odd_ones_harmless() {
    let namespace = Home::new().open_default();
    for blank in ["", "   ", "\n\t\r\n"] {
        let error = namespace.remember(&[NewMemory::new(blank)]).unwrap_err();
        assert!(error.to_string().contains("blank"), "{error}");
    }
    let texts = ["ok", "  ", "The spare key hangs behind the boiler."].map(NewMemory::new);
    assert!(namespace.remember(&texts).unwrap_err().to_string().contains("items[1]"));
    assert_eq!(namespace.count(&Scope::default()).unwrap(), 0, "all or nothing");
    store(&namespace, &["\u{2026}", "\u{1fae5}", "The spare key hangs behind the boiler."]);
    let recall = ask(&namespace, "where is the spare key?", 10);
    assert!(first(&recall).contains("boiler"));
    for result in &recall.results {
        let scores = &result.scores;
        assert!(
            [result.score, scores.dense, scores.lexical, scores.base, scores.learned].iter().all(|x| x.is_finite())
        );
    }
    assert!(namespace.recall(&RecallRequest::new("  ")).is_err());
}

#[test]
fn long_texts_are_kept_whole_and_found_by_their_tail() {
    let namespace = Home::new().open_default();
    let words = ["alfa", "bravo", "carol", "delta"];
    let text = |k: usize| {
        format!("{}{}{} endmarker{}", "a".repeat(k), "\u{200c}".repeat(7000), "\u{1f9ed}".repeat(1500), words[k])
    };
    let ids: Vec<String> = (0..4).map(|k| store(&namespace, &[&text(k)]).remove(0)).collect();
    for (k, id) in ids.iter().enumerate() {
        assert_eq!(namespace.get(id).unwrap().content, text(k));
    }
    assert_eq!(ask(&namespace, "endmarkerbravo", 4).results[0].memory.id, ids[1]);
    let long = format!("b{} compass", "\u{2007}".repeat(3000));
    assert!(namespace.recall(&RecallRequest::new(long)).is_ok());
    let huge = "word ".repeat(1_100_000);
    store(&namespace, &[&huge]);
    assert_eq!(namespace.list(&Scope::default(), 10).unwrap().last().unwrap().content, huge);
}

#[test]
fn the_same_words_at_the_same_moment_are_one_memory() {
    let home = Home::new();
    let groups = [("ana", "s1", 20), ("ben", "s1", 20), ("ana", "s2", 5)];
    let writers: Vec<(&str, &str)> = groups.iter().flat_map(|(a, s, n)| std::iter::repeat_n((*a, *s), *n)).collect();
    let namespaces: Vec<Arc<Namespace>> = (0..3).map(|_| home.namespace()).collect();
    let start = Barrier::new(writers.len());
    let ids: Vec<((&str, &str), String)> = std::thread::scope(|scope| {
        let spawn = |(i, who): (usize, &(&'static str, &'static str))| {
            let (namespace, start, who) = (namespaces[i % 3].clone(), &start, *who);
            scope.spawn(move || {
                let memory = NewMemory {
                    author: Some(who.0.to_owned()),
                    session_id: Some(who.1.to_owned()),
                    ..NewMemory::new("Yes, Friday works.")
                };
                start.wait();
                (who, namespace.remember(&[memory]).unwrap().remove(0).id)
            })
        };
        let handles: Vec<_> = writers.iter().enumerate().map(spawn).collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    for (author, session, _) in groups {
        let group: BTreeSet<&String> =
            ids.iter().filter(|(who, _)| *who == (author, session)).map(|(_, id)| id).collect();
        assert_eq!(group.len(), 1, "{author} {session}");
    }
    assert_eq!(home.namespace().count(&Scope::default()).unwrap(), 3);
}

#[test]
fn messages_keep_their_instants() {
    let namespace = Home::new().open_default();
    let at = |k: usize, t: Value| json!([{"role": "user", "content": format!("tick {k}"), "timestamp": t}]);
    let good = [json!(1798761600), json!(1798761600000i64), json!("1798761600"), json!("2027-01-01T00:00:00Z")];
    for (k, t) in good.iter().enumerate() {
        namespace.remember(&messages(&at(k, t.clone())).unwrap()).unwrap();
    }
    for bad in [json!(99999999999999999i64), json!("soon")] {
        assert!(messages(&at(9, bad)).unwrap_err().to_string().contains("timestamp"));
    }
    let scope = Scope {
        after: "2026-12-31T00:00:00Z".parse().ok(),
        before: "2027-01-02T00:00:00Z".parse().ok(),
        ..Default::default()
    };
    assert_eq!(namespace.count(&scope).unwrap(), good.len());
}

#[test]
fn imports_report_what_they_refuse_and_repeat_harmlessly() {
    let namespace = Home::new().open_default();
    let mut bytes = vec![0xEF, 0xBB, 0xBF];
    bytes.extend(b"{\"content\":\"first apple\"}\r\n\r\n{\"content\":\"second pear\"}\n{\"content\":\n{\"kind\":\"x\"}\n{\"content\":\"third plum\"}");
    let report = namespace.import(&bytes, &mut |_, _| {}).unwrap();
    assert_eq!((report.created, report.refused.len()), (3, 2));
    let again = namespace.import(&bytes, &mut |_, _| {}).unwrap();
    assert_eq!((again.created, again.existing), (0, 3));
    let mut exported = Vec::new();
    assert_eq!(namespace.export(&mut exported).unwrap(), 3);
    let other = Home::new().open_default();
    assert_eq!(other.import(&exported, &mut |_, _| {}).unwrap().created, 3);
}
