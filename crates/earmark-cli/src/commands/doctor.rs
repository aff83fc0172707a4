//! `earmark doctor`.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use earmark::Result;
use serde::Serialize;

use super::{print_json, print_text};
use crate::{
    open::{self, DEFAULT_ENCODER, load_encoder},
    render::{counted, printable, printable_lines},
    settings::{Settings, unknown_variables},
};

/// What was looked at and found.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    healthy: bool,
    detail: String,
}

/// Checks folder, namespaces and encoder; exit code 6 if something is wrong.
pub(crate) fn run(settings: &Settings, repair: bool) -> Result<ExitCode> {
    let earmark = open::earmark(settings)?;
    let mut findings =
        vec![Finding { what: "data folder".to_owned(), healthy: true, detail: earmark.path().display().to_string() }];
    let config =
        settings.config_file.as_ref().map_or("none; defaults are used".to_owned(), |f| f.display().to_string());
    findings.push(Finding { what: "config file".to_owned(), healthy: true, detail: config });
    findings.extend(unknown_variables().into_iter().map(unread));
    for name in earmark.namespaces()? {
        findings.push(check_namespace(&earmark, &name, repair));
    }
    findings.push(check_encoder(settings));
    report(settings, &findings)?;
    Ok(if findings.iter().all(|f| f.healthy) { ExitCode::SUCCESS } else { ExitCode::from(6) })
}

fn unread(variable: String) -> Finding {
    Finding {
        what: format!("variable {}", printable(&variable)),
        healthy: false,
        detail: "is not a setting; is it misspelt?".to_owned(),
    }
}

fn check_namespace(earmark: &earmark::Earmark, name: &str, repair: bool) -> Finding {
    let what = format!("namespace {}", printable(name));
    let checked = earmark.namespace(name).and_then(|namespace| {
        if repair {
            namespace.repair()?;
        }
        let problems = namespace.check()?;
        Ok((problems, namespace.overview()?))
    });
    match checked {
        Ok((problems, overview)) if problems.is_empty() => {
            let detail = {
                let memories = counted(overview.memories as usize, "memory", "memories");
                format!("{memories}, {}, whole", counted(overview.recalls as usize, "recall", "recalls"))
            };
            Finding { what, healthy: true, detail }
        }
        Ok((problems, _)) => Finding { what, healthy: false, detail: problems.join("; ") },
        Err(error) => Finding { what, healthy: false, detail: error.to_string() },
    }
}

fn check_encoder(settings: &Settings) -> Finding {
    let name = settings.encoder.model.as_deref().unwrap_or(DEFAULT_ENCODER);
    let place = settings.encoder.url.as_ref().map(|url| format!(" at {}", printable(url))).unwrap_or_default();
    let what = format!("encoder {}{place}", printable(name));
    match load_encoder(&settings.encoder) {
        Ok(encoder) => Finding { what, healthy: true, detail: format!("{} dimensions", encoder.dimension()) },
        Err(error) => Finding { what, healthy: false, detail: error.to_string() },
    }
}

fn report(settings: &Settings, findings: &[Finding]) -> Result<()> {
    if settings.json {
        return print_json(&findings);
    }
    findings.iter().try_for_each(|finding| {
        let (mark, style) = match finding.healthy {
            true => ("ok   ", Style::new()),
            false => ("WRONG", Style::new().fg_color(Some(AnsiColor::Red.into())).bold()),
        };
        print_text(&format!("{style}{mark}{style:#}  {}: {}", finding.what, printable_lines(&finding.detail)))
    })
}
