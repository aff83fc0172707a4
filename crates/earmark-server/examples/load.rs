//! Load on a real `earmark serve`, then kill -9 in mid-load: requests per second, times, memory, and what was lost.
//!
//! `cargo build --release -p earmark-cli && cargo run --release -p earmark-server --example load -- [--memories N]
//! [--connections N] [--seconds N] [--kills N] [--dimension N] [--binary PATH]`; the encoder comes from `EARMARK_*`
//! variables. 80 % recalls with the query's vector given, 15 % remembers, 5 % feedback. Prints one JSON object.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let options = Options::read()?;
    let folder = tempfile::tempdir()?;
    let loaded = Instant::now();
    fill(&options, folder.path())?;
    let filled_in = loaded.elapsed().as_secs_f64();
    let measured = measure(&options, folder.path())?;
    let killed = kills(&options, folder.path())?;
    let report = json!({
        "memories": options.memories, "connections": options.connections, "seconds": options.seconds,
        "import_seconds": filled_in, "load": measured, "kill_9": killed,
    });
    println!("{report}");
    Ok(())
}

struct Options {
    memories: usize,
    connections: usize,
    seconds: u64,
    kills: usize,
    dimension: usize,
    binary: PathBuf,
}

impl Options {
    fn read() -> Outcome<Options> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let named: HashMap<&str, &str> =
            arguments.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        let number = |name: &str, usual: usize| named.get(name).map_or(Ok(usual), |text| text.parse());
        Ok(Options {
            memories: number("--memories", 50_000)?,
            connections: number("--connections", 32)?,
            seconds: number("--seconds", 180)? as u64,
            kills: number("--kills", 10)?,
            dimension: number("--dimension", 256)?,
            binary: named.get("--binary").map_or("target/release/earmark", |path| path).into(),
        })
    }
}

/// Numbers from a seed, good enough to pick words with.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    /// Words as texts have them: few often, many seldom.
    fn sentence(&mut self, words: usize) -> String {
        let word = |dice: &mut Dice| format!("word{}", dice.roll(20) * dice.roll(20) * dice.roll(20));
        (0..words).map(|_| word(self)).collect::<Vec<_>>().join(" ")
    }

    fn vector(&mut self, dimension: usize) -> Vec<f32> {
        (0..dimension).map(|_| self.roll(2000) as f32 / 1000.0 - 1.0).collect()
    }
}

fn fill(options: &Options, data: &Path) -> Outcome<()> {
    let mut dice = Dice(1);
    let lines =
        (0..options.memories).map(|i| json!({"content": format!("{} number {i}", dice.sentence(12))}).to_string());
    let file = data.join("import.jsonl");
    fs::write(&file, lines.collect::<Vec<_>>().join("\n"))?;
    let done =
        Command::new(&options.binary).args(["import", "jsonl"]).arg(&file).arg("--data-dir").arg(data).status()?;
    if done.success() { Ok(()) } else { Err("the import failed".into()) }
}

struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(options: &Options, data: &Path) -> Outcome<Server> {
        let mut command = Command::new(&options.binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data).stderr(Stdio::piped());
        let mut process = command.spawn()?;
        let mut lines = BufReader::new(process.stderr.take().ok_or("no output")?).lines().map_while(Result::ok);
        let address =
            lines.find_map(|line| Some(line.split_once("listening on http://")?.1.split(' ').next()?.to_owned()));
        let server = Server { process, address: address.ok_or("the server did not start")? };
        // The rest of its output has to go somewhere.
        std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
        let (status, _) = Client::connect(&server.address)?.send("GET", "/readyz", "")?;
        if status == 200 { Ok(server) } else { Err("the server is not ready".into()) }
    }

    /// Resident memory.
    fn resident(&self) -> Outcome<Resident> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let read = |name: &str| -> Outcome<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| format!("no {name}"))?;
            Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? >> 10)
        };
        Ok(Resident { own: read("RssAnon:")?, files: read("RssFile:")? })
    }

    fn kill(mut self) -> Outcome<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

/// Resident memory in MiB.
struct Resident {
    /// Of the process alone.
    own: u64,
    /// Pages of files that are mapped, which the system takes back when it needs them.
    files: u64,
}

impl Resident {
    fn report(&self) -> Value {
        json!({ "all": self.own + self.files, "own": self.own, "files": self.files })
    }
}

/// One connection that is kept.
struct Client {
    stream: BufReader<TcpStream>,
    address: String,
}

impl Client {
    fn connect(address: &str) -> Outcome<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Client { stream: BufReader::new(stream), address: address.to_owned() })
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> Outcome<(u16, String)> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut head, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err("the connection ended".into());
            }
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            head.push(line);
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        let status = head.first().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or("no status")?;
        Ok((status, String::from_utf8(answer)?))
    }
}

/// What the workers saw.
#[derive(Default)]
struct Seen {
    millis: HashMap<&'static str, Vec<f64>>,
    errors: Vec<String>,
    stored: Vec<String>,
}

