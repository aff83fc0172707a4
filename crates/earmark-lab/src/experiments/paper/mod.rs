//! Every table and figure of the paper.
//!
//! An [`Experiment`] is a named list of methods and what is reported of them; [`catalogue`] holds them all, [`lab`]
//! finds the questions and their candidates, [`Run`] runs what a result folder lacks, [`report`] writes what it says.
//! [`table9`] and [`answering`] are apart from these: they need a language model. [`locomo`] chooses a learning rate first.

pub mod answering;
pub mod answering_report;
pub mod catalogue;
pub mod efficiency;
pub mod geometry;
pub mod lab;
pub mod latency;
pub mod locomo;
pub mod matrix;
pub mod report;
pub mod reported;
pub mod stores;
pub mod table9;
pub mod table9_report;

use std::rc::Rc;

use anyhow::Result;
use earmark::Params;
use indicatif::ProgressBar;

pub use catalogue::{Experiment, Part};
pub use lab::{Lab, Reranking, Setting, Source};

use super::plan::{Plan, ResultFolder};
use crate::candidates::Case;
use crate::data::Stores;
use crate::methods::Method;
use crate::split::SplitKind;
use crate::text::MemoryText;

/// Where learning curves are measured, besides the end. In queries; with four rounds a query the first ones are
/// the paper's numbers of critic calls.
pub const CHECKPOINTS: [usize; 28] = [
    0, 20, 40, 60, 80, 100, 120, 160, 200, 240, 280, 320, 360, 400, 480, 560, 640, 800, 960, 1120, 1280, 1600, 1920,
    2400, 2880, 3360, 3840, 4320,
];

/// Training questions of a quick look.
const QUICK: usize = 160;

/// What can be set for every experiment.
#[derive(Debug, Clone)]
pub struct Options {
    /// Data sets by name.
    pub sets: Vec<String>,
    /// Encoders by name or folder.
    pub encoders: Vec<String>,
    /// Parameters of EAR; the methods are derived from them.
    pub params: Params,
    /// How many seeds, from 1 on.
    pub seeds: u64,
    /// How questions are divided.
    pub split: SplitKind,
    /// What text of a memory is encoded; what suits the set by default.
    pub memory_text: Option<MemoryText>,
    /// One seed and few training questions.
    pub quick: bool,
}

impl Options {
    /// The seeds of every method.
    pub fn seed_list(&self) -> Vec<u64> {
        (1..=if self.quick { 1 } else { self.seeds }).collect()
    }

    /// What an experiment is run on: each set with the experiment's stores and each encoder. Sets that have not
    /// these stores are left out.
    pub fn settings(&self, experiment: &Experiment) -> Vec<Setting> {
        let mut settings = Vec::new();
        for set in &self.sets {
            for encoder in &self.encoders {
                let has = |stores: &&Stores| set == "locomo" || **stores == Stores::Dialogues;
                let setting = |stores: &Stores| Setting {
                    set: set.clone(),
                    stores: *stores,
                    encoder: encoder.clone(),
                    memory_text: self.memory_text.unwrap_or_else(|| memory_text(set)),
                };
                let whole = experiment.stores.iter().all(|stores| has(&stores));
                settings.extend(experiment.stores.iter().filter(|_| whole).map(setting));
            }
        }
        settings
    }

    fn plan(&self, experiment: &Experiment, setting: &Setting) -> Plan {
        Plan {
            split: self.split,
            recipe: "paper".into(),
            methods: (experiment.methods)(&self.params),
            seeds: self.seed_list(),
            memory_text: setting.memory_text,
            checkpoints: if experiment.has_curves() { CHECKPOINTS.to_vec() } else { Vec::new() },
            train_limit: self.quick.then_some(QUICK),
        }
    }
}

/// LoCoMo's turns need their session's date; LongMemEval's were encoded without.
fn memory_text(set: &str) -> MemoryText {
    if set == "locomo" { MemoryText::DatedSpeaker } else { MemoryText::Speaker }
}

/// An experiment with its options and data.
pub struct Run<'a> {
    /// What is compared.
    pub experiment: &'a Experiment,
    /// On what.
    pub options: &'a Options,
    /// Where questions and candidates come from.
    pub lab: &'a Lab<'a>,
}

impl Run<'_> {
    /// Runs what `folder` lacks; returns whether there was anything. Runs of the same settings in the folders
    /// `earlier` are taken over.
    ///
    /// # Errors
    /// Those of the lab, or if a folder cannot be used or holds runs with other settings.
    pub fn run(&self, folder: &ResultFolder, earlier: &[ResultFolder], progress: &ProgressBar) -> Result<bool> {
        let mut ran = false;
        for setting in self.options.settings(self.experiment) {
            let what = format!("{}: {}, {}", self.experiment.name, setting.dataset_name(), setting.encoder_name());
            progress.set_message(what);
            ran |= match self.experiment.part {
                Part::Geometry => geometry::run(self, &setting, folder)?,
                Part::Reranker => self.run_reranker(&setting, folder, earlier, progress)?,
                _ => self.run_methods(&setting, folder, earlier, progress)?,
            };
            if self.experiment.part == Part::Latency {
                ran |= latency::run(self, &setting, folder)?;
            }
        }
        Ok(ran)
    }

    fn run_methods(
        &self,
        setting: &Setting,
        folder: &ResultFolder,
        earlier: &[ResultFolder],
        progress: &ProgressBar,
    ) -> Result<bool> {
        let plan = self.options.plan(self.experiment, setting);
        let cases = |k| self.lab.cases(setting, k);
        self.run_plan(&plan, setting, &cases, folder, earlier, progress)
    }

    /// The methods on the retriever's candidates, then those on the reranker's.
    fn run_reranker(
        &self,
        setting: &Setting,
        folder: &ResultFolder,
        earlier: &[ResultFolder],
        progress: &ProgressBar,
    ) -> Result<bool> {
        let plan = self.options.plan(self.experiment, setting);
        let (on_reranked, on_retrieved): (Vec<Method>, Vec<Method>) =
            plan.methods.iter().cloned().partition(catalogue::is_reranked);
        let retrieved = Plan { methods: on_retrieved, ..plan.clone() };
        let cases = |k| self.lab.cases(setting, k);
        let ran = self.run_plan(&retrieved, setting, &cases, folder, earlier, progress)?;
        let reranked = Plan { methods: on_reranked, ..plan };
        let cases = |k| self.lab.reranked_cases(setting, k);
        Ok(self.run_plan(&reranked, setting, &cases, folder, earlier, progress)? || ran)
    }

    fn run_plan(
        &self,
        plan: &Plan,
        setting: &Setting,
        cases: &dyn Fn(usize) -> Result<Rc<Vec<Case>>>,
        folder: &ResultFolder,
        earlier: &[ResultFolder],
        progress: &ProgressBar,
    ) -> Result<bool> {
        let encoder = setting.encoder_name();
        let dataset = self.lab.dataset(setting)?;
        let before = folder.rows()?.len();
        for other in earlier {
            plan.take_over(folder, other, &dataset, &encoder)?;
        }
        if plan.is_missing(folder, &dataset, &encoder)? {
            let candidates = plan.methods.iter().map(|method| method.params.candidates).max().unwrap_or(0);
            plan.run(folder, &dataset, &encoder, &cases(candidates)?, progress)?;
        }
        Ok(folder.rows()?.len() > before)
    }
}
