//! One scenario through the library, the command line, HTTP and MCP: the answers are the same.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use earmark::{
    Earmark, Feedback, Filter, Forget, Namespace, NewMemory, RecallRequest, Scope, Settings,
    encode::{Remote, RemoteOptions},
};
use serde_json::{Value, json};

use crate::support::{Home, text};

/// What every surface can do. A recall is answered by its JSON; an error by `{"error": sentence}`.
trait Surface {
    fn remember(&mut self, memory: &Value) -> Value;
    fn recall(&mut self, query: &str, top_k: usize, filters: &Value) -> Value;
    fn feedback(&mut self, recall_id: &str, answer: &str) -> Value;
    fn forget(&mut self, filters: &Value) -> Value;
    fn status(&mut self) -> Value;
}

#[test]
fn four_surfaces_give_equal_answers() {
    let home = Home::new();
    let library = played(&mut Library::open(&home));
    for expected in ["The gate code is 4471.", "blank", "rc_none", "near"] {
        assert!(library.to_string().contains(expected), "the scenario shows nothing of `{expected}`");
    }
    let others: [(&str, Box<dyn Surface>); 3] = [
        ("command line", Box::new(CommandLine(Home::with(home.stub.clone())))),
        ("HTTP", Box::new(Http::start(Home::with(home.stub.clone())))),
        ("MCP", Box::new(Mcp::start(Home::with(home.stub.clone())))),
    ];
    for (name, mut surface) in others {
        let played = played(surface.as_mut());
        for (step, (ours, theirs)) in library.as_array().unwrap().iter().zip(played.as_array().unwrap()).enumerate() {
            assert_eq!(ours, theirs, "step {step} over {name}");
        }
    }
}

/// Everything that a scenario shows, without ids and times.
fn played(surface: &mut dyn Surface) -> Value {
    let mut seen = Vec::new();
    for memory in [
        json!({"content": "The gate code is 4471.", "author": "Ana", "tags": ["home"], "metadata": {"n": 1}}),
        json!({"content": "The gate opens at nine.", "author": "Ben", "metadata": {"n": "1"}}),
        json!({"content": "The bin day is Tuesday.", "tags": ["home", "bins"], "metadata": {"n": 2.5}}),
        json!({"content": "Der Schlüssel 🗝 hängt am Tor.", "metadata": {"deep": {"key": true}}}),
        json!({"content": "The gate code is 4471.", "author": "Ana", "tags": ["home"], "metadata": {"n": 1}}),
        json!({"content": "   "}),
    ] {
        seen.push(created(&surface.remember(&memory)));
    }
    let no_filter = Value::Null;
    let first = surface.recall("what is the gate code?", 3, &no_filter);
    seen.push(shown(&first));
    for filters in [
        json!({"n": 1}),
        json!({"tags": {"contains": "home"}}),
        json!({"NOT": {"author": "Ana"}}),
        json!({"deep.key": true}),
        json!({"n": {"near": 1}}),
        json!({"AND": [{"n": {"gt": 0}}, {"content": {"icontains": "BIN"}}]}),
    ] {
        seen.push(shown(&surface.recall("gate", 10, &filters)));
    }
    seen.push(shown(&surface.recall(" ", 3, &no_filter)));
    seen.push(shown(&surface.recall("gate", 0, &no_filter)));
    let report = surface.feedback(first["recall_id"].as_str().unwrap(), "It opens at nine [2], not [7].");
    seen.push(json!([count(&report["useful"]), count(&report["not_useful"]), report["unknown_citations"]]));
    seen.push(surface.feedback("rc_none", "So [1]."));
    learned(surface);
    seen.push(shown(&surface.recall("what is the gate code?", 3, &no_filter)));
    seen.push(surface.forget(&json!({"tags": {"contains": "bins"}})));
    seen.push(shown(&surface.recall("bin day", 10, &no_filter)));
    let status = surface.status();
    seen.push(json!([status["recalls"], status["experiences"], status["labels"]]));
    seen.into()
}

