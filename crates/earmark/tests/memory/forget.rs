//! Forgotten means gone.

use earmark::{Error, Feedback, Forget, NewMemory, Scope};

use super::{Home, ask, contents, store};

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
