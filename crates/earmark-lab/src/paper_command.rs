//! The subcommands that repeat the paper's tables and figures.

use std::cell::{OnceCell, RefCell};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use earmark::Params;
use earmark::encode::Side;
use earmark_lab::data::{self, Dataset, Stores};
use earmark_lab::encoders;
use earmark_lab::experiments::paper::{Experiment, Lab, Options, Reranking, Run, Setting, Source, catalogue, report};
use earmark_lab::experiments::plan::ResultFolder;
use earmark_lab::methods;
use earmark_lab::report::Provenance;
use earmark_lab::rerank::Scores;
use earmark_lab::split::SplitKind;
use earmark_lab::text::MemoryText;
use earmark_lab::vectors::bank_order;

use crate::{Folders, bar, command_line, encode, keep_ready, short_name};

/// One subcommand for each table or figure.
#[derive(Subcommand)]
pub(crate) enum PaperCommand {
    /// Table 2: Recall@5 and Hit@5 of the retriever, the RL update and EAR
    Table2(PaperArguments),
    /// Table 3: ablations
    Table3(PaperArguments),
    /// Fig. 3: queries to surpass the retriever, and the dip before
    Fig3(PaperArguments),
    /// Fig. 4: equal critic budget
    Fig4(PaperArguments),
    /// Fig. 5: critic noise
    Fig5(PaperArguments),
    /// Table 6: rounds and replay size
    Table6(PaperArguments),
    /// Table 7: what is replayed
    Table7(PaperArguments),
    /// Table 8: latency by stage against Recall@5
    Table8(PaperArguments),
    /// Tables 4 and 5, Fig. 6: dialogues and observations (LoCoMo)
    #[command(visible_aliases = ["table4", "table5", "fig6"])]
    Stores(PaperArguments),
    /// Tables 11 and 12: geometry before and after the adapter (learned on LoCoMo)
    #[command(visible_aliases = ["table11", "table12"])]
    Geometry(PaperArguments),
    /// Fig. 7 and B.5: gains by encoder size
    Fig7(PaperArguments),
    /// Gains under other readings of what the paper leaves open
    Choices(PaperArguments),
    /// Table 10: a reranker alone and under EAR (needs the feature `models`, or its scores in the cache)
    Table10(RerankerArguments),
    /// All that need neither reranker nor language model, in one folder each
    All(PaperArguments),
}

#[derive(Args)]
pub(crate) struct PaperArguments {
    /// Data sets, separated by commas: locomo, longmemeval
    #[arg(long, value_delimiter = ',', default_value = "locomo")]
    sets: Vec<String>,
    /// Encoders, separated by commas: names or folders of models
    #[arg(long, value_delimiter = ',', default_value = "all-MiniLM-L6-v2")]
    encoders: Vec<String>,
    /// Number of seeds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Learning rate of the adapter
    #[arg(long, default_value_t = Params::paper().learning_rate)]
    learning_rate: f32,
    /// How questions are divided
    #[arg(long, value_enum, default_value = "random")]
    split: SplitKind,
    /// What text of a memory is encoded: dated-speaker for locomo, speaker for others by default
    #[arg(long, value_enum)]
    memory_text: Option<MemoryText>,
    /// Other parameters of EAR than the learning rate, as JSON: {"batch_size": 1}
    #[arg(long)]
    params: Option<String>,
    /// Use the banks that are encoded already, and encode no others (see `encode`)
    #[arg(long)]
    encoded_only: bool,
    /// Of these banks, only the first so many of the order in which they are encoded
    #[arg(long, requires = "encoded_only")]
    banks: Option<usize>,
    /// One seed and 160 training questions
    #[arg(long)]
    quick: bool,
    /// Added to the name of the result folder; an existing folder is taken up where it stopped
    #[arg(long)]
    name: Option<String>,
    /// Date of the result folder to take up; today by default
    #[arg(long)]
    date: Option<String>,
}

