//! Killed at random points: what was acknowledged is there, and nothing is half there.
//!
//! `EARMARK_KILLS=200` sets the number of kills (20 without it).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use earmark::store::{Label, RecallState, Row, Store, What};
use earmark::{NewMemory, Scope};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::processes::{child_folder, start_child};
use super::{assert_whole, encode, item, log, open, remember_text};

/// What the children said that they had done.
#[derive(Default)]
struct Acknowledged {
    remembered: BTreeMap<String, String>,
    forgotten: BTreeSet<String>,
    /// Ids on which a forget was begun; whether it happened is open until it is acknowledged.
    forgetting: BTreeSet<String>,
    logged: BTreeSet<String>,
    closed: BTreeSet<String>,
}

impl Acknowledged {
    fn read(&mut self, line: &str) {
        let Some((_, said)) = line.trim_end().split_once("ACK ") else { return };
        let Some((what, rest)) = said.split_once(' ') else { return };
        let rest = rest.to_owned();
        match what {
            "remember" => {
                if let Some((id, text)) = rest.split_once(' ') {
                    self.remembered.insert(id.to_owned(), text.to_owned());
                }
            }
            "forgetting" => drop(self.forgetting.insert(rest)),
            "forget" => drop(self.forgotten.insert(rest)),
            "log" => drop(self.logged.insert(rest)),
            "close" => drop(self.closed.insert(rest)),
            _ => panic!("{line}"),
        }
    }

    fn check(&self, store: &Store) {
        for (id, text) in &self.remembered {
            let found = store.get(id).unwrap();
            match found {
                None => assert!(self.forgetting.contains(id), "{id} is lost"),
                Some(memory) => {
                    assert!(!self.forgotten.contains(id), "{id} is back");
                    assert_eq!(&memory.content, text);
                }
            }
        }
        for id in &self.logged {
            assert!(store.recall(id).unwrap().is_some(), "recall {id} is lost");
        }
        for id in &self.closed {
            let recall = store.recall(id).unwrap().unwrap();
            match recall.state {
                RecallState::Closed => assert!(!recall.rounds[0].labels.is_empty()),
                // Its only memory was forgotten since.
                state => assert_eq!(state, RecallState::Expired),
            }
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost() {
    let kills = std::env::var("EARMARK_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(20);
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let mut random = ChaCha8Rng::seed_from_u64(kills);
    let mut acknowledged = Acknowledged::default();
    for kill in 0..kills {
        kill_one(folder.path(), &mut random, &mut acknowledged);
        let store = open(folder.path());
        acknowledged.check(&store);
        assert_whole(&store);
        let text = format!("after kill {kill}");
        let id = remember_text(&store, &text);
        assert_eq!(
            store.search(&encode(&text), 1, &Scope::default()).unwrap()[0].row,
            store.rows(&[&id]).unwrap()[0].unwrap()
        );
    }
    println!(
        "{kills} kills: {} remembered, {} forgotten, {} recalls, {} closed",
        acknowledged.remembered.len(),
        acknowledged.forgotten.len(),
        acknowledged.logged.len(),
        acknowledged.closed.len()
    );
    assert!(acknowledged.remembered.len() as u64 > kills && !acknowledged.closed.is_empty());
}

/// Lets a child work for some acknowledgements and a moment more, kills it, and takes down what it said.
fn kill_one(folder: &Path, random: &mut ChaCha8Rng, acknowledged: &mut Acknowledged) {
    let mut child = start_child("crash::child_until_killed", folder);
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..random.random_range(1..40) {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        acknowledged.read(&line);
    }
    std::thread::sleep(Duration::from_micros(random.random_range(0..20_000)));
    child.kill().unwrap();
    child.wait().unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    // A line that was cut off was not said.
    rest.split_inclusive('\n').filter(|line| line.ends_with('\n')).for_each(|line| acknowledged.read(line));
}

#[test]
fn child_until_killed() {
    let Some(folder) = child_folder() else { return };
    let store = open(&folder);
    let run = uuid::Uuid::now_v7().simple().to_string();
    let say = |words: String| {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("ACK {words}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    };
    for i in 0.. {
        let text = format!("text {i} of run {run}");
        // Several at once, so that there is something to be half of.
        let batch = (0..5).map(|part| item(NewMemory::new(format!("{text} part {part}")))).collect();
        let stored = store.insert(batch).unwrap();
        stored.iter().enumerate().for_each(|(part, memory)| say(format!("remember {} {text} part {part}", memory.id)));
        let rows: Vec<Row> =
            store.search(&encode(&text), 5, &Scope::default()).unwrap().iter().map(|hit| hit.row).collect();
        let recall = format!("rc_{run}_{i}");
        store.log_recall(&log(&recall, &rows)).unwrap();
        say(format!("log {recall}"));
        if i % 2 == 0 {
            let label = Label { row: rows[0], useful: true, source: "user".to_owned() };
            store.close_recall(&recall, &[(0, label)]).unwrap();
            say(format!("close {recall}"));
        }
        if i % 3 == 0 {
            let gone: Vec<String> = stored[..2].iter().map(|memory| memory.id.clone()).collect();
            gone.iter().for_each(|id| say(format!("forgetting {id}")));
            store.forget(What::Ids(&gone)).unwrap();
            gone.iter().for_each(|id| say(format!("forget {id}")));
        }
    }
}
