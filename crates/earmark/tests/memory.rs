//! The façade as a caller sees it: traps that memories fall into, each with the right behaviour.

use std::{
    collections::BTreeSet,
    sync::{Arc, Barrier},
    time::Duration,
};

use earmark::{
    Earmark, Error, Explore, Feedback, Filter, Forget, GateState, Memory, Namespace, NewMemory, Params, Previous,
    Recall, RecallRequest, Recipe, Result, Scope, Settings, Uncited,
    encode::{Encoder, Side},
    messages,
    recall::Label,
};
use serde_json::{Value, json};

/// A bag of hashed words: deterministic, and similar where words are shared.
struct Words {
    dimension: usize,
}

/// Enough that few words share a place.
const WIDE: usize = 8192;
/// Few enough for the adapter of the `paper` recipe.
const NARROW: usize = 256;

impl Encoder for Words {
    fn model(&self) -> &str {
        "bag-of-words"
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn encode(&self, texts: &[&str], _side: Side) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| bag(text, self.dimension)).collect())
    }
}

fn bag(text: &str, dimension: usize) -> Vec<f32> {
    let mut vector = vec![0.0; dimension];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        vector[(hash >> 32) as usize % dimension] += 1.0;
    }
    vector
}

struct Home {
    folder: tempfile::TempDir,
    settings: Settings,
}

impl Home {
    fn new() -> Home {
        Home { folder: tempfile::tempdir().unwrap(), settings: Settings::default() }
    }

    fn paper() -> Home {
        let settings = Settings { params: Params::paper(), ..Default::default() };
        Home { settings, ..Home::new() }
    }

    fn open(&self) -> Earmark {
        let dimension = if self.settings.params.recipe == Recipe::Paper { NARROW } else { WIDE };
        Earmark::open(self.folder.path(), self.settings.clone(), move || Ok(Arc::new(Words { dimension }))).unwrap()
    }

    fn namespace(&self) -> Arc<Namespace> {
        self.open().namespace("default").unwrap()
    }
}

fn store(namespace: &Namespace, texts: &[&str]) -> Vec<String> {
    let items: Vec<NewMemory> = texts.iter().map(|text| NewMemory::new(*text)).collect();
    namespace.remember(&items).unwrap().into_iter().map(|r| r.id).collect()
}

fn ask(namespace: &Namespace, query: &str, top_k: usize) -> Recall {
    namespace.recall(&RecallRequest { top_k: Some(top_k), ..RecallRequest::new(query) }).unwrap()
}

fn contents(recall: &Recall) -> Vec<&str> {
    recall.results.iter().map(|r| r.memory.content.as_str()).collect()
}

fn first(recall: &Recall) -> &str {
    contents(recall).first().copied().unwrap_or("")
}