#[derive(Args)]
pub(crate) struct RerankerArguments {
    #[command(flatten)]
    paper: PaperArguments,
    /// A MonoT5 or BERT cross-encoder: its name or folder
    #[arg(long, default_value = "castorini/monot5-base-msmarco")]
    reranker: String,
    /// Candidates of each question that it orders; the first K go on
    #[arg(long, default_value_t = Params::paper().candidates)]
    depth: usize,
}

impl PaperCommand {
    fn parts(&self) -> (Vec<&'static Experiment>, &PaperArguments) {
        use PaperCommand as P;
        let (name, arguments) = match self {
            P::Table2(arguments) => ("table2", arguments),
            P::Table3(arguments) => ("table3", arguments),
            P::Fig3(arguments) => ("fig3", arguments),
            P::Fig4(arguments) => ("fig4", arguments),
            P::Fig5(arguments) => ("fig5", arguments),
            P::Table6(arguments) => ("table6", arguments),
            P::Table7(arguments) => ("table7", arguments),
            P::Table8(arguments) => ("table8", arguments),
            P::Stores(arguments) => ("stores", arguments),
            P::Geometry(arguments) => ("geometry", arguments),
            P::Fig7(arguments) => ("fig7", arguments),
            P::Choices(arguments) => ("choices", arguments),
            P::Table10(arguments) => ("table10", &arguments.paper),
            P::All(arguments) => return (catalogue::ALL.iter().collect(), arguments),
        };
        (catalogue::find(name).into_iter().collect(), arguments)
    }

    /// One folder for each reranker.
    fn folder_name(&self, experiment: &Experiment) -> String {
        let more = match self {
            PaperCommand::Table10(arguments) => format!("-{}", short_name(&arguments.reranker)),
            _ => String::new(),
        };
        self.parts().1.folder_name(experiment, &more)
    }
}

/// Runs what the result folders lack and writes them.
pub(crate) fn run(folders: &Folders, command: &PaperCommand) -> Result<()> {
    let (experiments, arguments) = command.parts();
    let options = arguments.options()?;
    let reranker = match command {
        PaperCommand::Table10(arguments) => Some(reranking(folders, arguments)?),
        _ => None,
    };
    let lab = Lab::new(Source { reranker, ..source(folders, |setting| arguments.load(folders, setting)) });
    let mut earlier = Vec::new();
    for experiment in experiments {
        if options.settings(experiment).is_empty() {
            continue;
        }
        let provenance = Provenance::here(command_line());
        let date = arguments.date.as_ref().unwrap_or(&provenance.date);
        let path = folders.results.join(format!("{date}-{}", command.folder_name(experiment)));
        run_one(experiment, &options, &lab, &path, &mut earlier, &provenance)?;
    }
    Ok(())
}

fn run_one(
    experiment: &Experiment,
    options: &Options,
    lab: &Lab<'_>,
    path: &Path,
    earlier: &mut Vec<ResultFolder>,
    provenance: &Provenance,
) -> Result<()> {
    let folder = ResultFolder::open(path)?;
    let progress = bar(experiment.name);
    progress.enable_steady_tick(Duration::from_secs(1));
    let ran = Run { experiment, options, lab }.run(&folder, earlier, &progress)?;
    progress.finish_and_clear();
    report::write(experiment, options, &folder, ran.then_some(provenance))?;
    print!("{}", std::fs::read_to_string(folder.file("summary.md"))?);
    println!("\nwritten to {}\n", path.display());
    earlier.push(folder);
    Ok(())
}

/// What `load` gives, with vectors from the cache.
pub(crate) fn source<'a>(folders: &'a Folders, load: impl Fn(&Setting) -> Result<Dataset> + 'a) -> Source<'a> {
    Source {
        load: Box::new(load),
        encode: Box::new(|setting, texts, side| encode(&setting.encoder, &folders.cache, &setting.set, texts, side)),
        encode_live: Box::new(live()),
        reranker: None,
    }
}

