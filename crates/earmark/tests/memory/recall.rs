//! What is asked for is found, and only as much as was asked for.

use earmark::{Explore, Feedback, Namespace, Params, RecallRequest, Recipe};
use rayon::prelude::*;

use super::{Home, UNRELATED, ask, contents, first, store};

#[test]
fn ordinary_words_are_not_query_syntax() {
    let namespace = Home::new().open_default();
    let s1 = "Ticket QX-58213 was closed on 2027-04-17 by Ines.";
    let s2 = "Don't restart the C++ build behind /api/forge (v3.2) before 18:00.";
    let s3 = "Link speed is 40 GB/s at 99.5% load, says status: green.";
    let others: Vec<String> = UNRELATED.iter().map(|s| (*s).to_owned()).collect();
    store(&namespace, &others.iter().map(String::as_str).collect::<Vec<_>>());
    store(&namespace, &[s1, s2, s3]);
    let rows = [
        ("QX-58213", s1),
        ("2027-04-17", s1),
        ("\"closed on", s1),
        ("^ticket", s1),
        ("content:ticket", s1),
        ("{ticket} -ines", s1),
        ("ticket \"\" ines", s1),
        ("don't restart", s2),
        ("C++ build", s2),
        ("/api/forge", s2),
        ("(v3.2)", s2),
        ("18:00", s2),
        ("forge OR", s2),
        ("NEAR(forge build", s2),
        ("forge*", s2),
        ("status: green", s3),
        ("40 GB/s", s3),
        ("99.5%", s3),
        ("NOT green", s3),
    ];
    for (query, expected) in rows {
        let recall = ask(&namespace, query, 5);
        assert_eq!(first(&recall), expected, "{query}");
        assert!(recall.results[0].scores.lexical > 0.0, "{query}");
    }
}

#[test]
fn short_words_of_every_script_are_found() {
    let namespace = Home::new().open_default();
    let chinese = ["今天的天气非常好", "他们在公园里散步", "这本书我已经看完了", "晚饭吃的是饺子", "地铁站离家很近"];
    store(&namespace, &UNRELATED[..10]);
    store(&namespace, &chinese);
    let (c1, c2, c3, c4) =
        ("我们决定周五上线新版本", "昨天重启kafka集群三次", "来週の会議は水曜日です", "서울역에서 만나기로 했다");
    store(&namespace, &[c1, c2, c3, c4]);
    for (query, expected) in [("上线", c1), ("周五", c1), ("kafka", c2), ("会議", c3), ("水曜", c3), ("서울역", c4)]
    {
        let recall = ask(&namespace, query, 3);
        let found = recall.results.iter().find(|r| r.memory.content == expected);
        assert!(found.is_some_and(|r| r.scores.lexical > 0.0), "{query}: {:?}", contents(&recall));
    }
}

#[test]
fn many_recalls_and_feedbacks_at_once_from_threads_and_from_a_pool() {
    for home in [Home::new(), Home::paper()] {
        let namespace = home.namespace();
        store(&namespace, &UNRELATED);
        let check = |i: usize| {
            let recall = ask(&namespace, UNRELATED[i % UNRELATED.len()], 5);
            let useful = Feedback { useful: vec![recall.results[0].memory.id.clone()], ..Default::default() };
            assert!(namespace.feedback(&recall.recall_id, &useful).unwrap().closed);
        };
        std::thread::scope(|scope| {
            let check = &check;
            (0..8).for_each(|i| drop(scope.spawn(move || (i..40).step_by(8).for_each(check))));
            (0..40).into_par_iter().for_each(check);
        });
        assert_eq!(namespace.learning().unwrap().experiences, 80);
    }
}

