//! The `earmark-lab` command.

mod llm_command;
mod paper_command;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use earmark::Params;
use earmark::critic::Quality;
use earmark::encode::Side;
use earmark_lab::data::{self, Dataset};
use earmark_lab::experiments::paper::{Lab, Options, Setting, locomo};
use earmark_lab::experiments::plan::ResultFolder;
use earmark_lab::experiments::recipe_runs::{self, Material};
use earmark_lab::experiments::{ablation, recipe_report};
use earmark_lab::methods;
use earmark_lab::report::Provenance;
use earmark_lab::split::SplitKind;
use earmark_lab::text::MemoryText;
use earmark_lab::vectors::{Vectors, bank_order};
use indicatif::{ProgressBar, ProgressStyle};

use llm_command::LlmCommand;
use paper_command::PaperCommand;

/// Reproduces the EAR paper and compares recipes
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    folders: Folders,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct Folders {
    /// Folder of the data sets, one folder each (they are not part of the project)
    #[arg(long, global = true, env = "EARMARK_LAB_DATA", default_value = "data")]
    data: PathBuf,
    /// Folder of vectors that were encoded before
    #[arg(long, global = true, env = "EARMARK_LAB_CACHE", default_value = "cache")]
    cache: PathBuf,
    /// Where result folders go
    #[arg(long, global = true, default_value = "docs/results")]
    results: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Counts what is in the data sets
    Data {
        /// Which sets; all by default
        names: Vec<String>,
    },
    /// Encodes data sets into the cache, bank by bank; can be stopped and taken up at any time
    Encode(EncodeArguments),
    #[command(flatten)]
    Paper(PaperCommand),
    #[command(flatten)]
    Llm(LlmCommand),
    /// Tables 2 and 3 and the learning curve on LoCoMo, with a choice of the learning rate on training questions
    Locomo(LocomoArguments),
    /// The default recipe on any set: static rankings, what it learns, what critic calls add.
    Recipe(RecipeArguments),
}

#[derive(Args)]
struct EncodeArguments {
    /// Data sets, comma-separated
    #[arg(long, value_delimiter = ',', required = true)]
    sets: Vec<String>,
    /// Names or folders of encoders, comma-separated
    #[arg(long, value_delimiter = ',', default_value = "all-MiniLM-L6-v2")]
    encoders: Vec<String>,
    /// What text of a memory is encoded
    #[arg(long, value_enum, default_value = "speaker")]
    memory_text: MemoryText,
}