fn with_filter(namespace: &Namespace, filter: Value) -> Result<BTreeSet<String>> {
    let scope = Scope { filter: Some(Filter::parse(&filter)?), ..Default::default() };
    let recall = namespace.recall(&RecallRequest { top_k: Some(50), scope, ..RecallRequest::new("note") })?;
    Ok(recall.results.into_iter().map(|r| r.memory.content).collect())
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

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

impl Home {
    /// A namespace whose folder lives as long as the process (tests of one namespace need no more).
    fn open_default(self) -> Arc<Namespace> {
        let namespace = self.namespace();
        std::mem::forget(self.folder);
        namespace
    }
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
fn true_one_and_the_word_true_are_three_things() {
    let namespace = Home::new().open_default();
    let metadata = [
        json!({"done": true, "n": 1}),
        json!({"done": 1, "n": "1"}),
        json!({"done": "true", "n": 1.0}),
        json!({"done": false, "n": 0}),
        json!({"done": null}),
        json!({}),
    ];
    remember_notes(&namespace, &metadata);
    let rows = [
        (json!({"done": {"eq": true}}), &["note m1"][..]),
        (json!({"done": {"eq": 1}}), &["note m2"]),
        (json!({"done": {"eq": "true"}}), &["note m3"]),
        (json!({"done": {"eq": false}}), &["note m4"]),
        (json!({"n": {"eq": 1}}), &["note m1", "note m3"]),
        (json!({"n": {"eq": "1"}}), &["note m2"]),
        (json!({"n": {"gt": 0}}), &["note m1", "note m3"]),
        (json!({"n": {"in": [1, "x"]}}), &["note m1", "note m3"]),
    ];
    for (filter, expected) in rows {
        assert_eq!(with_filter(&namespace, filter.clone()).unwrap(), set(expected), "{filter}");
    }
    let missing = with_filter(&namespace, json!({"done": {"exists": false}})).unwrap();
    assert!(missing.contains("note m6"));
    assert!(missing.is_disjoint(&set(&["note m1", "note m2", "note m3", "note m4"])));
}

fn remember_notes(namespace: &Namespace, metadata: &[Value]) {
    let items: Vec<NewMemory> = metadata
        .iter()
        .enumerate()
        .map(|(i, m)| NewMemory {
            metadata: m.as_object().unwrap().clone(),
            ..NewMemory::new(format!("note m{}", i + 1))
        })
        .collect();
    namespace.remember(&items).unwrap();
}

#[test]
fn awkward_keys_are_keys() {
    let namespace = Home::new().open_default();
    let metadata = [
        json!({"billing.plan": "pro"}),
        json!({"billing": {"plan": "pro"}}),
        json!({"a\"b": "q"}),
        json!({"sp ace": "s", "$ref": "r", "über": "u"}),
        json!({"x') OR 1=1 --": "z"}),
    ];
    remember_notes(&namespace, &metadata);
    let found = |filter| with_filter(&namespace, filter).unwrap();
    assert!(found(json!({"billing.plan": {"eq": "pro"}})).contains("note m1"));
    assert_eq!(found(json!({"a\"b": {"eq": "q"}})), set(&["note m3"]));
    assert_eq!(found(json!({"sp ace": {"eq": "s"}})), set(&["note m4"]));
    assert_eq!(found(json!({"über": {"eq": "u"}})), set(&["note m4"]));
    match with_filter(&namespace, json!({"$ref": {"eq": "r"}})) {
        Ok(found) => assert_eq!(found, set(&["note m4"])),
        Err(error) => assert!(error.to_string().contains("$ref"), "{error}"),
    }
    assert_eq!(found(json!({"x') OR 1=1 --": {"eq": "nope"}})), set(&[]));
    assert_eq!(found(json!({"x') OR 1=1 --": {"eq": "z"}})), set(&["note m5"]));
}

#[test]
fn unknown_operators_are_errors() {
    let namespace = Home::new().open_default();
    store(&namespace, &["note"]);
    for filter in [json!({"n": {"approx": 1}}), json!({"n": {"gt": true}}), json!({"AND": 3}), json!("x")] {
        let error = with_filter(&namespace, filter.clone()).unwrap_err();
        assert!(matches!(error, Error::InvalidFilter { .. }), "{filter}: {error}");
    }
}

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

const UNRELATED: [&str; 20] = [
    "Marta planted tomatoes along the south wall.",
    "The choir rehearses in the old cinema.",
    "Two swans nested near our canoe landing.",
    "Grandpa keeps his chess trophies in a biscuit tin.",
    "A yellow kite got stuck in the poplar.",
    "Nobody remembered to water the ferns.",
    "Their dog sleeps under the piano.",
    "Paul bakes rye bread every other morning.",
    "The museum lends out stereoscopes.",
    "We painted the hallway a pale blue.",
    "Lena collects stamps with lighthouses.",
    "The tram bell rings twice at the corner.",
    "Omar repaired the bicycle chain himself.",
    "Fresh snow covered the vineyard.",
    "The neighbours play dominoes after dinner.",
    "Her suitcase has a broken wheel.",
    "They whistle while folding laundry.",
    "An owl lives in the church tower.",
    "Karin swims in the lake until October.",
    "The clock in the kitchen runs slow.",
];

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
fn what_was_forgotten_can_be_remembered_again_and_leaves_no_trace() {
    let home = Home::new();
    let namespace = home.namespace();
    let first_id = store(&namespace, &["The gate code is 4471."]).remove(0);
    let recall = ask(&namespace, "gate code", 5);
    let useful = Feedback { useful: vec![first_id.clone()], ..Default::default() };
    assert!(namespace.feedback(&recall.recall_id, &useful).unwrap().closed);
    assert_eq!(namespace.forget(&Forget::Ids(vec![first_id.clone()])).unwrap(), 1);
    assert_eq!(namespace.forget(&Forget::Ids(vec![first_id.clone()])).unwrap(), 0);
    assert!(ask(&namespace, "gate code", 5).results.is_empty());
    let again = namespace.remember(&[NewMemory::new("The gate code is 4471.")]).unwrap().remove(0);
    assert!(again.created);
    let recall = ask(&namespace, "gate code", 5);
    assert_eq!(recall.results.len(), 1);
    assert_eq!(recall.results[0].memory.id, again.id);
    assert!(matches!(namespace.get(&first_id), Err(Error::NotFound { .. })) || first_id == again.id);
    assert!(namespace.explain(&recall.recall_id).unwrap().neighbours.iter().all(|n| n.useful.is_empty()));
    assert!(namespace.check().unwrap().is_empty());
}

#[test]
fn forgetting_by_scope_counts_and_refuses_everything() {
    let namespace = Home::new().open_default();
    let of = |user: &str, text: &str| NewMemory { user_id: Some(user.to_owned()), ..NewMemory::new(text) };
    namespace.remember(&[of("u1", "one"), of("u1", "two"), of("u2", "three")]).unwrap();
    assert!(namespace.forget(&Forget::Scope(Scope::default())).is_err());
    let u1 = Scope { user_id: Some("u1".to_owned()), ..Default::default() };
    assert_eq!(namespace.forget(&Forget::Scope(u1)).unwrap(), 2);
    assert_eq!(contents(&ask(&namespace, "one two three", 5)), ["three"]);
}

#[test]
fn a_date_ends_with_its_day() {
    let namespace = Home::new().open_default();
    let times = ["2027-02-14T18:45:00Z", "2027-02-14T23:59:59.750Z", "2027-02-15T00:00:00Z"];
    let items: Vec<NewMemory> = times
        .iter()
        .enumerate()
        .map(|(i, t)| NewMemory { occurred_at: t.parse().ok(), ..NewMemory::new(format!("note m{}", i + 1)) })
        .collect();
    namespace.remember(&items).unwrap();
    let rows = [
        (json!({"occurred_at": {"lte": "2027-02-14"}}), &["note m1", "note m2"][..]),
        (json!({"occurred_at": {"gte": "2027-02-14", "lt": "2027-02-15"}}), &["note m1", "note m2"]),
        (json!({"occurred_at": {"gt": "2027-02-14"}}), &["note m3"]),
    ];
    for (filter, expected) in rows {
        assert_eq!(with_filter(&namespace, filter.clone()).unwrap(), set(expected), "{filter}");
    }
    let scope = Scope {
        after: "2027-02-13T00:00:00Z".parse().ok(),
        before: "2027-02-15T00:00:00Z".parse().ok(),
        ..Default::default()
    };
    let recall = namespace.recall(&RecallRequest { scope, ..RecallRequest::new("note") }).unwrap();
    assert_eq!(contents(&recall).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["note m1", "note m2"]));
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

#[test]
fn being_shown_is_not_being_useful() {
    let mut home = Home::new();
    home.settings.max_open_recalls = 200;
    let namespace = home.namespace();
    let texts: Vec<String> = (0..100).map(|i| format!("{} number {i}", UNRELATED[i % 20])).collect();
    store(&namespace, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let queries: Vec<String> = (0..10).map(|i| format!("who {}", UNRELATED[i * 2])).collect();
    let run = |query: &String| namespace.recall(&RecallRequest::new(query)).unwrap();
    let firsts: Vec<Recall> = queries.iter().map(run).collect();
    for query in queries.iter().cycle().take(600) {
        run(query);
    }
    for (query, before) in queries.iter().zip(&firsts) {
        let after = run(query);
        assert_eq!(after.results, before.results, "bit for bit");
        assert_eq!(after.learning_version, before.learning_version);
    }
    let status = namespace.learning().unwrap();
    assert!(status.open <= 200 + 100, "{} open", status.open);
    let late = Feedback { useful: vec![firsts[0].results[0].memory.id.clone()], ..Default::default() };
    let error = namespace.feedback(&firsts[0].recall_id, &late).unwrap_err();
    assert!(error.to_string().contains("expired"), "{error}");
}

#[test]
fn every_way_to_cite_closes_the_recall() {
    let namespace = Home::new().open_default();
    store(&namespace, &UNRELATED[..8]);
    let rows: [(&str, &[usize], &[usize]); 9] = [
        ("Dinner is at seven [2].", &[2], &[]),
        ("Both say so [1, 3].", &[1, 3], &[]),
        ("Both say so [1，3]。", &[1, 3], &[]),
        ("见【4】。", &[4], &[]),
        ("All of these [1-3].", &[1, 2, 3], &[]),
        ("Use `items[2]` for that.", &[], &[]),
        ("See [4](https://example.org/menu).", &[], &[]),
        ("As noted [9].", &[], &[9]),
        ("As noted [0].", &[], &[0]),
    ];
    for (answer, used, unknown) in rows {
        let recall = ask(&namespace, "the bell", 5);
        let feedback = Feedback { answer: Some(answer.to_owned()), ..Default::default() };
        let report = namespace.feedback(&recall.recall_id, &feedback).unwrap();
        let expected: Vec<String> = used.iter().map(|n| recall.results[n - 1].memory.id.clone()).collect();
        assert_eq!(report.useful, expected, "{answer}");
        assert_eq!(report.unknown_citations, unknown, "{answer}");
        let negatives = if used.is_empty() { 0 } else { 5 - used.len() };
        assert_eq!(report.not_useful.len(), negatives, "{answer}");
    }
    let recall = ask(&namespace, "the bell", 5);
    let none = Feedback { answer: Some("[NO_CITE]".to_owned()), ..Default::default() };
    assert_eq!(namespace.feedback(&recall.recall_id, &none).unwrap().not_useful.len(), 5);
}

#[test]
fn praise_lifts_blame_lowers_and_blame_alone_counts() {
    let home = Home::new();
    let earmark = home.open();
    let names = ["pos", "neg", "none"];
    let namespaces: Vec<Arc<Namespace>> = names.iter().map(|n| earmark.namespace(n).unwrap()).collect();
    let texts: Vec<String> =
        (0..30).map(|i| format!("The garden shed holds {} and tool number {i}", UNRELATED[i % 20])).collect();
    for namespace in &namespaces {
        store(namespace, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let paraphrases: Vec<String> =
        (0..13).map(|i| format!("what does the garden shed hold {}", ["", "now", "today", "please"][i % 4])).collect();
    for query in &paraphrases[..12] {
        for (name, namespace) in names.iter().zip(&namespaces) {
            let recall = ask(namespace, query, 5);
            let at_base =
                |rank: usize| recall.results.iter().find(|r| r.base_rank == rank).map(|r| r.memory.id.clone());
            let feedback = match *name {
                "pos" => Feedback { useful: at_base(3).into_iter().collect(), ..Default::default() },
                "neg" => Feedback { not_useful: at_base(1).into_iter().collect(), ..Default::default() },
                _ => continue,
            };
            if !feedback.useful.is_empty() || !feedback.not_useful.is_empty() {
                namespace.feedback(&recall.recall_id, &feedback).unwrap();
            }
        }
    }
    let last: Vec<Recall> = namespaces.iter().map(|n| ask(n, &paraphrases[12], 30)).collect();
    let find = |recall: &Recall, base_rank: usize| {
        let found = recall.results.iter().find(|r| r.base_rank == base_rank).unwrap();
        (found.scores.learned, found.rank)
    };
    let (praised, neutral) = (find(&last[0], 3), find(&last[2], 3));
    assert!(praised.0 > neutral.0 && praised.1 <= neutral.1, "{praised:?} {neutral:?}");
    let (blamed, neutral) = (find(&last[1], 1), find(&last[2], 1));
    assert!(blamed.0 < neutral.0 && blamed.1 >= neutral.1, "{blamed:?} {neutral:?}");
    let status = |i: usize| namespaces[i].learning().unwrap();
    assert_eq!(
        (status(0).labels["explicit"].useful, status(0).labels["explicit"].not_useful),
        (status(0).experiences, 0)
    );
    assert_eq!(
        (status(1).labels["explicit"].useful, status(1).labels["explicit"].not_useful),
        (0, status(1).experiences)
    );
    assert!(status(2).labels.is_empty() && status(2).experiences == 0);
    for namespace in &namespaces {
        namespace.reset().unwrap();
    }
    let after: Vec<Vec<f32>> =
        namespaces.iter().map(|n| ask(n, &paraphrases[12], 30).results.iter().map(|r| r.score).collect()).collect();
    assert!(after[0] == after[2] && after[1] == after[2], "bit for bit");
}

#[test]
fn feedback_names_a_recall_and_counts_once() {
    let namespace = Home::new().open_default();
    let ids = store(&namespace, &UNRELATED[..8]);
    let unknown = namespace.feedback("rc_nope", &Feedback::default()).unwrap_err();
    assert!(matches!(unknown, Error::NotFound { .. }));
    let recall = ask(&namespace, "tram bell", 2);
    let outside = ids.iter().find(|id| recall.results.iter().all(|r| r.memory.id != **id)).unwrap();
    let wrong = Feedback { useful: vec![outside.clone()], ..Default::default() };
    assert!(namespace.feedback(&recall.recall_id, &wrong).unwrap_err().to_string().contains("did not show"));
    let right = Feedback { useful: vec![recall.results[0].memory.id.clone()], ..Default::default() };
    let report = namespace.feedback(&recall.recall_id, &right).unwrap();
    assert!(report.closed && !report.repeated);
    let again = namespace.feedback(&recall.recall_id, &right).unwrap();
    assert!(again.repeated);
    assert_eq!(again.learning_version, report.learning_version);
    let other = Feedback { not_useful: right.useful.clone(), ..Default::default() };
    assert!(matches!(namespace.feedback(&recall.recall_id, &other), Err(Error::Conflict { .. })));
    assert_eq!(namespace.learning().unwrap().experiences, 1);
    let silent = Feedback { uncited: Some(Uncited::Negative), ..right.clone() };
    let recall = ask(&namespace, "tram bell", 2);
    let silent = Feedback { useful: vec![recall.results[0].memory.id.clone()], ..silent };
    assert_eq!(namespace.feedback(&recall.recall_id, &silent).unwrap().not_useful.len(), 1);
}

#[test]
fn the_next_recall_closes_the_one_before() {
    let namespace = Home::new().open_default();
    store(&namespace, &UNRELATED[..8]);
    let one = ask(&namespace, "tram bell", 3);
    let previous =
        Previous { recall_id: one.recall_id.clone(), answer: Some("It rings twice [1].".into()), ..Default::default() };
    let request = RecallRequest { previous: Some(previous), ..RecallRequest::new("kitchen clock") };
    namespace.recall(&request).unwrap();
    let explanation = namespace.explain(&one.recall_id).unwrap();
    assert_eq!(explanation.state, "closed");
    assert_eq!(explanation.rounds[0].sources, ["next_recall"]);
    assert_eq!(explanation.rounds[0].useful, [one.results[0].memory.id.clone()]);
}

#[test]
fn refine_shows_others_and_feedback_closes_all_rounds() {
    for home in [Home::new(), Home::paper()] {
        let namespace = home.namespace();
        store(&namespace, &UNRELATED);
        let one = ask(&namespace, "who lives in the church tower", 5);
        let wrong: Vec<String> = one.results.iter().map(|r| r.memory.id.clone()).collect();
        let two =
            namespace.refine(&one.recall_id, &Feedback { not_useful: wrong.clone(), ..Default::default() }).unwrap();
        let fresh = two.results.iter().filter(|r| !wrong.contains(&r.memory.id)).count();
        assert!(fresh >= 4, "{fresh} of 5 are new");
        let good = two.results.iter().find(|r| !wrong.contains(&r.memory.id)).unwrap().memory.id.clone();
        namespace.feedback(&one.recall_id, &Feedback { useful: vec![good], ..Default::default() }).unwrap();
        let explanation = namespace.explain(&one.recall_id).unwrap();
        assert_eq!(
            (explanation.rounds.len(), explanation.rounds[0].not_useful.len(), explanation.rounds[1].useful.len()),
            (2, 5, 1)
        );
        assert!(namespace.refine(&one.recall_id, &Feedback::default()).is_err());
    }
}

#[test]
fn a_judge_explores_and_its_labels_are_kept() {
    let namespace = Home::new().open_default();
    store(&namespace, &UNRELATED);
    let request = RecallRequest { explore: Explore::On, max_critic_calls: Some(2), ..RecallRequest::new("the owl") };
    let mut calls = 0;
    let recall = namespace
        .recall_judged(&request, &mut |_, shown| {
            calls += 1;
            Ok(shown
                .iter()
                .map(|m| Some(earmark::recall::Label::from_useful(m.content.contains("dominoes"))))
                .collect())
        })
        .unwrap();
    assert_eq!((calls, recall.critic_calls), (2, 2));
    let rounds = namespace.explain(&recall.recall_id).unwrap().rounds;
    assert_eq!(rounds.len(), 3);
    assert_eq!(rounds[0].sources, ["critic"]);
}

#[test]
fn a_judge_of_no_use_is_not_asked_again() {
    let namespace = Home::new().open_default();
    store(&namespace, &UNRELATED);
    let request = RecallRequest { explore: Explore::On, ..RecallRequest::new("the owl") };
    let useless = |memories: &[&Memory]| vec![Some(Label::NotUseful); memories.len()];
    let remote = || Error::Remote { url: "http://10.0.0.1/v1".into(), reason: "answered 503".into() };
    for (good, last, warning) in [
        (0, Err(remote()), "failed: answered 503"),
        (1, Err(remote()), "failed: answered 503"),
        (1, Err(Error::invalid("key", "is missing")), "`key` is missing"),
        (0, Ok(Vec::new()), "nothing that could be read"),
        (1, Ok(vec![None; 5]), "nothing that could be read"),
    ] {
        let (mut calls, mut last) = (0, Some(last));
        let judge = &mut |_: &str, shown: &[&Memory]| {
            calls += 1;
            if calls <= good { Ok(useless(shown)) } else { last.take().expect("asked once") }
        };
        let recall = namespace.recall_judged(&request, judge).unwrap();
        let said = recall.warning.unwrap();
        assert!(said.contains(warning) && !said.contains("10.0.0.1"), "{said}");
        assert_eq!((calls, recall.critic_calls, recall.results.len()), (good + 1, good + 1, 5));
        let rounds = namespace.explain(&recall.recall_id).unwrap().rounds;
        assert_eq!(rounds.len(), good + 1, "what was judged before is kept");
        let first = recall.results[0].memory.id.clone();
        let feedback = Feedback { useful: vec![first], ..Default::default() };
        assert!(namespace.feedback(&recall.recall_id, &feedback).unwrap().closed);
    }
    assert!(namespace.recall(&RecallRequest::new("the owl")).unwrap().warning.is_none());
}

#[test]
fn learning_can_be_frozen_rolled_back_reset_and_repeated() {
    for home in [Home::new(), Home::paper()] {
        let namespace = home.namespace();
        store(&namespace, &UNRELATED);
        let teach = |n: usize| {
            for i in 0..n {
                let recall = ask(&namespace, UNRELATED[i % 20], 5);
                let useful = vec![recall.results[i % recall.results.len()].memory.id.clone()];
                let feedback = Feedback { useful, uncited: Some(Uncited::Negative), ..Default::default() };
                namespace.feedback(&recall.recall_id, &feedback).unwrap();
            }
        };
        teach(8);
        let learned = namespace.learning().unwrap();
        assert!(learned.version > 0 && !learned.versions.is_empty());
        let scores =
            || ask(&namespace, "a bell in the tower", 5).results.iter().map(|r| r.scores.learned).collect::<Vec<_>>();
        let trained = scores();
        namespace.freeze(true).unwrap();
        teach(4);
        assert_eq!(scores(), trained);
        assert_eq!(namespace.learning().unwrap().experiences, 12);
        let first = learned.versions.last().unwrap().version;
        assert_eq!(namespace.rollback(first).unwrap(), first);
        assert!(matches!(namespace.rollback(999), Err(Error::NotFound { .. })));
        assert_eq!(namespace.reset().unwrap(), 0);
        let fixed = scores();
        namespace.train().unwrap();
        let once = scores();
        assert_ne!(once, fixed);
        namespace.train().unwrap();
        assert_eq!(scores(), once, "the same log and seed give the same state");
    }
}

#[test]
fn another_encoder_is_refused_until_reembed() {
    struct Other;
    impl Encoder for Other {
        fn model(&self) -> &str {
            "bag-of-words-2"
        }
        fn dimension(&self) -> usize {
            WIDE / 2
        }
        fn encode(&self, texts: &[&str], _: Side) -> Result<Vec<Vec<f32>>> {
            Ok(texts.iter().map(|t| bag(t, WIDE).chunks(2).map(|c| c[0] + 2.0 * c[1]).collect()).collect())
        }
    }
    let home = Home::new();
    let namespace = home.namespace();
    store(&namespace, &UNRELATED);
    let recall = ask(&namespace, "tram bell", 5);
    let answer = Feedback { answer: Some("Twice [1].".into()), ..Default::default() };
    namespace.feedback(&recall.recall_id, &answer).unwrap();
    let other = Earmark::open(home.folder.path(), home.settings.clone(), || Ok(Arc::new(Other))).unwrap();
    let moved = other.namespace("default").unwrap();
    let error = moved.recall(&RecallRequest::new("tram bell")).unwrap_err();
    assert!(matches!(error, Error::EncoderMismatch { .. }) && error.to_string().contains("reembed"), "{error}");
    assert!(matches!(moved.remember(&[NewMemory::new("new")]), Err(Error::EncoderMismatch { .. })));
    let report = moved.reembed(&mut |_, _| {}).unwrap();
    assert_eq!((report.memories, report.queries), (20, 1));
    assert!(moved.learning().unwrap().version > 0, "learning survives");
    assert!(first(&ask(&moved, "tram bell", 5)).contains("tram"));
    assert!(matches!(namespace.recall(&RecallRequest::new("tram bell")), Err(Error::EncoderMismatch { .. })));
}

#[test]
fn namespaces_share_nothing() {
    let home = Home::new();
    let earmark = home.open();
    let (a, b) = (earmark.namespace("a").unwrap(), earmark.namespace("B/../ü").unwrap());
    store(&a, &["The gate code is 4471."]);
    assert!(ask(&b, "gate code", 5).results.is_empty());
    assert_eq!(earmark.namespaces().unwrap(), ["B/../ü", "a"]);
    let recall = ask(&a, "gate code", 5);
    assert!(matches!(b.explain(&recall.recall_id), Err(Error::NotFound { .. })));
    assert!(b.get(&recall.results[0].memory.id).is_err());
    assert!(earmark.remove_namespace("a").unwrap() && !earmark.remove_namespace("a").unwrap());
    assert_eq!(earmark.namespaces().unwrap(), ["B/../ü"]);
    assert!(earmark.namespace("").is_err() && earmark.namespace(&"x".repeat(500)).is_err());
}

#[test]
fn a_judge_closes_what_was_left_open() {
    let namespace = Home::new().open_default();
    let ids = store(&namespace, &["The gate code is 4471.", "The gate is green."]);
    let asked: Vec<String> = (0..3).map(|i| ask(&namespace, &format!("gate code {i}"), 2).recall_id).collect();
    assert!(namespace.left_open(Duration::from_secs(3600), None, 9).unwrap().is_empty(), "all are too young");
    assert_eq!(namespace.left_open(Duration::ZERO, None, 2).unwrap(), asked[..2]);
    assert_eq!(namespace.left_open(Duration::ZERO, Some(&asked[0]), 9).unwrap(), asked[1..]);
    let mut by_code = |question: &str, memories: &[&Memory]| {
        assert!(question.starts_with("gate code"));
        Ok(memories.iter().map(|m| Some(Label::from_useful(m.content.contains("4471")))).collect())
    };
    let report = namespace.judge_open(&asked[0], &mut by_code).unwrap();
    assert_eq!((report.closed, &report.useful, &report.not_useful), (true, &ids[..1].to_vec(), &ids[1..].to_vec()));
    assert_eq!(namespace.learning().unwrap().labels["critic"].useful, 1);
    assert!(matches!(namespace.judge_open(&asked[0], &mut by_code), Err(Error::Conflict { .. })));
    let mut silent = |_: &str, memories: &[&Memory]| Ok(vec![None; memories.len()]);
    assert!(!namespace.judge_open(&asked[1], &mut silent).unwrap().closed);
    let mut broken = |_: &str, _: &[&Memory]| Err(Error::Remote { url: "u".into(), reason: "down".into() });
    assert!(namespace.judge_open(&asked[1], &mut broken).is_err());
    assert_eq!(namespace.left_open(Duration::ZERO, None, 9).unwrap(), asked[1..]);
}

#[test]
fn exploring_has_a_limit_and_needs_a_critic() {
    let namespace = Home::new().open_default();
    store(&namespace, &["The gate code is 4471."]);
    let request = RecallRequest { explore: Explore::On, ..RecallRequest::new("gate") };
    assert!(namespace.recall(&request).unwrap_err().to_string().contains("EARMARK_CRITIC_URL"));
    let request = RecallRequest { max_critic_calls: Some(51), ..request };
    let mut judge = |_: &str, memories: &[&Memory]| Ok(vec![None; memories.len()]);
    assert!(namespace.recall_judged(&request, &mut judge).unwrap_err().to_string().contains("at most 50"));
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

#[test]
fn the_gate_is_in_shadow_until_labels_are_believed() {
    let namespace = Home::new().open_default();
    store(&namespace, &UNRELATED);
    let gate = || namespace.learning().unwrap().gate.unwrap();
    assert_eq!((gate().state, gate().compared), (GateState::Shadow, 0));
    let recall = ask(&namespace, "the", 3);
    let ids: Vec<String> = recall.results.iter().map(|result| result.memory.id.clone()).collect();
    let feedback = Feedback { useful: vec![ids[2].clone()], not_useful: ids[..2].to_vec(), ..Feedback::default() };
    namespace.feedback(&recall.recall_id, &feedback).unwrap();
    let after = gate();
    assert_eq!((after.state, after.compared), (GateState::Active, 1));
    assert_eq!(after.static_agreement, after.learned_agreement, "before its labels were learned from, nothing was");
    assert!(namespace.learning().unwrap().in_words().contains("learned order ranks"));
}
