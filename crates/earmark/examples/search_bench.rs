//! Measures search over many memories and prints one Markdown table.
//!
//! ```text
//! cargo run --release -p earmark --example search_bench -- --memories 200000 --dimension 384 --queries 1000
//! ```
//!
//! Vectors: `centres` random directions (default: one per 100 memories), each memory one of them plus noise
//! of the same length as the centre, so that a memory's nearest neighbours are close together as those of
//! real text are; queries are made the same way. Texts: 12 to 30 words of a vocabulary of 50,000 with
//! Zipf's frequencies. `remember` and `open` are by the clock; all
//! other times are medians of the processor time of all threads together, what one core would need, so that a busy
//! machine does not blur them. Recalls and the searches between them are shown by the clock as well: there they use
//! every core.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use earmark::store::{CandidateLog, DataFolder, EncoderStamp, Hit, Insert, RecallLog, Row, SlateEntry, Store};
use earmark::{Earmark, Error, Filter, NewMemory, Params, RecallRequest, Scope, Settings, vector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const K: usize = 20;
const VOCABULARY: f64 = 50_000.0;

struct Sizes {
    memories: usize,
    dimension: usize,
    queries: usize,
    centres: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sizes = sizes()?;
    let folder = tempfile::tempdir()?;
    let data = DataFolder::open(folder.path())?;
    let store = data.open_namespace("bench", true)?;
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let centres: Vec<Vec<f32>> = (0..sizes.centres).map(|_| direction(&mut random, sizes.dimension)).collect();

    let start = Instant::now();
    fill(&store, &sizes, &centres, &mut random)?;
    let filled = start.elapsed();
    drop(store);
    // Lets the process that wrote go, segments made by the first opening.
    drop(data.open_namespace("bench", false)?);
    let before = resident_bytes();
    let start = Instant::now();
    let store = data.open_namespace("bench", false)?;
    let opened = start.elapsed();
    let heap = resident_bytes().saturating_sub(before);

    let queries: Vec<Vec<f32>> = (0..sizes.queries).map(|_| near(&centres, &mut random)).collect();
    let texts: Vec<String> = (0..sizes.queries).map(|_| sentence(&mut random, 6)).collect();
    println!("{} memories of {} dimensions, {} queries, top {K}\n", sizes.memories, sizes.dimension, sizes.queries);
    println!("| what | result |\n|---|---|");
    row("remember, per memory (batches of 1,000)", &time(filled / sizes.memories as u32));
    row("open", &time(opened));
    let usage = store.disk_usage()?;
    let per = |bytes: u64| format!("{} bytes", bytes / sizes.memories as u64);
    row("database, per memory", &per(usage.database_bytes));
    row("segments (cache), per memory", &per(usage.segments_bytes));
    row("resident after open, per memory", &per(heap));
    measure_search(&store, &sizes, &queries)?;
    measure_scopes(&store, &queries)?;
    measure_words(&store, &texts)?;
    measure_fts5(folder.path(), &store, &texts)?;
    measure_stages(&store, &queries, &texts)?;
    measure_log(&store, &queries, &texts)?;
    drop(store);
    for (name, params) in [("default", Params::default()), ("paper", Params::paper())] {
        measure_recall(folder.path(), name, params, &queries, &texts)?;
    }
    row("resident in the end", &format!("{} MB", resident_bytes() >> 20));
    Ok(())
}

fn measure_search(store: &Store, sizes: &Sizes, queries: &[Vec<f32>]) -> earmark::Result<()> {
    let rows: Vec<Row> = store.list(&Scope::default(), None, sizes.memories)?.into_iter().map(|(row, _)| row).collect();
    let flat: Vec<f32> =
        rows.chunks(10_000).map(|rows| store.vectors(rows)).collect::<earmark::Result<Vec<_>>>()?.concat().concat();
    let everything = Scope::default();
    let (mut scans, mut searches, mut same) = (Vec::new(), Vec::new(), 0);
    for query in queries {
        let start = ProcessTime::now();
        let expected = black_box(scan(&flat, &rows, query));
        scans.push(start.elapsed());
        let start = ProcessTime::now();
        let found = black_box(store.search(query, K, &everything)?);
        searches.push(start.elapsed());
        same += usize::from(expected.iter().map(|hit| hit.row).eq(found.iter().map(|hit| hit.row)));
    }
    let (scan, search) = (median(scans), median(searches));
    row("plain f32 scan", &time(scan));
    row("search", &time(search));
    row("search / plain scan", &format!("{:.2}", search.as_secs_f64() / scan.as_secs_f64()));
    row("same top 20", &format!("{:.2} % of {} queries", 100.0 * same as f64 / queries.len() as f64, queries.len()));
    Ok(())
}

fn measure_scopes(store: &Store, queries: &[Vec<f32>]) -> earmark::Result<()> {
    let filters = [
        ("1 of 1,000 users", json!({"user_id": "u7"})),
        ("1 % by metadata", json!({"share": {"lt": 10}})),
        ("10 % by metadata", json!({"share": {"lt": 100}})),
        ("50 % by metadata", json!({"share": {"lt": 500}})),
        ("50 % and 1 of 1,000 users", json!({"AND": [{"share": {"lt": 500}}, {"user_id": "u7"}]})),
        ("NOT 1 of 2 kinds (50 %)", json!({"NOT": {"kind": "even"}})),
        (
            "10 of 1,000 users by OR",
            json!({"OR": (0..10).map(|u| json!({"user_id": format!("u{u}")})).collect::<Vec<_>>()}),
        ),
    ];
    for (name, filter) in filters {
        let scope = Scope { filter: Some(Filter::parse(&filter)?), ..Scope::default() };
        let times = queries.iter().take(200).map(|query| timed(|| store.search(query, K, &scope)));
        row(&format!("search, {name}"), &time(median(times.collect::<earmark::Result<_>>()?)));
    }
    // Nothing is kept yet of a filter that nobody asked before.
    for (name, most) in [("10 %", 100), ("50 %", 500), ("90 %", 900)] {
        let first = queries.iter().take(40).enumerate().map(|(i, query)| {
            let filter = Filter::parse(&json!({"AND": [{"share": {"lt": most}}, {"share": {"ne": 2_000 + i}}]}))?;
            let scope = Scope { filter: Some(filter), ..Scope::default() };
            timed(|| store.search(query, K, &scope))
        });
        row(
            &format!("search, {name} by a filter asked for the first time"),
            &time(median(first.collect::<earmark::Result<_>>()?)),
        );
    }
    Ok(())
}

fn measure_words(store: &Store, texts: &[String]) -> earmark::Result<()> {
    let everything = Scope::default();
    let times = texts.iter().map(|text| timed(|| store.search_words(text, K, &everything)));
    row("search_words, 6 words", &time(median(times.collect::<earmark::Result<_>>()?)));
    let common = (0..20).map(word).collect::<Vec<_>>().join(" ");
    let times = (0..20).map(|_| timed(|| store.search_words(&common, K, &everything)));
    row("search_words, the 20 most common words", &time(median(times.collect::<earmark::Result<_>>()?)));
    let rows: Vec<Row> = (1..=50).map(Row).collect();
    let times = texts.iter().map(|text| timed(|| store.word_scores(text, &rows)));
    row("word_scores of 50", &time(median(times.collect::<earmark::Result<_>>()?)));
    Ok(())
}

/// SQLite's own full-text search on the same texts: the same kind of query, words joined by OR, the best 20 by BM25.
fn measure_fts5(folder: &Path, store: &Store, texts: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let mut database = rusqlite::Connection::open(folder.join("fts5.db"))?;
    database.execute_batch("CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='porter unicode61')")?;
    let start = Instant::now();
    let mut after = None;
    let mut rows = 0u32;
    loop {
        let page = store.list(&Scope::default(), after, 1_000)?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        let transaction = database.transaction()?;
        for (row, memory) in &page {
            transaction
                .prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?
                .execute((row.0, &memory.content))?;
            rows += 1;
        }
        transaction.commit()?;
    }
    row("FTS5: add, per memory", &time(start.elapsed() / rows.max(1)));
    let bytes = std::fs::metadata(folder.join("fts5.db"))?.len();
    row("FTS5: index, per memory", &format!("{} bytes", bytes / u64::from(rows.max(1))));
    let search = |text: &str| -> rusqlite::Result<usize> {
        let sql = "SELECT rowid, bm25(words) FROM words WHERE words MATCH ?1 ORDER BY rank LIMIT 20";
        let mut statement = database.prepare_cached(sql)?;
        let found =
            statement.query_map([text.split(' ').collect::<Vec<_>>().join(" OR ")], |row| row.get::<_, i64>(0))?;
        Ok(found.flatten().count())
    };
    let median_of = |texts: &[String]| -> rusqlite::Result<Duration> {
        let times = texts.iter().map(|text| {
            let start = ProcessTime::now();
            black_box(search(text)?);
            Ok(start.elapsed())
        });
        Ok(median(times.collect::<rusqlite::Result<_>>()?))
    };
    row("FTS5: search, 6 words", &time(median_of(&texts[..texts.len().min(50)])?));
    let common = (0..20).map(word).collect::<Vec<_>>().join(" ");
    row("FTS5: search, the 20 most common words", &time(median_of(&vec![common; 5])?));
    Ok(())
}

fn measure_log(store: &Store, queries: &[Vec<f32>], texts: &[String]) -> earmark::Result<()> {
    let before = store.disk_usage()?.database_bytes;
    let mut times = Vec::new();
    let calls = queries.iter().zip(texts).cycle().take(5_000);
    for (i, (query, text)) in calls.enumerate() {
        let candidates: Vec<CandidateLog> = (0..50)
            .map(|c| CandidateLog { row: Row(1 + (i * 50 + c) as i64 % 1_000), features: vec![0.5; 8] })
            .collect();
        let slate = candidates.iter().take(5).map(|c| SlateEntry { row: c.row, explored: false }).collect();
        let log = RecallLog {
            id: format!("rc_{i}"),
            query: text.clone(),
            query_vector: query.clone(),
            scope_json: "{}".to_owned(),
            learning_version: 0,
            recipe: "default".to_owned(),
            candidates,
            slate,
            created_at: jiff::Timestamp::now(),
        };
        times.push(timed(|| store.log_recall(&log))?);
    }
    row("log_recall, 50 candidates of 8 features", &time(median(times)));
    let grown = store.disk_usage()?.database_bytes.saturating_sub(before);
    row("log_recall, bytes on disk", &format!("{} bytes", grown / 5_000));
    Ok(())
}

/// The parts of a recall under the `default` recipe, one by one.
fn measure_stages(store: &Store, queries: &[Vec<f32>], texts: &[String]) -> earmark::Result<()> {
    const ARM: usize = 150;
    const CANDIDATES: usize = 75;
    let mut times = [const { Vec::new() }; 7];
    for (query, text) in queries.iter().zip(texts).take(200) {
        let everything = Scope::default();
        let mut measure = |stage: usize, run: &mut dyn FnMut() -> earmark::Result<Vec<Row>>| {
            let start = Instant::now();
            let rows = run()?;
            times[stage].push(start.elapsed());
            earmark::Result::Ok(rows)
        };
        let rows = |hits: Vec<Hit>| hits.into_iter().map(|hit| hit.row).collect::<Vec<Row>>();
        let dense = measure(0, &mut || Ok(rows(store.search(query, ARM, &everything)?)))?;
        let lexical = measure(1, &mut || Ok(rows(store.search_words(text, ARM, &everything)?.hits)))?;
        measure(2, &mut || store.cosine_moments(query).map(|_| Vec::new()))?;
        measure(3, &mut || store.cosines(query, &lexical).map(|_| Vec::new()))?;
        let chosen: Vec<Row> = dense.iter().chain(&lexical).copied().step_by(4).take(CANDIDATES).collect();
        measure(4, &mut || store.memories(&chosen).map(|_| Vec::new()))?;
        measure(5, &mut || store.vectors(&chosen).map(|_| Vec::new()))?;
        let memories = store.memories(&chosen)?;
        measure(6, &mut || store.neighbours(&memories, 2).map(|_| Vec::new()))?;
    }
    let names = [
        "search, 150",
        "search_words, 150",
        "cosine_moments",
        "cosines of 150",
        "memories of 75",
        "vectors of 75",
        "neighbours of 75",
    ];
    for (name, times) in names.iter().zip(times) {
        row(&format!("stage: {name}"), &time(median(times)));
    }
    Ok(())
}

/// A whole recall with the vector given: search, words, evidence, ranking, logging, answer; against the search of
/// the same queries in between, by the clock.
fn measure_recall(
    folder: &Path,
    recipe: &str,
    params: Params,
    queries: &[Vec<f32>],
    texts: &[String],
) -> earmark::Result<()> {
    let no_encoder = || Err(Error::Encoder { model: "none".into(), reason: "vectors are given".into() });
    let memory = Earmark::open(folder, Settings { params, ..Settings::default() }, no_encoder)?.namespace("bench")?;
    let (mut recalls, mut searches) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for (query, text) in queries.iter().zip(texts).take(200) {
        let request = RecallRequest { query_vector: Some(query.clone()), ..RecallRequest::new(text) };
        both_clocks(&mut recalls, || memory.recall(&request).map(drop))?;
        both_clocks(&mut searches, || memory.store().search(query, K, &Scope::default()).map(drop))?;
    }
    let ([clock, core], [search_clock, search_core]) = (recalls.map(median), searches.map(median));
    let ratio = |a: Duration, b: Duration| format!("{:.2}", a.as_secs_f64() / b.as_secs_f64());
    row(&format!("recall, recipe {recipe}, by the clock / on one core"), &format!("{} / {}", time(clock), time(core)));
    row("search between them, by the clock / on one core", &format!("{} / {}", time(search_clock), time(search_core)));
    row(&format!("recall, recipe {recipe}, by the clock / search on one core"), &ratio(clock, search_core));
    row(&format!("recall, recipe {recipe} / search, both by the clock"), &ratio(clock, search_clock));
    row(&format!("recall, recipe {recipe} / search, both on one core"), &ratio(core, search_core));
    Ok(())
}

fn fill(store: &Store, sizes: &Sizes, centres: &[Vec<f32>], random: &mut ChaCha8Rng) -> earmark::Result<()> {
    store.stamp_encoder(&EncoderStamp { model: "bench".to_owned(), dimension: sizes.dimension })?;
    for start in (0..sizes.memories).step_by(1_000) {
        let items = (start..(start + 1_000).min(sizes.memories)).map(|i| insert(i, centres, random)).collect();
        store.insert(items)?;
    }
    Ok(())
}

fn insert(i: usize, centres: &[Vec<f32>], random: &mut ChaCha8Rng) -> Insert {
    let words = random.random_range(12..=30);
    let mut memory = NewMemory::new(format!("{} number{i}", sentence(random, words)));
    memory.user_id = Some(format!("u{}", random.random_range(0..1_000)));
    memory.session_id = Some(format!("s{}", i / 30));
    memory.kind = Some(if i.is_multiple_of(2) { "even" } else { "odd" }.to_owned());
    memory.metadata.insert("share".to_owned(), json!(random.random_range(0..1_000)));
    Insert { words: memory.content.clone(), vector: near(centres, random), memory }
}

fn scan(flat: &[f32], rows: &[Row], query: &[f32]) -> Vec<Hit> {
    let mut best: Vec<Hit> = Vec::with_capacity(K + 1);
    for (vector, row) in flat.chunks_exact(query.len()).zip(rows) {
        let score = vector::dot(query, vector);
        if best.len() < K || score > best[K - 1].score {
            let at = best.partition_point(|hit| hit.score >= score);
            best.insert(at, Hit { row: *row, score });
            best.truncate(K);
        }
    }
    best
}

fn direction(random: &mut ChaCha8Rng, dimension: usize) -> Vec<f32> {
    let mut normal = || (0..6).map(|_| random.random::<f32>()).sum::<f32>() - 3.0;
    let mut vector: Vec<f32> = (0..dimension).map(|_| normal()).collect();
    vector::normalize(&mut vector);
    vector
}

fn near(centres: &[Vec<f32>], random: &mut ChaCha8Rng) -> Vec<f32> {
    let centre = &centres[random.random_range(0..centres.len())];
    let noise = direction(random, centre.len());
    let mut vector: Vec<f32> = centre.iter().zip(noise).map(|(c, n)| c + n).collect();
    vector::normalize(&mut vector);
    vector
}

/// Ranks drawn so that the r-th word is about 1/r as frequent as the first.
fn sentence(random: &mut ChaCha8Rng, words: usize) -> String {
    let rank = |random: &mut ChaCha8Rng| (VOCABULARY.powf(random.random::<f64>()) - 1.0) as usize;
    (0..words).map(|_| word(rank(random))).collect::<Vec<_>>().join(" ")
}

fn word(rank: usize) -> String {
    let letters = |mut n: usize| {
        let mut word = String::new();
        while n > 0 {
            word.push(char::from(b'a' + (n % 26) as u8));
            n /= 26;
        }
        word
    };
    format!("w{}", letters(rank + 1))
}

fn both_clocks(times: &mut [Vec<Duration>; 2], work: impl FnOnce() -> earmark::Result<()>) -> earmark::Result<()> {
    let (clock, core) = (Instant::now(), ProcessTime::now());
    work()?;
    times[0].push(clock.elapsed());
    times[1].push(core.elapsed());
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> earmark::Result<T>) -> earmark::Result<Duration> {
    let start = ProcessTime::now();
    black_box(work()?);
    Ok(start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn time(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1_000.0)
}

fn row(what: &str, result: &str) {
    println!("| {what} | {result} |");
}

/// Memory of this process in use, mapped files included; 0 where the system does not say.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4_096
}

fn sizes() -> Result<Sizes, Box<dyn std::error::Error>> {
    let mut sizes = Sizes { memories: 200_000, dimension: 384, queries: 1_000, centres: 0 };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err("every flag needs a number".into()) };
        let field = match name.as_str() {
            "--memories" => &mut sizes.memories,
            "--dimension" => &mut sizes.dimension,
            "--queries" => &mut sizes.queries,
            "--centres" => &mut sizes.centres,
            _ => {
                return Err(
                    format!("unknown flag {name}; known are --memories, --dimension, --queries, --centres").into()
                );
            }
        };
        *field = value.parse()?;
    }
    if sizes.centres == 0 {
        sizes.centres = (sizes.memories / 100).max(1);
    }
    Ok(sizes)
}