#[derive(Args)]
struct LocomoArguments {
    /// Encoders, separated by commas: names or folders of models
    #[arg(long, value_delimiter = ',', default_value = "all-MiniLM-L6-v2,all-mpnet-base-v2")]
    encoders: Vec<String>,
    /// Number of seeds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Learning rate of the adapter; of several, separated by commas, one is chosen on the training questions
    #[arg(long, value_delimiter = ',', default_values_t = [Params::paper().learning_rate])]
    learning_rate: Vec<f32>,
    /// How questions are divided
    #[arg(long, value_enum, default_value = "random")]
    split: SplitKind,
    /// What text of a memory is encoded
    #[arg(long, value_enum, default_value = "dated-speaker")]
    memory_text: MemoryText,
    /// Other parameters of EAR than the learning rate, as JSON: {"batch_size": 1}
    #[arg(long)]
    params: Option<String>,
    /// One seed and 160 training questions
    #[arg(long)]
    quick: bool,
    /// Name of the result folder after the date; an existing folder is taken up where it stopped
    #[arg(long)]
    name: Option<String>,
    /// Date of the result folder to take up; today by default
    #[arg(long)]
    date: Option<String>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Data { names } => count(&cli.folders, names),
        Command::Encode(arguments) => run_encode(&cli.folders, arguments),
        Command::Paper(command) => paper_command::run(&cli.folders, command),
        Command::Llm(command) => llm_command::run(&cli.folders, command),
        Command::Locomo(arguments) => run_locomo(&cli.folders, arguments),
        Command::Recipe(arguments) => run_recipe(&cli.folders, arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn count(folders: &Folders, names: &[String]) -> Result<()> {
    let all = data::NAMES.map(str::to_owned);
    println!("{:<14} {:>7} {:>9} {:>10} {:>10}", "set", "banks", "memories", "questions", "with gold");
    for name in if names.is_empty() { &all[..] } else { names } {
        let mut set = data::load(&folders.data, name)?;
        let (banks, memories, questions) = (set.banks.len(), set.memory_count(), set.questions.len());
        let with_gold = questions - set.drop_without_gold();
        println!("{name:<14} {banks:>7} {memories:>9} {questions:>10} {with_gold:>10}");
    }
    Ok(())
}

fn run_encode(folders: &Folders, arguments: &EncodeArguments) -> Result<()> {
    for set in &arguments.sets {
        let mut dataset = data::load(&folders.data, set)?;
        dataset.drop_without_gold();
        for encoder in &arguments.encoders {
            encode_banks(folders, &dataset, encoder, arguments.memory_text)?;
        }
    }
    Ok(())
}

fn encode_banks(folders: &Folders, dataset: &Dataset, encoder: &str, text: MemoryText) -> Result<()> {
    let mut vectors = Vectors::open(encoder, &folders.cache, &dataset.name)?;
    let questions: Vec<&str> = dataset.questions.iter().map(|question| question.text.as_str()).collect();
    vectors.encode(&questions, Side::Query, &mut |_, _| {})?;
    let order = bank_order(dataset);
    let progress = bar(&format!("{}, {encoder}: banks", dataset.name)).with_elapsed(std::time::Duration::ZERO);
    progress.set_length(order.len() as u64);
    for &bank in &order {
        let texts: Vec<String> = dataset.banks[bank].memories.iter().map(|memory| text.of(memory)).collect();
        vectors.encode(&texts.iter().map(String::as_str).collect::<Vec<_>>(), Side::Memory, &mut |_, _| {})?;
        progress.inc(1);
    }
    progress.finish_and_clear();
    println!("{}, {encoder}: all {} banks with questions are encoded", dataset.name, order.len());
    Ok(())
}

fn run_locomo(folders: &Folders, arguments: &LocomoArguments) -> Result<()> {
    let options = arguments.options()?;
    let provenance = Provenance::here(command_line());
    let date = arguments.date.as_ref().unwrap_or(&provenance.date);
    let path = folders.results.join(format!("{date}-{}", arguments.folder_name()));
    let (folder, progress) = (ResultFolder::open(&path)?, bar("locomo"));
    let load = |setting: &Setting| {
        let mut dataset = data::load(&folders.data, &setting.set)?;
        dataset.drop_without_gold();
        Ok(dataset)
    };
    let lab = Lab::new(paper_command::source(folders, load));
    let ran = locomo::run(&options, &arguments.learning_rate, &lab, &folder, &progress)?;
    progress.finish_and_clear();
    locomo::write(&options, &arguments.learning_rate, &folder, ran.then_some(&provenance))?;
    print!("{}", std::fs::read_to_string(folder.file("summary.md"))?);
    println!("\nwritten to {}", path.display());
    Ok(())
}

#[derive(Args)]
struct RecipeArguments {
    /// Data sets, comma-separated.
    #[arg(long, value_delimiter = ',', default_value = "locomo")]
    sets: Vec<String>,
    /// Names or folders of encoders, comma-separated.
    #[arg(long, value_delimiter = ',', default_value = "all-MiniLM-L6-v2")]
    encoders: Vec<String>,
    /// Number of seeds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// The first seed; the recipe was designed with seeds below 101
    #[arg(long, default_value_t = recipe_runs::FIRST_SEED)]
    first_seed: u64,
    /// How questions are divided into training and test.
    #[arg(long, value_enum, default_value = "random")]
    split: SplitKind,
    /// Precision of the simulated critic, in percent.
    #[arg(long, default_value_t = 88)]
    precision: u8,
    /// Recall of the simulated critic, in percent.
    #[arg(long, default_value_t = 86)]
    recall: u8,
    /// From half of the training questions on, the critic's precision and recall are 30 %.
    #[arg(long)]
    drift: bool,
    /// Use the banks that are encoded already, and encode nothing (see `encode`).
    #[arg(long)]
    encoded_only: bool,
    /// Leave out parts of the recipe, one at a time, instead.
    #[arg(long)]
    ablation: bool,
    /// One seed and few questions.
    #[arg(long)]
    quick: bool,
    /// Name of the result folder, after the date.
    #[arg(long)]
    name: Option<String>,
    /// Date of the result folder; today if not given.
    #[arg(long)]
    date: Option<String>,
}

fn run_recipe(folders: &Folders, arguments: &RecipeArguments) -> Result<()> {
    let quality = Quality {
        precision: f32::from(arguments.precision) / 100.0,
        recall: f32::from(arguments.recall) / 100.0,
        ..Quality::paper()
    };
    quality.check()?;
    let settings = recipe_runs::Settings {
        first_seed: arguments.first_seed,
        seeds: arguments.seeds,
        split: arguments.split,
        quality,
        drift: arguments.drift,
        quick: arguments.quick,
    };
    let provenance = Provenance::here(command_line());
    let date = arguments.date.as_ref().unwrap_or(&provenance.date);
    let quick = if arguments.quick { "-quick" } else { "" };
    let kind = if arguments.ablation { "ablation" } else { "default" };
    let name = arguments.name.clone().unwrap_or_else(|| format!("recipe-{kind}-{}{quick}", arguments.split.name()));
    let path = folders.results.join(format!("{date}-{name}"));
    let folder = ResultFolder::open(&path)?;
    for set in &arguments.sets {
        let mut dataset = data::load(&folders.data, set)?;
        dataset.drop_without_gold();
        dataset.questions.retain(|question| question.gold.len() <= 5 || set == "locomo");
        for encoder in &arguments.encoders {
            let mut dataset = dataset.clone();
            if arguments.encoded_only {
                keep_ready(folders, &mut dataset, encoder, MemoryText::Speaker)?;
            }
            let mut encode = |texts: &[&str], side| encode(encoder, &folders.cache, set, texts, side);
            let material = Material::new(&dataset, short_name(encoder), &mut encode)?;
            let progress = bar(&format!("{set}, {encoder}"));
            if arguments.ablation {
                ablation::run(&settings, &folder, &material, &progress)?;
                ablation::write_report(&settings, &folder, &provenance)?;
            } else {
                let material = material.with_dense_pools(&mut encode)?;
                recipe_runs::run(&settings, &folder, &material, &progress)?;
                recipe_report::write_report(&settings, &folder, &provenance)?;
            }
            progress.finish_and_clear();
        }
    }
    print!("{}", std::fs::read_to_string(folder.file("summary.md"))?);
    println!("\nwritten to {}", path.display());
    Ok(())
}

fn keep_ready(folders: &Folders, dataset: &mut Dataset, encoder: &str, text: MemoryText) -> Result<()> {
    let vectors = Vectors::open(encoder, &folders.cache, &dataset.name)?;
    let (ready, all) = vectors.keep_ready(dataset, text);
    ensure!(ready > 0, "no bank of {} is encoded by {encoder}; run `earmark-lab encode` first", dataset.name);
    eprintln!("{}, {encoder}: {ready} of {all} banks with questions are encoded", dataset.name);
    Ok(())
}

/// Encodes through the cache, with a bar.
fn encode(encoder: &str, cache: &Path, dataset: &str, texts: &[&str], side: Side) -> Result<Vec<Vec<f32>>> {
    let encoding = bar(&format!("{encoder}: encoding"));
    let mut vectors = Vectors::open(encoder, cache, dataset)?;
    let mut told = |done, total| {
        encoding.set_length(total as u64);
        encoding.set_position(done as u64);
    };
    let encoded = vectors.encode(texts, side, &mut told);
    encoding.finish_and_clear();
    encoded
}

impl LocomoArguments {
    fn options(&self) -> Result<Options> {
        let params = match &self.params {
            Some(json) => methods::paper_with(json).context("--params")?,
            None => Params::paper(),
        };
        for learning_rate in &self.learning_rate {
            Params { learning_rate: *learning_rate, ..params }.check()?;
        }
        Ok(Options {
            sets: vec!["locomo".into()],
            encoders: self.encoders.clone(),
            params,
            seeds: self.seeds,
            split: self.split,
            memory_text: Some(self.memory_text),
            quick: self.quick,
        })
    }

    fn folder_name(&self) -> String {
        let quick = if self.quick { "-quick" } else { "" };
        let rates = self.learning_rate.iter().map(f32::to_string).collect::<Vec<_>>().join("-");
        let name = || format!("locomo-{}-lr{rates}{quick}", self.split.name());
        self.name.clone().unwrap_or_else(name)
    }
}

/// The last part of a name or folder.
fn short_name(encoder: &str) -> String {
    encoder.trim_end_matches('/').rsplit('/').next().unwrap_or(encoder).to_owned()
}

/// The command as it was typed, without folders and addresses, which differ from machine to machine.
fn command_line() -> String {
    let mut words = vec!["earmark-lab".to_owned()];
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        match word.as_str() {
            "--data" | "--cache" | "--results" | "--llm-url" => drop(given.next()),
            _ if ["--data=", "--cache=", "--results=", "--llm-url="].iter().any(|flag| word.starts_with(flag)) => {}
            _ => words.push(word),
        }
    }
    words.join(" ")
}

fn bar(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
    ProgressBar::new(0).with_message(what.to_owned()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
