//! Cost of one learning step (K = 20, T = 4, four replays a query; update after 1 query and after 4), beside NumPy's.
//!
//! `cargo run --release -p earmark --example step_bench -- --python PATH --threads 1 --dimensions 384,768`
//!
//! The interpreter needs NumPy; without `--python` only our own times are printed. Both sides run in turn, several
//! times, and each shows its lowest time, so that a busy machine hurts neither alone. `--clock cpu` (Linux) takes the
//! mean CPU time of the process instead of the median wall time.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use earmark::Params;
use earmark::learn::{Experience, Learner};
use earmark::random::{Random, Seeded, sample};
use earmark::recall::{Adapter, Candidate, Closed, Label, Pool, Round};
use ndarray::Array2;

const CANDIDATES: usize = 20;
const SLATE: usize = 5;
const ROUNDS: usize = 4;
const REPLAYS: usize = 4;

struct Options {
    python: Option<String>,
    threads: usize,
    dimensions: Vec<usize>,
    seconds: f64,
    repeats: usize,
    clock: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    rayon::ThreadPoolBuilder::new().num_threads(options.threads).build_global()?;
    println!(
        "threads: {}, clock: {}, K = {CANDIDATES}, T = {ROUNDS}, replays: {REPLAYS}\n",
        options.threads, options.clock
    );
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
    let mut options =
        Options { python: None, threads: 1, dimensions, seconds: 1.0, repeats: 3, clock: "wall".to_owned() };
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--python" => options.python = Some(value),
            "--threads" => options.threads = value.parse()?,
            "--seconds" => options.seconds = value.parse()?,
            "--clock" => options.clock = value,
            "--repeats" => options.repeats = value.parse()?,
            "--dimensions" => options.dimensions = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            other => return Err(format!("unknown flag {other}").into()),
        }
    }
    Ok(options)
}

fn row(options: &Options, dimension: usize, batch: usize) -> Result<String, Box<dyn std::error::Error>> {
    let mut random = Seeded::new(1);
    let queries: Vec<_> = (0..batch).map(|_| query(dimension, &mut random)).collect();
    let params = Params { batch_size: batch, ..Params::paper() };
    let mut learner = Learner::from_adapter(&params, Adapter::zeros(dimension));
    let mut best = [f64::INFINITY; 3];
    for _ in 0..options.repeats {
        if let Some(python) = &options.python {
            let [plain, batched] = numpy_ms(python, options, dimension, batch)?;
            best = [best[0], best[1].min(plain), best[2].min(batched)];
        }
        let mut step = || {
            for (closed, replayed) in &queries {
                learner.learn(closed, replayed, &mut random);
            }
        };
        best[0] = best[0].min(cost_ms(&mut step, options)?);
    }
    let [ours, plain, batched] = best;
    let show = |ms: f64| match ms.is_finite() {
        true => format!("{ms:.2} | {:.1}", ms / ours),
        false => "- | -".to_owned(),
    };
    Ok(format!("| {dimension} | {batch} | {ours:.2} | {} | {} |", show(plain), show(batched)))
}

/// A closed recall and the experiences replayed with it.
fn query(dimension: usize, random: &mut Seeded) -> (Closed, Vec<Arc<Experience>>) {
    let replayed = (0..REPLAYS).map(|_| Arc::new(Experience::of(&closed(dimension, random)))).collect();
    (closed(dimension, random), replayed)
}

fn closed(dimension: usize, random: &mut Seeded) -> Closed {
    let mut draw = |rows| Array2::from_shape_fn((rows, dimension), |_| random.uniform() as f32 - 0.5);
    let query = draw(1).into_raw_vec_and_offset().0;
    let pool = Pool::new(query, draw(CANDIDATES)).expect("finite vectors of one dimension");
    Closed { pool: Arc::new(pool), rounds: (0..ROUNDS).map(|_| round(random)).collect() }
}

fn round(random: &mut Seeded) -> Round {
    let slate = sample(CANDIDATES, SLATE, random).into_iter().map(Candidate).collect();
    let labels = (0..SLATE).map(|_| Some(Label::from_useful(random.uniform() < 0.5))).collect();
    Round { slate, labels, noise: Vec::new() }
}

fn cost_ms(step: &mut dyn FnMut(), options: &Options) -> Result<f64, Box<dyn std::error::Error>> {
    step();
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    let (mut times, cpu) = (Vec::new(), cpu_ms()?);
    while times.len() < 5 || Instant::now() < end {
        let start = Instant::now();
        step();
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    if options.clock == "cpu" {
        return Ok((cpu_ms()? - cpu) / times.len() as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// CPU time of all threads so far; 0 where the system does not say.
fn cpu_ms() -> Result<f64, Box<dyn std::error::Error>> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Ok(0.0) };
    let mut nanoseconds = 0.0;
    for thread in threads {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        nanoseconds += text.split(' ').next().unwrap_or("0").parse::<f64>()?;
    }
    Ok(nanoseconds / 1e6)
}

fn numpy_ms(
    python: &str,
    options: &Options,
    dimension: usize,
    queries: usize,
) -> Result<[f64; 2], Box<dyn std::error::Error>> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../reference/step_bench.py");
    let threads = options.threads.to_string();
    let output = Command::new(python)
        .arg(script)
        .args([dimension.to_string(), queries.to_string(), options.seconds.to_string(), options.clock.clone()])
        .envs(["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, &threads)))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    let times: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    <[f64; 2]>::try_from(times).map_err(|_| format!("unexpected output of NumPy: {text}").into())
}
