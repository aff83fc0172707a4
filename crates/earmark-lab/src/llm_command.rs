//! The subcommands that need a language model.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use earmark::chat::{Chat, LlmOptions};
use earmark_lab::experiments::paper::answering::Answering;
use earmark_lab::experiments::paper::table9::{self, Critics};
use earmark_lab::experiments::paper::{Experiment, Lab, answering_report, catalogue, table9_report};
use earmark_lab::experiments::plan::ResultFolder;
use earmark_lab::llm::Llm;
use earmark_lab::llm_critic::Asking;
use earmark_lab::report::Provenance;
use serde_json::{Map, Value};

use crate::paper_command::{PaperArguments, source};
use crate::{Folders, bar, command_line};

/// One subcommand for each of the paper's tables that a language model has a part in.
#[derive(Subcommand)]
pub(crate) enum LlmCommand {
    /// Table 9: a language model as critic in training and in exploring, beside the simulated one
    Table9(Table9Arguments),
    /// Table 2, F1 and J: a language model answers from what each method serves, and judges the answers
    Answers(AnswersArguments),
}

/// A language model behind an OpenAI-compatible endpoint. What it answered is kept in the cache folder.
#[derive(Args)]
pub(crate) struct LlmArguments {
    /// Base address of the endpoint, for example http://127.0.0.1:8099/v1
    #[arg(long, env = "EARMARK_LAB_LLM_URL")]
    llm_url: String,
    /// Name of the model there
    #[arg(long, env = "EARMARK_LAB_LLM_MODEL")]
    llm_model: String,
    /// Environment variable that holds the key, where one is needed
    #[arg(long)]
    llm_key_variable: Option<String>,
    /// More fields of every request, as JSON; `null` takes one away: {"temperature": null, "max_tokens": null}
    #[arg(long, default_value = "{}")]
    llm_fields: String,
    /// Longest duration of one call, in seconds
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    llm_timeout: u64,
}

#[derive(Args)]
pub(crate) struct Table9Arguments {
    #[command(flatten)]
    paper: PaperArguments,
    #[command(flatten)]
    llm: LlmArguments,
    /// How many training questions teach, the first ones of each seed
    #[arg(long, default_value_t = 100)]
    questions: usize,
    /// How many test questions are explored for
    #[arg(long, default_value_t = 50)]
    explored: usize,
    /// How the model is asked
    #[arg(long, value_enum, value_delimiter = ',', default_value = "citations,yes-no")]
    critics: Vec<Asking>,
    /// For yes-no: by how much yes has to be likelier than no, in natural logarithms
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    threshold: f64,
}

#[derive(Args)]
pub(crate) struct AnswersArguments {
    #[command(flatten)]
    paper: PaperArguments,
    #[command(flatten)]
    llm: LlmArguments,
    /// How many test questions of each seed are answered
    #[arg(long, default_value_t = 100)]
    questions: usize,
}

/// Runs what the result folder lacks and writes it.
pub(crate) fn run(folders: &Folders, command: &LlmCommand) -> Result<()> {
    match command {
        LlmCommand::Table9(arguments) => run_table9(folders, arguments),
        LlmCommand::Answers(arguments) => run_answers(folders, arguments),
    }
}

fn run_table9(folders: &Folders, arguments: &Table9Arguments) -> Result<()> {
    let llm = arguments.llm.open(folders)?;
    let options = arguments.paper.options()?;
    let lab = Lab::new(source(folders, |setting| arguments.paper.load(folders, setting)));
    let provenance = Provenance::here(command_line());
    let (path, folder) = folder(folders, &arguments.paper, &catalogue::TABLE_9, &llm, &provenance)?;
    let critics = Critics {
        llm: &llm,
        askings: arguments.critics.clone(),
        threshold: arguments.threshold,
        questions: arguments.questions,
        explored: arguments.explored,
    };
    let progress = bar("table9").with_elapsed(Duration::ZERO);
    progress.set_length(critics.slates(&options));
    let ran = table9::run(&critics, &options, &lab, &folder, &progress)?;
    progress.finish_and_clear();
    table9_report::write(&critics, &options, &folder, ran.then_some(&provenance))?;
    show(&path, &folder)
}

fn run_answers(folders: &Folders, arguments: &AnswersArguments) -> Result<()> {
    let llm = arguments.llm.open(folders)?;
    let options = arguments.paper.options()?;
    let lab = Lab::new(source(folders, |setting| arguments.paper.load(folders, setting)));
    let provenance = Provenance::here(command_line());
    let (path, folder) = folder(folders, &arguments.paper, &catalogue::ANSWERS, &llm, &provenance)?;
    let progress = bar("answers").with_elapsed(Duration::ZERO);
    let (options, lab, questions) = (&options, &lab, arguments.questions);
    let answering = Answering { llm: &llm, questions, options, lab, folder: &folder, progress: &progress };
    let ran = answering.run()?;
    progress.finish_and_clear();
    answering_report::write(&llm, options, &folder, ran.then_some(&provenance))?;
    show(&path, &folder)
}

/// One folder for each model.
fn folder(
    folders: &Folders,
    arguments: &PaperArguments,
    experiment: &Experiment,
    llm: &Llm<'_>,
    provenance: &Provenance,
) -> Result<(PathBuf, ResultFolder)> {
    let name = arguments.folder_name(experiment, &format!("-{}", llm.file_name()));
    let date = arguments.date().unwrap_or(&provenance.date);
    let path = folders.results.join(format!("{date}-{name}"));
    let folder = ResultFolder::open(&path)?;
    Ok((path, folder))
}

fn show(path: &std::path::Path, folder: &ResultFolder) -> Result<()> {
    print!("{}", std::fs::read_to_string(folder.file("summary.md"))?);
    println!("\nwritten to {}", path.display());
    Ok(())
}

impl LlmArguments {
    fn open(&self, folders: &Folders) -> Result<Llm<'static>> {
        let fields: Map<String, Value> =
            serde_json::from_str(&self.llm_fields).context("--llm-fields is not a JSON object")?;
        let options = LlmOptions {
            key_variable: self.llm_key_variable.clone(),
            timeout: Duration::from_secs(self.llm_timeout),
            ..LlmOptions::new(&self.llm_url, &self.llm_model)
        };
        let settings = Value::Object(fields.clone()).to_string();
        let chat = Chat::open("llm", &options)?.with_fields(fields);
        Llm::open(&folders.cache, &self.llm_model, &settings, Box::new(move |prompt| chat.ask(prompt)))
    }
}
