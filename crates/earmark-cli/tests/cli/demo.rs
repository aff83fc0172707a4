//! The demo, from end to end. It needs no weights: the stub stands in for the encoder.

use crate::support::Home;

#[test]
fn the_demo_shows_questions_an_explanation_and_a_curve() {
    let home = Home::new();
    let shown = home.ok(&["demo"]);
    for part in [
        "1. ",
        "12. ",
        "[1]",
        "answer",
        "feedback",
        "earmark explain",
        "held-out",
        "● learned",
        "recalls closed",
        "played",
    ] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    assert!(!shown.contains("nothing left this machine"), "an endpoint was asked");
    assert!(!home.path("data").exists(), "the demo keeps to itself");
}

#[test]
fn the_demo_can_be_kept_and_read_by_programs() {
    let home = Home::new();
    let folder = home.path("kept");
    let folder = folder.to_str().unwrap();
    let report = home.json(&["demo", "--keep", folder]);
    assert!(report["remembered"].as_u64().unwrap() >= 400 && report["asked"].as_array().unwrap().len() >= 40);
    let curve = report["curve"].as_array().unwrap();
    assert_eq!(curve[0]["static"], curve[0]["learned"], "nothing is learned at first");
    assert!(curve.len() >= 4);
    let status = home.json(&["--data-dir", folder, "learning", "status"]);
    let closed = report["asked"].as_array().unwrap().iter().filter(|one| one["feedback"]["closed"] == true).count();
    assert_eq!(status["experiences"].as_u64(), Some(closed as u64));
    let error = home.fails(2, &["demo", "--keep", folder]);
    assert!(error.contains("new folder"), "{error}");
}
