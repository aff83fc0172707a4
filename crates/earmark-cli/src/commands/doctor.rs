//! `earmark doctor`.

use std::process::ExitCode;

use earmark::Result;
use serde::Serialize;

use super::{print_json, print_text};
use crate::{
    open::{self, DEFAULT_ENCODER, load_encoder},
    render::printable,
    settings::Settings,
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
    let mut findings = vec![Finding {
        what: "data folder".to_owned(),
        healthy: true,
        detail: earmark.path().display().to_string(),
    }];
    let config = settings.config_file.as_ref().map_or("none; defaults are used".to_owned(), |f| f.display().to_string());
    findings.push(Finding { what: "config file".to_owned(), healthy: true, detail: config });
    for name in earmark.namespaces()? {
        findings.push(check_namespace(&earmark, &name, repair));
    }
    findings.push(check_encoder(settings));
    report(settings, &findings)?;
    Ok(if findings.iter().all(|f| f.healthy) { ExitCode::SUCCESS } else { ExitCode::from(6) })
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
            let detail = format!("{} memories, {} recalls, whole", overview.memories, overview.recalls);
            Finding { what, healthy: true, detail }
        }
        Ok((problems, _)) => Finding { what, healthy: false, detail: problems.join("; ") },
        Err(error) => Finding { what, healthy: false, detail: error.to_string() },
    }
}

fn check_encoder(settings: &Settings) -> Finding {
    let name = settings.encoder.model.as_deref().unwrap_or(DEFAULT_ENCODER);
    let what = format!("encoder {}", printable(name));
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
        let mark = if finding.healthy { "ok   " } else { "WRONG" };
        print_text(&format!("{mark}  {}: {}", finding.what, printable(&finding.detail)))
    })
}
