//! Table 9: EAR taught by a language model instead of the simulated critic.
//!
//! Every critic teaches an adapter with the same first training questions of a seed; the adapter alone answers all
//! test questions, and with the same critic exploring it answers some of them. Beside each model stands a simulated
//! critic that errs as often as the model was measured to.

use anyhow::{Result, ensure};
use earmark::Params;
use earmark::critic::Quality;
use earmark::recall::{Adapter, Candidate, Label};
use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Options;
use super::catalogue::TABLE_9;
use super::lab::{Lab, Setting};
use crate::candidates::{self, Case};
use crate::data::Dataset;
use crate::experiments::plan::{Plan, ResultFolder};
use crate::llm::Llm;
use crate::llm_critic::{Asking, LlmCritic, Tally, are_gold};
use crate::methods::{Inference, Method};
use crate::rows::{self, CriticQuality, Row, RunKey};
use crate::runner::{self, Asked};
use crate::split::Split;

const FILE: &str = "judged.jsonl";
/// The row of the static order on all test questions, and that on the explored ones.
pub const BASES: [&str; 2] = ["only-retriever", "only-retriever-on-explored"];
/// The paper's critic.
pub const SIMULATED: &str = "simulated";

/// What is compared.
pub struct Critics<'a> {
    /// The model.
    pub llm: &'a Llm<'a>,
    /// How it is asked.
    pub askings: Vec<Asking>,
    /// How much likelier than no a yes has to be, in natural logarithms.
    pub threshold: f64,
    /// Questions that teach.
    pub questions: usize,
    /// Test questions that are explored for.
    pub explored: usize,
}

impl Critics<'_> {
    /// All critics in the order of a table: each model is followed by the simulated critic that errs like it.
    pub fn names(&self) -> Vec<String> {
        let models = self.askings.iter().flat_map(|asking| [asking.name(), simulated_as(&asking.name())]);
        std::iter::once(SIMULATED.to_owned()).chain(models).collect()
    }

    /// Slates that are judged in all, at most.
    pub fn slates(&self, options: &Options) -> u64 {
        let rounds = options.params.rounds;
        let of_critic = self.questions * rounds + self.explored * rounds.saturating_sub(1);
        let studies = options.settings(&TABLE_9).len() * options.seed_list().len();
        (of_critic * self.names().len() * studies) as u64
    }
}

/// What a critic said while one row was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The row.
    #[serde(flatten)]
    pub key: RunKey,
    /// The model's name; `None` for a simulated critic.
    pub model: Option<String>,
    /// Questions that it was asked about.
    pub questions: usize,
    /// The counts.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The counts of all rows of a folder.
///
/// # Errors
/// If a line cannot be read.
pub fn read(folder: &ResultFolder) -> Result<Vec<Judged>> {
    rows::read(&folder.file(FILE))
}

/// The row of a critic with its Explorer at test.
pub fn with_explorer(critic: &str) -> String {
    format!("{critic}-explorer")
}

fn simulated_as(critic: &str) -> String {
    format!("{SIMULATED}-as-{critic}")
}

/// Runs what `folder` lacks; returns whether there was anything. The bar counts slates.
///
/// # Errors
/// Those of the lab and the model, or if the folder cannot be used or holds runs with other settings.
pub fn run(
    critics: &Critics<'_>,
    options: &Options,
    lab: &Lab<'_>,
    folder: &ResultFolder,
    progress: &ProgressBar,
) -> Result<bool> {
    let before = folder.rows()?.len();
    for setting in options.settings(&TABLE_9) {
        let plan = Plan { train_limit: Some(critics.questions), ..options.plan(&TABLE_9, &setting) };
        let dataset = lab.dataset(&setting)?;
        let cases = lab.cases(&setting, options.params.candidates)?;
        let cases = candidates::cut(&cases, options.params.candidates)?;
        for seed in options.seed_list() {
            let split = plan.divide(&dataset, seed);
            let explored = first_of(&split.test, critics.explored, seed);
            let (dataset, cases) = (&*dataset, &*cases);
            let params = &options.params;
            Study {
                critics,
                plan: &plan,
                params,
                setting: &setting,
                dataset,
                cases,
                split,
                explored,
                seed,
                folder,
                progress,
            }
            .run()?;
        }
    }
    Ok(folder.rows()?.len() > before)
}

