//! `serve`, `mcp` and `keys` as commands.

use std::process::Stdio;

use serde_json::Value;

use crate::support::Home;

#[test]
fn keys_are_made_listed_and_revoked() {
    let home = Home::new();
    let made = home.json(&["keys", "create", "--name", "laptop", "--namespaces", "work,home", "--access", "read"]);
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert!(key.starts_with("em_") && key.len() == 67, "{key}");
    let listed = home.json(&["keys", "list"]);
    assert_eq!(listed[0]["namespaces"], serde_json::json!(["work", "home"]));
    assert!(!listed.to_string().contains(key) && !home.ok(&["keys", "list"]).contains(key), "shown once");
    home.ok(&["keys", "revoke", id]);
    assert_eq!(home.json(&["keys", "list"]), Value::Array(Vec::new()));
    assert!(home.fails(3, &["keys", "revoke", id]).contains(id));
}

#[test]
fn beyond_this_machine_a_key_is_needed() {
    let home = Home::new();
    let refused = home.fails(2, &["serve", "--listen", "0.0.0.0:0"]);
    assert!(refused.contains("earmark keys create"), "{refused}");
    assert!(home.fails(2, &["serve", "--listen", "here"]).contains("ADDRESS:PORT"));
}

#[test]
fn a_taken_address_is_named() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(home.fails(4, &["serve", "--listen", &address]).contains("taken"));
}

#[test]
fn an_mcp_server_without_a_client_ends() {
    let home = Home::new();
    let output = home.command(&["mcp"]).stdin(Stdio::null()).output().unwrap();
    assert!(output.stdout.is_empty(), "standard output belongs to the protocol");
}
