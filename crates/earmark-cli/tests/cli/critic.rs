//! A critic named by variables or by the config file, and the proxy's arguments.

use serde_json::json;

use crate::{stub::Stub, support::Home};

#[test]
fn a_critic_judges_slates_when_it_is_named() {
    let mut home = Home::new();
    for i in 0..12 {
        home.ok(&["remember", &format!("key number {i} hangs behind door {i}")]);
    }
    let explore = ["recall", "key", "--explore", "on", "--max-critic-calls", "1"];
    assert!(home.fails(2, &explore).contains("EARMARK_CRITIC_URL"));
    let critic = Stub::serve(|_| ("200 OK", json!({ "choices": [{ "message": { "content": "There [2]." } }] })));
    home.set("EARMARK_CRITIC_URL", &critic.base);
    assert!(home.fails(2, &explore).contains("critic.model"));
    home.set("EARMARK_CRITIC_MODEL", "judge");
    home.set("EARMARK_CRITIC_KEY", "secret");
    assert_eq!(home.json(&explore)["critic_calls"], 1);
    assert_eq!(critic.paths(), ["/v1/chat/completions"]);
    home.ok(&["recall", "key"]);
    assert_eq!(critic.paths().len(), 1, "only where it was asked for");
    home.ok(&["doctor"]);
    let broken = Stub::serve(|_| ("400 Bad Request", json!({ "error": "no such model" })));
    home.set("EARMARK_CRITIC_URL", &broken.base);
    let found = home.json(&explore);
    assert!(found["warning"].as_str().unwrap().contains("no such model"), "{found}");
    assert_eq!(found["results"].as_array().unwrap().len(), 5);
    let shown = home.run(&[&explore[..], &["--context"]].concat());
    assert!(shown.out.starts_with("[1] ") && shown.err.contains("warning: the critic failed"), "{}", shown.err);
    home.set("EARMARK_CRITIC_URL", "nowhere");
    assert!(home.fails(2, &explore).contains("critic.url"));
    home.set("EARMARK_CRITIC_URL", "");
    std::fs::write(home.path("earmark.toml"), format!("[critic]\nurl = \"{}\"\n", critic.base)).unwrap();
    assert_eq!(home.json(&[&explore[..], &["--config", "earmark.toml"]].concat())["critic_calls"], 1);
}

#[test]
fn a_proxy_needs_an_upstream() {
    let home = Home::new();
    assert!(home.fails(2, &["proxy"]).contains("--upstream"));
    assert!(home.fails(2, &["proxy", "--upstream", "localhost:8080"]).contains("http://127.0.0.1:8080/v1"));
    let beyond = ["proxy", "--upstream", "http://localhost:8080", "--listen", "0.0.0.0:0"];
    assert!(home.fails(2, &beyond).contains("earmark keys create"));
}