/// Some of the questions in random order: a larger number of them begins with the same ones.
pub(super) fn first_of(questions: &[usize], count: usize, seed: u64) -> Vec<usize> {
    let mut questions = questions.to_vec();
    questions.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    questions.truncate(count);
    questions
}

enum Who<'a> {
    Simulated(Quality),
    Model(LlmCritic<'a>),
}

impl Who<'_> {
    /// Of the simulated critic; a model has none that is known beforehand.
    fn quality(&self) -> Quality {
        match self {
            Who::Simulated(quality) => *quality,
            Who::Model(_) => Quality::paper(),
        }
    }
}

/// All critics on one division of the questions.
struct Study<'a> {
    critics: &'a Critics<'a>,
    plan: &'a Plan,
    params: &'a Params,
    setting: &'a Setting,
    dataset: &'a Dataset,
    cases: &'a [Case],
    split: Split,
    explored: Vec<usize>,
    seed: u64,
    folder: &'a ResultFolder,
    progress: &'a ProgressBar,
}

impl Study<'_> {
    fn run(&self) -> Result<()> {
        self.base()?;
        self.of(SIMULATED, Who::Simulated(Quality::paper()))?;
        let Critics { llm, threshold, .. } = *self.critics;
        for asking in self.critics.askings.iter().copied() {
            let critic = LlmCritic { llm, asking, threshold, dataset: self.dataset, cases: self.cases };
            let measured = self.of(&asking.name(), Who::Model(critic))?;
            if let Some(quality) = quality(&measured) {
                self.of(&simulated_as(&asking.name()), Who::Simulated(quality))?;
            }
        }
        Ok(())
    }

    /// The static order.
    fn base(&self) -> Result<()> {
        let dimension = self.cases.first().map_or(0, |case| case.pool.dimension());
        let adapter = Adapter::zeros(dimension);
        for (name, questions) in BASES.iter().zip([&self.split.test, &self.explored]) {
            let method = self.method(name, false, Inference::AdapterOnly, Quality::paper());
            if self.is_there(&method, questions)? {
                continue;
            }
            let split = Split { train: Vec::new(), test: questions.clone() };
            let tested = runner::test(
                &adapter,
                self.params,
                method.inference,
                self.cases,
                questions,
                method.quality,
                self.seed,
            )?;
            let row = self.plan.row(&method, self.key(name), self.dataset, self.cases, &split, &tested);
            rows::append(&self.folder.file("rows.jsonl"), &[row])?;
        }
        Ok(())
    }

    /// Teaches and tests with one critic; returns what it said in training. Both rows are kept at once.
    fn of(&self, name: &str, who: Who<'_>) -> Result<Tally> {
        let alone = self.method(name, true, Inference::AdapterOnly, who.quality());
        let exploring = self.method(&with_explorer(name), true, Inference::Explorer, who.quality());
        if self.is_there(&alone, &self.split.test)? && self.is_there(&exploring, &self.explored)? {
            return self.known_tally(name);
        }
        self.progress.set_message(format!("{name}: slates judged"));
        let (adapter, taught) = self.train(&who)?;
        let tested = self.test(&adapter, &who, &alone, &self.split.test)?;
        let explored = self.test(&adapter, &who, &exploring, &self.explored)?;
        let model = matches!(who, Who::Model(_)).then(|| self.critics.llm.model().to_owned());
        let judged = |key: RunKey, questions, tally| Judged { key, model: model.clone(), questions, tally };
        let lines = [
            judged(self.key(name), self.split.train.len(), taught),
            judged(self.key(&exploring.name), self.explored.len(), explored.1),
        ];
        rows::append(&self.folder.file(FILE), &lines)?;
        let mut found = [tested.0, explored.0];
        if model.is_some() {
            found.iter_mut().for_each(|row| row.critic = measured(&taught));
        }
        rows::append(&self.folder.file("rows.jsonl"), &found)?;
        Ok(taught)
    }

    fn train(&self, who: &Who<'_>) -> Result<(Adapter, Tally)> {
        let (quality, mut tally) = (who.quality(), Tally::default());
        let fixed = |_| quality;
        let simulated = runner::simulated_in_training(self.cases, &fixed, self.seed);
        let mut judge = self.counted(who, simulated, &mut tally);
        let order = &self.split.train;
        let adapter = runner::train_judged(self.params, self.cases, order, &mut judge, self.seed, &mut |_, _| Ok(()))?;
        drop(judge);
        Ok((adapter, tally))
    }

    fn test(&self, adapter: &Adapter, who: &Who<'_>, method: &Method, questions: &[usize]) -> Result<(Row, Tally)> {
        let mut tally = Tally::default();
        let simulated = runner::simulated_at_test(self.cases, who.quality(), self.seed);
        let mut judge = self.counted(who, simulated, &mut tally);
        let tested = runner::test_judged(adapter, self.params, method.inference, self.cases, questions, &mut judge)?;
        drop(judge);
        let split = Split { train: self.split.train.clone(), test: questions.to_vec() };
        let row = self.plan.row(method, self.key(&method.name), self.dataset, self.cases, &split, &tested);
        Ok((row, tally))
    }

    fn counted<'b>(
        &'b self,
        who: &'b Who<'b>,
        mut simulated: impl FnMut(Asked, &[Candidate]) -> earmark::Result<Vec<Option<Label>>> + 'b,
        tally: &'b mut Tally,
    ) -> impl FnMut(Asked, &[Candidate]) -> earmark::Result<Vec<Option<Label>>> + 'b {
        move |asked, slate| {
            self.progress.inc(1);
            if let Who::Model(critic) = who {
                return critic.judge(asked.case, slate, tally);
            }
            let labels = simulated(asked, slate)?;
            tally.count(&are_gold(&self.cases[asked.case], slate), &labels);
            Ok(labels)
        }
    }

    fn method(&self, name: &str, trains: bool, inference: Inference, quality: Quality) -> Method {
        Method { name: name.to_owned(), params: *self.params, trains, inference, quality }
    }

    fn key(&self, method: &str) -> RunKey {
        self.plan.key(&self.dataset.name, &self.setting.encoder_name(), method, self.seed)
    }

    /// Whether the folder has the row of a method on these questions.
    fn is_there(&self, method: &Method, questions: &[usize]) -> Result<bool> {
        let key = self.key(&method.name);
        let Some(row) = self.folder.rows()?.into_iter().find(|row| row.key == key) else { return Ok(false) };
        let n_train = if method.trains { self.split.train.len() } else { 0 };
        let same = row.params == method.params
            && row.memory_text == self.plan.memory_text.name()
            && (row.n, row.n_train) == (questions.len(), n_train);
        ensure!(
            same,
            "the result folder holds {} of {} with other settings; give this run another --name, or remove the folder",
            method.name,
            row.key.encoder
        );
        Ok(true)
    }

    fn known_tally(&self, name: &str) -> Result<Tally> {
        let key = self.key(name);
        let known = read(self.folder)?.into_iter().rev().find(|judged| judged.key == key);
        Ok(known.map_or_else(Tally::default, |judged| judged.tally))
    }
}

/// What a model was measured at; 0 where it called nothing useful.
fn measured(tally: &Tally) -> CriticQuality {
    let share = |share: Option<f64>| share.unwrap_or_default() as f32;
    CriticQuality { precision: share(tally.precision()), recall: share(tally.recall()), false_positive_rate: None }
}

/// A simulated critic that errs as often; `None` if nothing right was said.
fn quality(measured: &Tally) -> Option<Quality> {
    let (precision, recall) = (measured.precision()? as f32, measured.recall()? as f32);
    let quality = Quality { precision, recall, false_positive_rate: None };
    quality.check().is_ok().then_some(quality)
}
