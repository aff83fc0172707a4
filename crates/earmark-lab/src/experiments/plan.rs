//! Methods x seeds on one data set and one encoder, run in parallel, each run kept as soon as it is done.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use earmark::recall::Adapter;
use indicatif::ProgressBar;
use rayon::prelude::*;

use crate::by_type;
use crate::candidates::{self, Case, ceiling};
use crate::data::Dataset;
use crate::methods::{Inference, Method};
use crate::metrics::Scores;
use crate::rows::{self, CurvePoint, Row, RunKey};
use crate::runner::{self, Tested};
use crate::split::{Split, SplitKind};
use crate::text::MemoryText;

/// What is run on every encoder.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How questions are divided.
    pub split: SplitKind,
    /// `paper` or `default`.
    pub recipe: String,
    /// What is compared.
    pub methods: Vec<Method>,
    /// Seeds; each divides the questions anew.
    pub seeds: Vec<u64>,
    /// What text of a memory is encoded.
    pub memory_text: MemoryText,
    /// Numbers of training questions at which the learning curve is measured.
    pub checkpoints: Vec<usize>,
    /// At most so many training questions; `None` for all.
    pub train_limit: Option<usize>,
}

/// A folder of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultFolder(PathBuf);

/// A run and what it served.
#[derive(Debug, Clone)]
pub struct Served {
    /// What is kept of it.
    pub row: Row,
    /// For each test question the bank rows of its slate, best first.
    pub slates: Vec<Vec<usize>>,
}

/// The methods that share a trained adapter, with one seed.
struct Job<'a> {
    seed: u64,
    methods: Vec<&'a Method>,
}

impl ResultFolder {
    /// Opens or creates it; what a crash left half-written is dropped.
    ///
    /// # Errors
    /// If it cannot be created, or holds files of rows that cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).with_context(|| format!("{} cannot be created", path.display()))?;
        let folder = ResultFolder(path.to_owned());
        folder.tidy()?;
        Ok(folder)
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// README.md so far, empty in a new folder.
    pub fn readme(&self) -> String {
        std::fs::read_to_string(self.file("README.md")).unwrap_or_default()
    }

    /// All runs so far.
    ///
    /// # Errors
    /// If a line cannot be read.
    pub fn rows(&self) -> Result<Vec<Row>> {
        rows::read(&self.file("rows.jsonl"))
    }

    /// All points of learning curves so far.
    ///
    /// # Errors
    /// If a line cannot be read.
    pub fn curve(&self) -> Result<Vec<CurvePoint>> {
        rows::read(&self.file("curve.jsonl"))
    }

    /// Puts both files in order, each run once, so that equal results give equal files.
    ///
    /// # Errors
    /// If they cannot be read or written.
    pub fn tidy(&self) -> Result<()> {
        let mut rows = self.rows()?;
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        rows.dedup_by(|a, b| a.key == b.key);
        rows::replace(&self.file("rows.jsonl"), &rows)?;
        let mut curve = self.curve()?;
        curve.sort_by(|a, b| (&a.key, a.n_train).cmp(&(&b.key, b.n_train)));
        curve.dedup_by(|a, b| a.key == b.key && a.n_train == b.n_train);
        rows::replace(&self.file("curve.jsonl"), &curve)
    }
}

impl Plan {
    /// What one run is called.
    pub fn key(&self, dataset: &str, encoder: &str, method: &str, seed: u64) -> RunKey {
        RunKey {
            dataset: dataset.to_owned(),
            split: self.split.name(),
            encoder: encoder.to_owned(),
            recipe: self.recipe.clone(),
            method: method.to_owned(),
            seed,
        }
    }

    /// Whether the folder lacks a run of this encoder.
    ///
    /// # Errors
    /// If the folder holds runs with other settings.
    pub fn is_missing(&self, folder: &ResultFolder, dataset: &Dataset, encoder: &str) -> Result<bool> {
        Ok(!self.missing(&folder.rows()?, dataset, encoder)?.is_empty())
    }

