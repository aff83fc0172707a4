//! What was learned can be seen, stopped and undone.

use earmark::{Error, Feedback, GateState, Uncited};

use super::{Home, UNRELATED, ask, store};

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