#[test]
fn vectors_do_not_depend_on_what_is_written_beside_them() {
    let home = Home::new();
    let earmark = home.open();
    let texts = ["ok", "The parcel arrived.", "tin tin tin tin tin", "Grandmother's clock stopped at six.", "x", "!"];
    let one = earmark.namespace("one").unwrap();
    texts.iter().for_each(|text| drop(store(&one, &[text])));
    let all = earmark.namespace("all").unwrap();
    store(&all, &texts);
    let reversed = earmark.namespace("rev").unwrap();
    store(&reversed, &texts.iter().rev().copied().collect::<Vec<_>>());
    for query in ["parcel", "clock", "tin tin tin"] {
        let scores = |namespace: &Namespace| -> Vec<(String, f32)> {
            let mut found: Vec<_> =
                ask(namespace, query, 6).results.into_iter().map(|r| (r.memory.content, r.scores.dense)).collect();
            found.sort_by(|a, b| a.0.cmp(&b.0));
            found
        };
        let (one, all, reversed) = (scores(&one), scores(&all), scores(&reversed));
        for ((a, b), c) in one.iter().zip(&all).zip(&reversed) {
            assert!(a.0 == b.0 && b.0 == c.0 && (a.1 - b.1).abs() < 1e-4 && (a.1 - c.1).abs() < 1e-4, "{query}");
        }
    }
    let before = ask(&all, "parcel clock", 6);
    all.reembed(&mut |_, _| {}).unwrap();
    let after = ask(&all, "parcel clock", 6);
    assert_eq!(before.results, after.results, "bit for bit");
}

#[test]
fn sizes_out_of_range_are_refused() {
    let namespace = Home::new().open_default();
    store(&namespace, &["a", "b"]);
    for top_k in [0, 101, 1_000_000_000] {
        let request = RecallRequest { top_k: Some(top_k), ..RecallRequest::new("a") };
        assert!(namespace.recall(&request).unwrap_err().to_string().contains("top_k"));
    }
    let explore = RecallRequest { explore: Explore::On, ..RecallRequest::new("a") };
    assert!(namespace.recall(&explore).unwrap_err().to_string().contains("critic"));
}

#[test]
fn max_tokens_cuts_the_answer() {
    let namespace = Home::new().open_default();
    store(&namespace, &UNRELATED);
    let request = RecallRequest { max_tokens: Some(20), ..RecallRequest::new("the") };
    let recall = namespace.recall(&request).unwrap();
    assert!((1..=2).contains(&recall.results.len()), "{}", recall.results.len());
    assert!(recall.context.starts_with("[1] "));
    let recipes = [Params::default().recipe, Params::paper().recipe];
    assert_eq!(recipes, [Recipe::Default, Recipe::Paper]);
}

#[test]
fn a_recall_that_is_not_sure_enough_abstains() {
    let namespace = Home::new().open_default();
    let texts: Vec<String> = (0..60).map(|i| format!("note {i} about the word{i} of day {}", i * 7)).collect();
    store(&namespace, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    store(&namespace, &["The spare key hangs behind the boiler."]);
    let with = |least: f32, query: &str| RecallRequest { min_confidence: Some(least), ..RecallRequest::new(query) };
    let (hit, unrelated) = ("where is the spare key?", "who painted a ceiling in Rome?");
    let sure = namespace.recall(&with(0.0, hit)).unwrap().confidence.unwrap();
    let unsure = namespace.recall(&with(0.0, unrelated)).unwrap().confidence.unwrap();
    assert!(sure < 1.0 && sure > 0.4 && unsure < 0.2, "{sure} {unsure}");
    assert!(!namespace.recall(&with(0.3, hit)).unwrap().abstained);
    let nothing = namespace.recall(&with(0.3, unrelated)).unwrap();
    assert!(nothing.abstained && nothing.results.is_empty() && nothing.context.is_empty());
    assert_eq!(nothing.confidence, Some(unsure));
    assert!(namespace.recall(&with(1.5, hit)).is_err());
}

#[test]
fn in_a_small_memory_there_is_no_confidence_until_something_was_learned() {
    let namespace = Home::new().open_default();
    store(&namespace, &["The spare key hangs behind the boiler.", "The gate code is 4471.", "Ana lives in Utrecht."]);
    let request = RecallRequest { min_confidence: Some(0.5), ..RecallRequest::new("where is the spare key?") };
    let recall = namespace.recall(&request).unwrap();
    assert_eq!((recall.confidence, recall.results.len()), (None, 3), "what cannot be told is not held against it");
    for i in 0..8 {
        let recall = ask(&namespace, &format!("where is the spare key, take {i}?"), 3);
        let (first, rest) = recall.results.split_first().unwrap();
        let not_useful = rest.iter().map(|result| result.memory.id.clone()).collect();
        let feedback = Feedback { useful: vec![first.memory.id.clone()], not_useful, ..Default::default() };
        namespace.feedback(&recall.recall_id, &feedback).unwrap();
    }
    let confidence = namespace.recall(&request).unwrap().confidence.unwrap();
    assert!(confidence > 0.5, "{confidence}");
}