    /// Takes over what `folder` lacks and `other` has: rows of the same settings, with their curves.
    ///
    /// # Errors
    /// If a folder cannot be read or written.
    pub fn take_over(
        &self,
        folder: &ResultFolder,
        other: &ResultFolder,
        dataset: &Dataset,
        encoder: &str,
    ) -> Result<()> {
        let (theirs, their_curve) = (other.rows()?, other.curve()?);
        let (mut rows, mut curve) = (Vec::new(), Vec::new());
        for job in self.missing(&folder.rows()?, dataset, encoder)? {
            let split = self.divide(dataset, job.seed);
            for method in job.methods {
                let key = self.key(&dataset.name, encoder, &method.name, job.seed);
                let found = theirs.iter().find(|row| row.key == key && self.is_of(row, method, &split));
                rows.extend(found.cloned());
                let points = their_curve.iter().filter(|point| found.is_some() && point.key == key);
                curve.extend(points.cloned());
            }
        }
        rows::append(&folder.file("curve.jsonl"), &curve)?;
        rows::append(&folder.file("rows.jsonl"), &rows)
    }

    /// Runs what the folder lacks; `cases` are the questions of `dataset`, in order.
    ///
    /// # Errors
    /// If the folder holds runs with other settings, or cannot be written.
    pub fn run(
        &self,
        folder: &ResultFolder,
        dataset: &Dataset,
        encoder: &str,
        cases: &[Case],
        progress: &ProgressBar,
    ) -> Result<()> {
        let jobs = self.missing(&folder.rows()?, dataset, encoder)?;
        progress.set_length(jobs.len() as u64);
        let writing = Mutex::new(());
        jobs.par_iter().try_for_each(|job| {
            let split = self.divide(dataset, job.seed);
            let (served, curve) = self.run_job(job, dataset, encoder, cases, &split)?;
            let rows: Vec<Row> = served.into_iter().map(|run| run.row).collect();
            let _guard = writing.lock();
            rows::append(&folder.file("curve.jsonl"), &curve)?;
            rows::append(&folder.file("rows.jsonl"), &rows)?;
            progress.inc(1);
            Ok(())
        })
    }

    /// What every method serves to the test questions of a seed; `cases` are the questions of `dataset`, in order.
    ///
    /// # Errors
    /// None for cases that were found for this data set.
    pub fn serve(&self, dataset: &Dataset, encoder: &str, cases: &[Case], seed: u64) -> Result<Vec<Served>> {
        let split = self.divide(dataset, seed);
        let jobs = self.jobs();
        let of_seed: Vec<&Job<'_>> = jobs.iter().filter(|job| job.seed == seed).collect();
        let served = |job: &&Job<'_>| Ok(self.run_job(job, dataset, encoder, cases, &split)?.0);
        Ok(of_seed.par_iter().map(served).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// The division of a seed, with the training part cut to its limit.
    pub fn divide(&self, dataset: &Dataset, seed: u64) -> Split {
        let mut split = self.split.divide(dataset, seed);
        split.train.truncate(self.train_limit.unwrap_or(usize::MAX));
        split
    }

    fn missing(&self, rows: &[Row], dataset: &Dataset, encoder: &str) -> Result<Vec<Job<'_>>> {
        let mut jobs = self.jobs();
        for job in &mut jobs {
            let split = self.divide(dataset, job.seed);
            let mut methods = Vec::new();
            for method in &job.methods {
                let key = self.key(&dataset.name, encoder, &method.name, job.seed);
                match rows.iter().find(|row| row.key == key) {
                    Some(row) => self.check_settings(row, method, &split)?,
                    None => methods.push(*method),
                }
            }
            job.methods = methods;
        }
        jobs.retain(|job| !job.methods.is_empty());
        Ok(jobs)
    }

    fn check_settings(&self, row: &Row, method: &Method, split: &Split) -> Result<()> {
        ensure!(
            self.is_of(row, method, split),
            "the result folder holds {} of {} with other settings; give this run another --name, or remove the folder",
            method.name,
            row.key.encoder
        );
        Ok(())
    }

    /// Whether a row is what `method` would give.
    fn is_of(&self, row: &Row, method: &Method, split: &Split) -> bool {
        row.params == method.params
            && row.critic == method.quality.into()
            && row.memory_text == self.memory_text.name()
            && row.n == split.test.len()
            && (row.n_train == split.train.len() || !method.trains)
    }

    /// All jobs. Methods that are trained alike are trained once.
    fn jobs(&self) -> Vec<Job<'_>> {
        let mut groups: Vec<Vec<&Method>> = Vec::new();
        for method in &self.methods {
            match groups.iter_mut().find(|group| trained_alike(group[0], method)) {
                Some(group) => group.push(method),
                None => groups.push(vec![method]),
            }
        }
        let job = |seed: u64| groups.iter().map(move |methods| Job { seed, methods: methods.clone() });
        self.seeds.iter().flat_map(|seed| job(*seed)).collect()
    }