fn created(answer: &Value) -> Value {
    let one = answer.get("memories").unwrap_or(answer);
    if answer.get("error").is_some() { answer.clone() } else { one[0]["created"].clone() }
}

fn count(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn shown(recall: &Value) -> Value {
    let Some(results) = recall["results"].as_array() else { return recall["error"].clone() };
    let one = |r: &Value| {
        let score = (r["score"].as_f64().unwrap() * 1e3).round();
        json!([r["rank"], r["content"], r["author"], r["tags"], r["metadata"], r["base_rank"], score])
    };
    json!([recall["learning_version"], recall["context"], results.iter().map(one).collect::<Vec<_>>()])
}

/// Waits until the feedback is learned from, which servers do after they have answered.
fn learned(surface: &mut dyn Surface) {
    let started = Instant::now();
    while surface.status()["version"] != 1 {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing is learned");
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Library(Arc<Namespace>);

impl Library {
    fn open(home: &Home) -> Library {
        let base = home.stub.base.clone();
        let encoder = move || Ok(Arc::new(Remote::open(RemoteOptions::new(&base, "stub"))?) as _);
        let earmark = Earmark::open(home.path("library"), Settings::default(), encoder).unwrap();
        Library(earmark.namespace("default").unwrap())
    }
}

fn or_error<T: serde::Serialize>(result: earmark::Result<T>) -> Value {
    match result {
        Ok(value) => serde_json::to_value(value).unwrap(),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

impl Surface for Library {
    fn remember(&mut self, memory: &Value) -> Value {
        let memory: NewMemory = serde_json::from_value(memory.clone()).unwrap();
        or_error(self.0.remember(&[memory]))
    }

    fn recall(&mut self, query: &str, top_k: usize, filters: &Value) -> Value {
        let ask = || {
            let filter = if filters.is_null() { None } else { Some(Filter::parse(filters)?) };
            let scope = Scope { filter, ..Default::default() };
            self.0.recall(&RecallRequest { top_k: Some(top_k), scope, ..RecallRequest::new(query) })
        };
        or_error(ask())
    }

    fn feedback(&mut self, recall_id: &str, answer: &str) -> Value {
        or_error(self.0.feedback(recall_id, &Feedback { answer: Some(answer.to_owned()), ..Default::default() }))
    }

    fn forget(&mut self, filters: &Value) -> Value {
        let filter = Some(Filter::parse(filters).unwrap());
        json!({ "forgotten": self.0.forget(&Forget::Scope(Scope { filter, ..Default::default() })).unwrap() })
    }

    fn status(&mut self) -> Value {
        or_error(self.0.learning())
    }
}

struct CommandLine(Home);

impl CommandLine {
    fn json(&self, args: &[&str]) -> Value {
        let run = self.0.run(&[args, &["--json", "--quiet"]].concat());
        let printed = if run.code == 0 { &run.out } else { &run.err };
        let value: Value = serde_json::from_str(printed).unwrap_or_else(|e| panic!("{args:?}: {e}: {printed}"));
        match value.get("error") {
            Some(error) => json!({ "error": error["message"] }),
            None => value,
        }
    }
}

impl Surface for CommandLine {
    fn remember(&mut self, memory: &Value) -> Value {
        let metadata = memory["metadata"].to_string();
        let mut args = vec!["remember", memory["content"].as_str().unwrap()];
        if let Some(author) = memory["author"].as_str() {
            args.extend(["--author", author]);
        }
        for tag in memory["tags"].as_array().into_iter().flatten() {
            args.extend(["--tag", tag.as_str().unwrap()]);
        }
        if memory["metadata"].is_object() {
            args.extend(["--metadata", &metadata]);
        }
        self.json(&args)
    }

    fn recall(&mut self, query: &str, top_k: usize, filters: &Value) -> Value {
        let (top_k, filters_text) = (top_k.to_string(), filters.to_string());
        let mut args = vec!["recall", query, "-k", &top_k];
        if !filters.is_null() {
            args.extend(["--filter", &filters_text]);
        }
        self.json(&args)
    }

    fn feedback(&mut self, recall_id: &str, answer: &str) -> Value {
        self.json(&["feedback", recall_id, "--answer", answer])
    }

    fn forget(&mut self, filters: &Value) -> Value {
        self.json(&["forget", "--filter", &filters.to_string(), "--yes"])
    }

    fn status(&mut self) -> Value {
        self.json(&["learning", "status"])
    }
}

/// `earmark serve` on a port of the system's choice.
struct Http {
    _home: Home,
    server: Child,
    address: String,
}

impl Http {
    fn start(home: Home) -> Http {
        let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(server.stderr.take().unwrap()).lines();
        let mut addresses = lines
            .map_while(Result::ok)
            .filter_map(|line| Some(line.split_once("listening on http://")?.1.split(' ').next()?.to_owned()));
        let address = addresses.next().expect("the server names its address");
        Http { _home: home, server, address }
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (address, length) = (&self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let value: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        match value.get("detail") {
            Some(detail) => json!({ "error": detail }),
            None => value,
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Surface for Http {
    fn remember(&mut self, memory: &Value) -> Value {
        self.send("POST", "/v1/memories", memory)
    }

    fn recall(&mut self, query: &str, top_k: usize, filters: &Value) -> Value {
        self.send("POST", "/v1/recall", &json!({"query": query, "top_k": top_k, "filters": filters}))
    }

    fn feedback(&mut self, recall_id: &str, answer: &str) -> Value {
        self.send("POST", &format!("/v1/recalls/{recall_id}/feedback"), &json!({"answer": answer}))
    }

    fn forget(&mut self, filters: &Value) -> Value {
        let encoded: String = filters.to_string().bytes().map(|b| format!("%{b:02x}")).collect();
        self.send("DELETE", &format!("/v1/memories?filters={encoded}"), &Value::Null)
    }

    fn status(&mut self) -> Value {
        self.send("GET", "/v1/learning", &Value::Null)
    }
}

/// `earmark mcp`, spoken to in lines.
struct Mcp {
    _home: Home,
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Mcp {
    fn start(home: Home) -> Mcp {
        let mut command = home.command(&["mcp"]);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (server.stdin.take(), BufReader::new(server.stdout.take().unwrap()));
        let mut mcp = Mcp { _home: home, server, input, output, id: 0 };
        let client = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        assert_eq!(mcp.ask("initialize", &hello)["serverInfo"]["name"], "earmark");
        mcp.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        mcp
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(answer["id"], self.id, "{answer}");
        answer["result"].clone()
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        match result["isError"] == true {
            true => json!({ "error": text(&result["content"][0], "text") }),
            false => result["structuredContent"].clone(),
        }
    }
}

impl Drop for Mcp {
    /// The end of the input is the end of the server.
    fn drop(&mut self) {
        drop(self.input.take());
        let ended = self.server.wait();
        if !std::thread::panicking() {
            assert!(ended.is_ok_and(|status| status.success()), "the server ends well");
        }
    }
}

impl Surface for Mcp {
    fn remember(&mut self, memory: &Value) -> Value {
        self.call("remember", memory.clone())
    }

    fn recall(&mut self, query: &str, top_k: usize, filters: &Value) -> Value {
        self.call("recall", json!({"query": query, "top_k": top_k, "filters": filters}))
    }

    fn feedback(&mut self, recall_id: &str, answer: &str) -> Value {
        self.call("feedback", json!({"recall_id": recall_id, "answer": answer}))
    }

    fn forget(&mut self, filters: &Value) -> Value {
        self.call("forget", json!({"filters": filters}))
    }

    fn status(&mut self) -> Value {
        self.call("memory_status", json!({}))["learning"].clone()
    }
}
