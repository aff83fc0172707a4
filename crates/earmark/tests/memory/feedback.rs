//! Feedback names a recall, and only feedback teaches.

use std::sync::Arc;

use earmark::{Error, Feedback, Namespace, Previous, Recall, RecallRequest, Uncited};

use super::{Home, UNRELATED, ask, store};

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
