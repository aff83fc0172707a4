//! F1 and J of Table 2: a language model answers from what each method serves, and judges the answers.
//!
//! Only verdicts and counts are kept in the folder; the words stay in the cache of the model's answers.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use earmark::Params;
use earmark::chat::Prompt;
use earmark::critic::{Quality, without_thinking};
use earmark::learn::Ranker;
use earmark::recall::top_k;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use super::Options;
use super::catalogue::ANSWERS;
use super::lab::{Lab, Setting};
use super::table9::first_of;
use crate::answers::{self, Judging};
use crate::data::{Dataset, LabMemory, Question};
use crate::evidence::{self, Prepared};
use crate::experiments::plan::{Plan, ResultFolder, Served};
use crate::llm::Llm;
use crate::methods::{Inference, Method};
use crate::metrics::{self, Scores};
use crate::rows::{self, RunKey};
use crate::runner::Tested;
use crate::split::Split;

const FILE: &str = "answers.jsonl";
/// Longest verdict, in tokens: a word, and some more for models that do not keep to it.
const VERDICT_TOKENS: u32 = 16;
/// The order of the `default` recipe before any feedback.
pub const UNTAUGHT: &str = "default-untaught";

/// What one answer was worth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// The run whose slate it was made of.
    #[serde(flatten)]
    pub key: RunKey,
    /// The question's id.
    pub question: String,
    /// The source's kind of question.
    pub category: Option<String>,
    /// Whether there were words in it.
    pub readable: bool,
    /// LoCoMo's F1, in 0..1.
    pub f1: f64,
    /// What the judge says who wants the whole gold answer; `None` where neither yes nor no was read.
    pub strict: Option<bool>,
    /// What the generous judge says.
    pub generous: Option<bool>,
    /// Tokens read for the answer.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub answer_tokens: u64,
    /// Tokens read and written for both verdicts.
    pub judge_tokens: u64,
}

/// All answers of a folder.
///
/// # Errors
/// If a line cannot be read.
pub fn read(folder: &ResultFolder) -> Result<Vec<AnswerRow>> {
    rows::read(&folder.file(FILE))
}

/// What is answered, by which model, for which folder.
pub struct Answering<'a> {
    /// Answers and judges.
    pub llm: &'a Llm<'a>,
    /// Test questions of each seed.
    pub questions: usize,
    /// Sets, encoders, seeds and the parameters of EAR.
    pub options: &'a Options,
    /// Where questions and candidates come from.
    pub lab: &'a Lab<'a>,
    /// Where the rows go.
    pub folder: &'a ResultFolder,
    /// Counts answers.
    pub progress: &'a ProgressBar,
}

/// The test questions of one seed that are answered.
struct Exam<'a> {
    setting: &'a Setting,
    plan: Plan,
    dataset: &'a Dataset,
    split: Split,
    asked: Vec<usize>,
    seed: u64,
}

/// All methods, in the order of a table.
pub fn names(options: &Options) -> Vec<String> {
    let methods = (ANSWERS.methods)(&options.params).into_iter().map(|method| method.name);
    methods.chain([UNTAUGHT.to_owned()]).collect()
}

