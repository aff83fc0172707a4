//! Tables 2 and 3 on LoCoMo, each encoder with the learning rate that is best for its training questions.

use std::fmt::Write;

use anyhow::{Context, Result};
use earmark::Params;
use indicatif::ProgressBar;

use super::catalogue::LOCOMO;
use super::{Lab, Options, Run, Setting, report};
use crate::experiments::plan::ResultFolder;
use crate::experiments::select;
use crate::report::Provenance;

/// Runs what `folder` lacks, with the best of `rates` for each encoder; returns whether there was anything.
///
/// # Errors
/// As [`Run::run`], or if there is no rate.
pub fn run(
    options: &Options,
    rates: &[f32],
    lab: &Lab<'_>,
    folder: &ResultFolder,
    progress: &ProgressBar,
) -> Result<bool> {
    let mut ran = false;
    for setting in options.settings(&LOCOMO) {
        let learning_rate = choose(options, rates, &setting, lab, folder)?;
        let params = Params { learning_rate, ..options.params };
        let options = Options { encoders: vec![setting.encoder], params, ..options.clone() };
        ran |= Run { experiment: &LOCOMO, options: &options, lab }.run(folder, &[], progress)?;
    }
    Ok(ran)
}

/// The rate that the validations of the folder are for; they are made if there are none.
fn choose(options: &Options, rates: &[f32], setting: &Setting, lab: &Lab<'_>, folder: &ResultFolder) -> Result<f32> {
    let (encoder, params) = (setting.encoder_name(), &options.params);
    let chosen =
        || Ok::<_, anyhow::Error>(select::choose(&select::read(folder)?, &encoder, rates, &options.seed_list()));
    if let Some(rate) = chosen()? {
        return Ok(rate);
    }
    let (plan, dataset) = (options.plan(&LOCOMO, setting), lab.dataset(setting)?);
    select::validate(&plan, params, rates, folder, &dataset, &encoder, &lab.cases(setting, params.candidates)?)?;
    chosen()?.context("no learning rate was given")
}

/// As [`report::write`]; README.md also says how the rates were chosen, if there was a choice.
///
/// # Errors
/// If the folder cannot be read or written.
pub fn write(options: &Options, rates: &[f32], folder: &ResultFolder, ran: Option<&Provenance>) -> Result<()> {
    report::write(&LOCOMO, options, folder, ran)?;
    if ran.is_none() || rates.len() < 2 {
        return Ok(());
    }
    let (validations, seeds) = (select::read(folder)?, options.seed_list());
    let mut text = folder.readme();
    for encoder in options.settings(&LOCOMO).iter().map(Setting::encoder_name) {
        let value = |rate: f32| 100.0 * select::mean(&validations, &encoder, rate, &seeds).unwrap_or(0.0);
        let tried: Vec<String> = rates.iter().map(|rate| format!("{rate}: {:.1}", value(*rate))).collect();
        let _ = writeln!(
            text,
            "- {encoder}: the learning rate was chosen by `ear`, adapter alone, on a fifth of the *training* questions \
             (Recall@5 there: {})",
            tried.join(", ")
        );
    }
    Ok(std::fs::write(folder.file("README.md"), text)?)
}
