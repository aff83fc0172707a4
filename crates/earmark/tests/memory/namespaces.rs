//! Namespaces are apart, and each keeps to its encoder.

use std::sync::Arc;

use earmark::encode::{Encoder, Side};
use earmark::{Earmark, Error, Feedback, NewMemory, RecallRequest, Result};

use super::{Home, UNRELATED, WIDE, ask, bag, first, store};

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
