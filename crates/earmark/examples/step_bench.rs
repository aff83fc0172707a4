//! Cost of one learning step (K = 20, one query with four replays = 5 lessons, batch of 1 and of 4), beside NumPy's.
//!
//! `cargo run --release -p earmark --example step_bench -- --python PATH --threads 1 --dimensions 384,768`
//!
//! The interpreter needs NumPy; without `--python` only our own times are printed. Both sides run in turn, several
//! times, and each shows the lowest of its medians, so that a busy machine hurts neither alone.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use earmark::Params;
use earmark::learn::{Learner, Lesson, Term};
use earmark::random::{Random, Seeded, sample};
use earmark::recall::{Adapter, Pool};
use ndarray::Array2;

const CANDIDATES: usize = 20;
const SLATE: usize = 5;
const REPLAYS: usize = 4;

struct Options {
    python: Option<String>,
    threads: usize,
    dimensions: Vec<usize>,
    seconds: f64,
    repeats: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    rayon::ThreadPoolBuilder::new().num_threads(options.threads).build_global()?;
    println!("threads: {}, K = {CANDIDATES}, lessons per query: {}\n", options.threads, REPLAYS + 1);
    println!("| d | queries per step | earmark ms | NumPy reference ms | ratio | NumPy batched ms | ratio |");
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    for &dimension in &options.dimensions {
        for batch in [1, 4] {
            println!("{}", row(&options, dimension, batch)?);
        }
    }
    Ok(())
}

fn options() -> Result<Options, Box<dyn std::error::Error>> {
    let dimensions = vec![384, 768, 1536, 3584];
    let mut options = Options { python: None, threads: 1, dimensions, seconds: 1.0, repeats: 3 };
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--python" => options.python = Some(value),
            "--threads" => options.threads = value.parse()?,
            "--seconds" => options.seconds = value.parse()?,
            "--repeats" => options.repeats = value.parse()?,
            "--dimensions" => options.dimensions = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            other => return Err(format!("unknown flag {other}").into()),
        }
    }
    Ok(options)
}

fn row(options: &Options, dimension: usize, batch: usize) -> Result<String, Box<dyn std::error::Error>> {
    let lessons = lessons(dimension, batch * (REPLAYS + 1));
    let mut learner = Learner::from_adapter(&Params::paper(), Adapter::zeros(dimension));
    let mut best = [f64::INFINITY; 3];
    for _ in 0..options.repeats {
        if let Some(python) = &options.python {
            let [plain, batched] = numpy_ms(python, options, dimension, lessons.len())?;
            best = [best[0], best[1].min(plain), best[2].min(batched)];
        }
        best[0] = best[0].min(median_ms(|| drop(learner.step(&lessons)), options.seconds));
    }
    let [ours, plain, batched] = best;
    let show = |ms: f64| match ms.is_finite() {
        true => format!("{ms:.2} | {:.1}", ms / ours),
        false => "- | -".to_owned(),
    };
    Ok(format!("| {dimension} | {batch} | {ours:.2} | {} | {} |", show(plain), show(batched)))
}

fn lessons(dimension: usize, n: usize) -> Vec<Lesson> {
    let mut random = Seeded::new(1);
    (0..n).map(|_| lesson(dimension, n, &mut random)).collect()
}

fn lesson(dimension: usize, n: usize, random: &mut Seeded) -> Lesson {
    let mut draw = |rows| Array2::from_shape_fn((rows, dimension), |_| random.uniform() as f32 - 0.5);
    let query = draw(1).into_raw_vec_and_offset().0;
    let pool = Pool::new(query, draw(CANDIDATES)).expect("finite vectors of one dimension");
    let mut coefficients = vec![0.0; CANDIDATES];
    for place in sample(CANDIDATES, SLATE, random) {
        coefficients[place] = if random.uniform() < 0.3 { 0.1 } else { -0.3 };
    }
    let term = Term { coefficients, noise: Vec::new(), closed: Vec::new(), temperature: 1.0 };
    Lesson { pool: Arc::new(pool), terms: vec![term], weight: 1.0 / n as f32 }
}

fn median_ms(mut step: impl FnMut(), seconds: f64) -> f64 {
    step();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut times = Vec::new();
    while times.len() < 5 || Instant::now() < end {
        let start = Instant::now();
        step();
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn numpy_ms(
    python: &str,
    options: &Options,
    dimension: usize,
    lessons: usize,
) -> Result<[f64; 2], Box<dyn std::error::Error>> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../reference/step_bench.py");
    let threads = options.threads.to_string();
    let output = Command::new(python)
        .arg(script)
        .args([dimension.to_string(), lessons.to_string(), options.seconds.to_string()])
        .envs(["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, &threads)))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    let times: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    <[f64; 2]>::try_from(times).map_err(|_| format!("unexpected output of NumPy: {text}").into())
}