impl Answering<'_> {
    /// Answers what the folder lacks; returns whether there was anything.
    ///
    /// # Errors
    /// Those of the lab and the model, or if the folder cannot be used or holds runs with other settings.
    pub fn run(&self) -> Result<bool> {
        rows::mend(&self.folder.file(FILE))?;
        let before = read(self.folder)?.len();
        for setting in self.options.settings(&ANSWERS) {
            let dataset = self.lab.dataset(&setting)?;
            for seed in self.options.seed_list() {
                let plan = self.options.plan(&ANSWERS, &setting);
                let split = plan.divide(&dataset, seed);
                let mut answerable = split.test.clone();
                answerable.retain(|index| dataset.questions[*index].answer.is_some());
                let asked = first_of(&answerable, self.questions, seed);
                self.examine(&Exam { setting: &setting, plan, dataset: &dataset, split, asked, seed })?;
            }
        }
        Ok(read(self.folder)?.len() > before)
    }

    fn examine(&self, exam: &Exam<'_>) -> Result<()> {
        let known: BTreeSet<(RunKey, String)> =
            read(self.folder)?.into_iter().map(|row| (row.key, row.question)).collect();
        let is_known = |key: RunKey, index: usize| known.contains(&(key, exam.dataset.questions[index].id.clone()));
        let mut all = names(self.options).into_iter().map(|name| exam.key(&name));
        if all.all(|key| exam.asked.iter().all(|index| is_known(key.clone(), *index))) {
            return Ok(());
        }
        let served = self.served(exam)?;
        self.keep(&served)?;
        self.progress.set_length((served.len() * exam.asked.len()) as u64);
        for index in &exam.asked {
            let place = exam.split.test.iter().position(|test| test == index).context("not a test question")?;
            for run in &served {
                if !is_known(run.row.key.clone(), *index) {
                    let row = self.answer(exam, *index, &run.slates[place], run.row.key.clone())?;
                    rows::append(&self.folder.file(FILE), &[row])?;
                }
                self.progress.inc(1);
            }
        }
        Ok(())
    }

    /// What every method serves to all test questions.
    fn served(&self, exam: &Exam<'_>) -> Result<Vec<Served>> {
        let candidates = exam.plan.methods.iter().map(|method| method.params.candidates).max().unwrap_or(0);
        let cases = self.lab.cases(exam.setting, candidates)?;
        let encoder = exam.setting.encoder_name();
        let mut served = exam.plan.serve(exam.dataset, &encoder, &cases, exam.seed)?;
        let asked_alone = without_other_banks(exam.dataset);
        let prepared = evidence::prepare(&asked_alone, &mut |texts, side| self.lab.encode(exam.setting, texts, side))?;
        let tested = exam.untaught(&prepared);
        let method = Method {
            name: UNTAUGHT.to_owned(),
            params: Params::default(),
            trains: false,
            inference: Inference::AdapterOnly,
            quality: Quality::paper(),
        };
        let mut row = exam.plan.row(&method, exam.key(UNTAUGHT), exam.dataset, &cases, &exam.split, &tested);
        row.pool_ceiling = ceiling(&prepared, &exam.split.test);
        row.memory_text = "speaker".into();
        served.push(Served { row, slates: tested.slates });
        Ok(served)
    }

    /// Adds the rows that the folder lacks.
    fn keep(&self, served: &[Served]) -> Result<()> {
        let there = self.folder.rows()?;
        for Served { row, .. } in served {
            match there.iter().find(|known| known.key == row.key) {
                Some(known) => ensure!(
                    known == row,
                    "the result folder holds {} of {} with other settings; give this run another --name, or remove the folder",
                    row.key.method,
                    row.key.encoder
                ),
                None => rows::append(&self.folder.file("rows.jsonl"), std::slice::from_ref(row))?,
            }
        }
        Ok(())
    }

    fn answer(&self, exam: &Exam<'_>, index: usize, slate: &[usize], key: RunKey) -> Result<AnswerRow> {
        let question = &exam.dataset.questions[index];
        let set = &exam.setting.set;
        let gold = question.answer.as_deref().unwrap_or_default();
        let bank = &exam.dataset.banks[question.bank].memories;
        let mut rows = slate.to_vec();
        rows.sort_unstable();
        let memories: Vec<&LabMemory> = rows.iter().map(|row| &bank[*row]).collect();
        let reply = self.llm.ask(&answers::answer_prompt(set, question, &memories))?;
        let answer = without_thinking(&reply.text).trim().to_owned();
        let (mut judge_tokens, readable) = (0, !answer.is_empty());
        let mut verdict = |judging: Judging| {
            if !readable {
                return anyhow::Ok(None);
            }
            let user = answers::judge_prompt(judging, &question.text, gold, &answer);
            let reply = self.llm.ask(&Prompt { user, most_tokens: Some(VERDICT_TOKENS), ..Prompt::default() })?;
            judge_tokens += reply.prompt_tokens + reply.answer_tokens;
            Ok(answers::verdict(&without_thinking(&reply.text)))
        };
        Ok(AnswerRow {
            question: question.id.clone(),
            category: question.category.clone(),
            readable,
            f1: answers::locomo_f1(question.category.as_deref().unwrap_or_default(), &answer, gold),
            strict: verdict(strict_judging(set, question))?,
            generous: verdict(Judging::Generous)?,
            prompt_tokens: reply.prompt_tokens,
            answer_tokens: reply.answer_tokens,
            judge_tokens,
            key,
        })
    }
}

impl Exam<'_> {
    fn key(&self, method: &str) -> RunKey {
        let recipe = if method == UNTAUGHT { "default".to_owned() } else { self.plan.recipe.clone() };
        let encoder = self.setting.encoder_name();
        RunKey { recipe, ..self.plan.key(&self.dataset.name, &encoder, method, self.seed) }
    }

    /// The best of each test question in the `default` recipe's static order.
    fn untaught(&self, prepared: &[Prepared]) -> Tested {
        let slate = |index: &usize| {
            let case = &prepared[*index];
            let scores: Vec<f32> = case.features.iter().map(|row| Ranker::default().score(row) as f32).collect();
            top_k(&scores, metrics::DEPTH).into_iter().map(|place| case.rows[place]).collect()
        };
        let slates: Vec<Vec<usize>> = self.split.test.iter().map(slate).collect();
        let of = |(index, slate): (&usize, &Vec<usize>)| Scores::of(slate, &prepared[*index].gold);
        Tested { scores: self.split.test.iter().zip(&slates).map(of).collect(), slates, critic_calls_per_query: 0.0 }
    }
}

/// The set with the banks that are asked about, the others empty: nothing of them has to be encoded.
fn without_other_banks(dataset: &Dataset) -> Dataset {
    let asked: BTreeSet<usize> = dataset.questions.iter().map(|question| question.bank).collect();
    let mut dataset = dataset.clone();
    let others = dataset.banks.iter_mut().enumerate().filter(|(index, _)| !asked.contains(index));
    others.for_each(|(_, bank)| bank.memories.clear());
    dataset
}

/// Share of the questions whose gold memories are all among their candidates.
fn ceiling(prepared: &[Prepared], questions: &[usize]) -> f64 {
    let reachable = |index: &&usize| prepared[**index].gold_candidates.len() == prepared[**index].gold.len();
    questions.iter().filter(reachable).count() as f64 / questions.len().max(1) as f64
}

/// LongMemEval has a rule for each kind of question.
fn strict_judging(set: &str, question: &Question) -> Judging {
    match set {
        "longmemeval" => Judging::of_longmemeval(question.category.as_deref().unwrap_or_default(), &question.id),
        _ => Judging::Strict,
    }
}