/// Sends until told to stop, or until the server is gone.
fn work(options: &Options, address: &str, seed: u64, stop: &AtomicBool, seen: &Mutex<Seen>) -> Outcome<()> {
    let (mut dice, mut client, mut open) = (Dice(seed), Client::connect(address)?, Vec::new());
    while !stop.load(Relaxed) {
        let roll = dice.roll(100);
        let (verb, path, body) = match roll {
            0..15 => {
                ("remember", "/v1/memories".to_owned(), json!({"content": format!("{} by {seed}", dice.sentence(12))}))
            }
            15..20 if !open.is_empty() => {
                let id: String = open.swap_remove(dice.roll(open.len()));
                ("feedback", format!("/v1/recalls/{id}/feedback"), json!({"answer": "It is so [1]."}))
            }
            _ => (
                "recall",
                "/v1/recall".to_owned(),
                json!({"query": dice.sentence(6), "query_vector": dice.vector(options.dimension)}),
            ),
        };
        let started = Instant::now();
        let (status, answer) = client.send("POST", &path, &body.to_string())?;
        let took = started.elapsed().as_secs_f64() * 1e3;
        let value: Value = serde_json::from_str(&answer)?;
        let mut seen = seen.lock().map_err(|e| e.to_string())?;
        seen.millis.entry(verb).or_default().push(took);
        if status != 200 {
            seen.errors.push(format!("{verb}: {answer}"));
        }
        if let Some(id) = value["recall_id"].as_str().filter(|_| verb == "recall") {
            open.push(id.to_owned());
            // The server lets go of the oldest of 10,000 that nobody closed.
            if open.len() > 100 {
                open.remove(0);
            }
        }
        if let Some(id) = value["memories"][0]["id"].as_str() {
            seen.stored.push(id.to_owned());
        }
    }
    Ok(())
}

/// Puts load on the server for a while; `during` is called every second.
fn load(options: &Options, address: &str, round: u64, time: Duration, mut during: impl FnMut()) -> Seen {
    let (stop, seen) = (AtomicBool::new(false), Mutex::new(Seen::default()));
    std::thread::scope(|scope| {
        for worker in 0..options.connections as u64 {
            let (stop, seen) = (&stop, &seen);
            scope.spawn(move || {
                let ended = work(options, address, 1 + worker + 1000 * round, stop, seen);
                if let (Err(error), Ok(mut seen)) = (ended, seen.lock()) {
                    seen.errors.push(error.to_string());
                }
            });
        }
        let started = Instant::now();
        while started.elapsed() < time {
            std::thread::sleep(Duration::from_secs(1).min(time.saturating_sub(started.elapsed())));
            during();
        }
        stop.store(true, Relaxed);
    });
    seen.into_inner().unwrap_or_default()
}

fn measure(options: &Options, data: &Path) -> Outcome<Value> {
    let server = Server::start(options, data)?;
    let idle = server.resident()?;
    let mut resident = Vec::new();
    let time = Duration::from_secs(options.seconds);
    let seen = load(options, &server.address, 0, time, || resident.extend(server.resident()));
    let count: usize = seen.millis.values().map(Vec::len).sum();
    let verbs: HashMap<_, _> = seen.millis.into_iter().map(|(verb, times)| (verb, summary(times))).collect();
    let every_30_s: Vec<Value> = resident.iter().skip(29).step_by(30).map(Resident::report).collect();
    let report = json!({
        "requests": count, "requests_per_second": count as f64 / options.seconds as f64, "verbs": verbs,
        "errors": seen.errors.len(), "first_errors": seen.errors.iter().take(3).collect::<Vec<_>>(),
        "resident_mib": {"idle": idle.report(), "every_30_s": every_30_s, "end": server.resident()?.report()},
    });
    server.kill()?;
    Ok(report)
}

fn summary(mut millis: Vec<f64>) -> Value {
    millis.sort_by(f64::total_cmp);
    let at = |share: f64| millis.get(((millis.len() as f64 * share) as usize).min(millis.len().saturating_sub(1)));
    json!({"count": millis.len(), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": millis.last()})
}

/// Kills the server in mid-load, again and again, and looks for what it had acknowledged.
fn kills(options: &Options, data: &Path) -> Outcome<Value> {
    let (mut acknowledged, mut lost) = (0, Vec::new());
    for round in 1..=options.kills as u64 {
        let server = Server::start(options, data)?;
        let address = server.address.clone();
        let mut server = Some(server);
        let started = Instant::now();
        let before = Duration::from_millis(1500 + 137 * round);
        let seen = load(options, &address, round, before + Duration::from_secs(1), || {
            if started.elapsed() >= before
                && let Some(server) = server.take()
            {
                let _ = server.kill();
            }
        });
        if let Some(server) = server.take() {
            server.kill()?;
        }
        let again = Server::start(options, data)?;
        let mut client = Client::connect(&again.address)?;
        acknowledged += seen.stored.len();
        for id in seen.stored {
            if client.send("GET", &format!("/v1/memories/{id}"), "")?.0 != 200 {
                lost.push(id);
            }
        }
        again.kill()?;
    }
    Ok(json!({"kills": options.kills, "acknowledged": acknowledged, "lost": lost.len()}))
}