/// A reranker with the file of its scores; it is loaded when a score is not there.
fn reranking<'a>(folders: &Folders, arguments: &'a RerankerArguments) -> Result<Reranking<'a>> {
    let known = RefCell::new(Scores::open(&folders.cache, &short_name(&arguments.reranker))?);
    let loaded = OnceCell::new();
    let progress = bar(&format!("{}: questions", arguments.reranker)).with_elapsed(Duration::ZERO);
    let score = move |query: &str, texts: &[&str]| {
        progress.inc(1);
        known.borrow_mut().of(query, texts, &|query, texts| {
            if loaded.get().is_none() {
                let opened = encoders::open_reranker(&arguments.reranker).context(TO_GET_RERANKERS)?;
                let _ = loaded.set(opened);
            }
            loaded.get().context("no reranker")?(query, texts)
        })
    };
    Ok(Reranking { depth: arguments.depth, score: Box::new(score) })
}

/// What helps when a reranker cannot be opened.
const TO_GET_RERANKERS: &str = "the reranker cannot be used. MonoT5 of the paper needs two commands, then `--reranker \
    monot5-base-msmarco`:\n  hf download castorini/monot5-base-msmarco --local-dir monot5-base-msmarco\n  hf download \
    google-t5/t5-base tokenizer.json --local-dir monot5-base-msmarco\nReason";

/// The model is loaded once, so that a query is timed without it.
fn live() -> impl Fn(&Setting, &[&str], Side) -> Result<Vec<Vec<f32>>> {
    let loaded = std::cell::RefCell::new(None);
    move |setting: &Setting, texts: &[&str], side| {
        let mut loaded = loaded.borrow_mut();
        if loaded.as_ref().is_none_or(|(name, _)| *name != setting.encoder) {
            *loaded = Some((setting.encoder.clone(), encoders::open(&setting.encoder)?));
        }
        let (_, encoder) = loaded.as_ref().context("no encoder")?;
        Ok(encoder.encode(texts, side)?)
    }
}

impl PaperArguments {
    /// The questions with gold of a setting.
    pub(crate) fn load(&self, folders: &Folders, setting: &Setting) -> Result<Dataset> {
        let mut dataset = match setting.stores {
            Stores::Dialogues => data::load(&folders.data, &setting.set)?,
            stores => data::load_locomo(&folders.data, stores)?,
        };
        dataset.drop_without_gold();
        if self.encoded_only {
            let mut first = bank_order(&dataset);
            first.truncate(self.banks.unwrap_or(usize::MAX));
            dataset.questions.retain(|question| first.contains(&question.bank));
            keep_ready(folders, &mut dataset, &setting.encoder, setting.memory_text)?;
        }
        Ok(dataset)
    }

    /// Date of the result folder to take up.
    pub(crate) fn date(&self) -> Option<&String> {
        self.date.as_ref()
    }

    pub(crate) fn options(&self) -> Result<Options> {
        let params = match &self.params {
            Some(json) => methods::paper_with(json).context("--params")?,
            None => Params::paper(),
        };
        let params = Params { learning_rate: self.learning_rate, ..params };
        params.check()?;
        Ok(Options {
            sets: self.sets.clone(),
            encoders: self.encoders.clone(),
            params,
            seeds: self.seeds,
            split: self.split,
            memory_text: self.memory_text,
            quick: self.quick,
        })
    }

    /// One folder holds all encoders of one or more sets with one learning rate.
    pub(crate) fn folder_name(&self, experiment: &Experiment, more: &str) -> String {
        let sets = self.sets.iter().map(|set| short_name(set)).collect::<Vec<_>>().join("-");
        let added = self.name.as_ref().map_or_else(String::new, |name| format!("-{name}"));
        let quick = if self.quick { "-quick" } else { "" };
        format!("{}-{sets}-lr{}{more}{added}{quick}", experiment.name, self.learning_rate)
    }
}
