//! Flags over variables over the config file over defaults.

use crate::{
    stub::{Stub, bag},
    support::Home,
};

fn config(home: &Home, text: &str) -> String {
    let file = home.path("config.toml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn namespace_of(home: &Home, args: &[&str]) -> String {
    home.json(&[&["recall", "x"], args].concat())["namespace"].as_str().unwrap().to_owned()
}

#[test]
fn flags_beat_variables_beat_the_file() {
    let mut home = Home::new();
    for name in ["from-file", "from-variable", "from-flag"] {
        home.ok(&["-n", name, "remember", "x"]);
    }
    home.ok(&["remember", "x"]);
    assert_eq!(namespace_of(&home, &[]), "default");
    let file = config(&home, "namespace = \"from-file\"\n");
    assert_eq!(namespace_of(&home, &["--config", &file]), "from-file");
    home.set("EARMARK_CONFIG", &file);
    assert_eq!(namespace_of(&home, &[]), "from-file");
    home.set("EARMARK_NAMESPACE", "from-variable");
    assert_eq!(namespace_of(&home, &[]), "from-variable");
    assert_eq!(namespace_of(&home, &["-n", "from-flag"]), "from-flag");
    home.set("EARMARK_NAMESPACE", "");
    assert_eq!(namespace_of(&home, &[]), "from-file", "an empty variable is none");
}

#[test]
fn every_setting_can_stand_in_the_file() {
    let mut home = Home::new();
    let elsewhere = home.path("elsewhere");
    let other = Stub::of(bag);
    let text = format!(
        "data_dir = {elsewhere:?}\nrecipe = \"paper\"\n[encoder]\nmodel = \"filed\"\nurl = \"{}\"\ndimension = 64\nthreads = 1\nfull_precision = true\nmax_characters = 4\nquery_prefix = \"query: \"\nmemory_prefix = \"passage: \"\n",
        other.base
    );
    let file = config(&home, &text);
    home.variables.clear();
    home.set("EARMARK_DATA_DIR", "");
    home.ok(&["--config", &file, "remember", "red apple"]);
    assert!(elsewhere.is_dir() && !other.paths().is_empty());
    let status = home.json(&["--config", &file, "learning", "status"]);
    assert_eq!(status["recipe"], "paper");
    assert_eq!(home.json(&["--config", &file, "namespaces"])[0]["encoder"], "filed");
}

#[test]
fn the_default_places_are_under_home() {
    let mut home = Home::new();
    home.set("EARMARK_DATA_DIR", "");
    let folder = home.path(".config/earmark");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "namespace = \"mine\"\n").unwrap();
    let run = home.run(&["remember", "red apple"]).expect(0, &["remember"]);
    assert!(run.err.contains(".local/share/earmark"), "{}", run.err);
    assert_eq!(home.json(&["namespaces"])[0]["namespace"], "mine");
    std::fs::write(folder.join("config.toml"), "data_dir = \"~/notes\"\n").unwrap();
    home.ok(&["remember", "red apple"]);
    assert!(home.path("notes/namespaces").is_dir());
}

#[test]
fn a_typo_is_named() {
    let mut home = Home::new();
    for (text, named) in [
        ("namespcae = \"x\"\n", "namespcae"),
        ("[encoder]\nmodle = \"x\"\n", "modle"),
        ("namespace = [1]\n", "namespace"),
        ("namespace = \n", "config.toml"),
        ("[encoder]\nthreads = \"many\"\n", "threads"),
    ] {
        let file = config(&home, text);
        let error = home.fails(2, &["--config", &file, "recall", "x"]);
        assert!(error.contains(named) && error.contains(&file), "{error}");
    }
    assert!(home.fails(2, &["--config", "missing.toml", "recall", "x"]).contains("missing.toml"));
    home.set("EARMARK_ENCODER__MODLE", "x");
    assert!(home.fails(2, &["recall", "x"]).contains("modle"));
    home.variables.retain(|(name, _)| name != "EARMARK_ENCODER__MODLE");
    home.set("EARMARK_NAMESPCAE", "x");
    let run = home.run(&["doctor"]).expect(6, &["doctor"]);
    assert!(run.out.contains("EARMARK_NAMESPCAE"), "{}", run.out);
}

#[test]
fn words_that_look_like_numbers_stay_words() {
    let mut home = Home::new();
    for name in ["007", "1.10", "true"] {
        home.set("EARMARK_NAMESPACE", name);
        home.ok(&["remember", "x"]);
    }
    let rows = home.json(&["namespaces"]);
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["namespace"].as_str().unwrap()).collect();
    assert_eq!(names, ["007", "1.10", "true"]);
}

#[test]
fn doctor_looks_at_everything() {
    let home = Home::new();
    home.ok(&["remember", "red apple"]);
    let shown = home.ok(&["doctor"]);
    for part in [
        "data folder",
        "config file",
        "namespace default: 1 memory",
        "encoder stub at http://127.0.0.1",
        "64 dimensions",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(home.ok(&["doctor", "--repair"]).contains("whole"));
    home.still_works();
}
