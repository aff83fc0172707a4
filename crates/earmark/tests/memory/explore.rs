//! Other slates for the same question, and who judges them.

use std::time::Duration;

use earmark::recall::Label;
use earmark::{Error, Explore, Feedback, Memory, RecallRequest};

use super::{Home, UNRELATED, ask, store};

#[test]
fn refine_shows_others_and_feedback_closes_all_rounds() {
    for (home, paper) in [(Home::new(), false), (Home::paper(), true)] {
        let namespace = home.namespace();
        store(&namespace, &UNRELATED);
        let one = ask(&namespace, "who lives in the church tower", 5);
        let wrong: Vec<String> = one.results.iter().map(|r| r.memory.id.clone()).collect();
        let two =
            namespace.refine(&one.recall_id, &Feedback { not_useful: wrong.clone(), ..Default::default() }).unwrap();
        let fresh = two.results.iter().filter(|r| !wrong.contains(&r.memory.id)).count();
        assert!(fresh >= 4, "{fresh} of 5 are new");
        assert!(paper || two.results.iter().all(|r| !r.explored), "the next best are not there to explore");
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
fn refine_without_a_label_shows_others_too() {
    let home = Home::new();
    let namespace = home.namespace();
    store(&namespace, &UNRELATED);
    let ids = |recall: &earmark::Recall| recall.results.iter().map(|r| r.memory.id.clone()).collect::<Vec<_>>();
    let one = ask(&namespace, "who lives in the church tower", 3);
    let two = namespace.refine(&one.recall_id, &Feedback::default()).unwrap();
    let wrong = Feedback { not_useful: vec![ids(&two)[0].clone()], ..Default::default() };
    let three = namespace.refine(&one.recall_id, &wrong).unwrap();
    let mut all = [ids(&one), ids(&two), ids(&three)].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 9, "three slates of three, none twice");
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