    fn run_job(
        &self,
        job: &Job<'_>,
        dataset: &Dataset,
        encoder: &str,
        cases: &[Case],
        split: &Split,
    ) -> Result<(Vec<Served>, Vec<CurvePoint>)> {
        let first = job.methods[0];
        let cases = &*candidates::cut(cases, first.params.candidates)?;
        let (adapter, points) = self.train_job(first, cases, split, job.seed)?;
        let key = |method: &str| self.key(&dataset.name, encoder, method, job.seed);
        // The curve is that of the adapter alone, so it goes under the method that is tested so.
        let alone = job.methods.iter().find(|method| method.inference == Inference::AdapterOnly);
        let point = |method: &Method, (n_train, scores)| CurvePoint {
            key: key(&method.name),
            n: split.test.len(),
            n_train,
            scores,
        };
        let curve = alone.map_or_else(Vec::new, |method| points.into_iter().map(|one| point(method, one)).collect());
        let test = |method: &&Method| self.test_job(method, &adapter, key(&method.name), dataset, cases, split);
        Ok((job.methods.iter().map(test).collect::<Result<_>>()?, curve))
    }

    fn train_job(
        &self,
        method: &Method,
        cases: &[Case],
        split: &Split,
        seed: u64,
    ) -> Result<(Adapter, Vec<(usize, Scores)>)> {
        let dimension = cases.first().map_or(0, |case| case.pool.dimension());
        let mut points = Vec::new();
        if !method.trains {
            return Ok((Adapter::zeros(dimension), points));
        }
        let checkpoints: BTreeSet<usize> = self.checkpoints.iter().copied().collect();
        let last = split.train.len() * method.params.epochs;
        let mut seen = |n: usize, adapter: &Adapter| {
            if checkpoints.contains(&n) && n != last {
                points.push((n, adapter_alone(adapter, method, cases, split, seed)?));
            }
            Ok(())
        };
        let adapter = runner::train(&method.params, cases, &split.train, method.quality, seed, &mut seen)?;
        points.push((last, adapter_alone(&adapter, method, cases, split, seed)?));
        Ok((adapter, points))
    }

    fn test_job(
        &self,
        method: &Method,
        adapter: &Adapter,
        key: RunKey,
        dataset: &Dataset,
        cases: &[Case],
        split: &Split,
    ) -> Result<Served> {
        let tested =
            runner::test(adapter, &method.params, method.inference, cases, &split.test, method.quality, key.seed)?;
        Ok(Served { row: self.row(method, key, dataset, cases, split, &tested), slates: tested.slates })
    }

    /// What is kept of a test of `method` on the test questions of `split`.
    pub fn row(
        &self,
        method: &Method,
        key: RunKey,
        dataset: &Dataset,
        cases: &[Case],
        split: &Split,
        tested: &Tested,
    ) -> Row {
        let of_test: Vec<Case> = split.test.iter().map(|index| cases[*index].clone()).collect();
        Row {
            key,
            n: tested.scores.len(),
            n_train: if method.trains { split.train.len() } else { 0 },
            scores: Scores::mean(&tested.scores),
            critic_calls_per_query: tested.critic_calls_per_query,
            pool_ceiling: ceiling(&of_test),
            memory_text: self.memory_text.name(),
            params: method.params,
            critic: method.quality.into(),
            dimension: cases.first().map_or(0, |case| case.pool.dimension()),
            recall_by_question: rows::recall_digits(&tested.scores),
            by_type: by_type::by_type(dataset, &split.test, &tested.slates),
        }
    }
}

/// Whether one training serves both.
fn trained_alike(one: &Method, other: &Method) -> bool {
    one.params == other.params && one.quality == other.quality && one.trains == other.trains
}

fn adapter_alone(adapter: &Adapter, method: &Method, cases: &[Case], split: &Split, seed: u64) -> Result<Scores> {
    let inference = Inference::AdapterOnly;
    let tested = runner::test(adapter, &method.params, inference, cases, &split.test, method.quality, seed)?;
    Ok(Scores::mean(&tested.scores))
}
