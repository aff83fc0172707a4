//! `earmark forget`.

use std::io::{IsTerminal, Write};

use earmark::{Error, Forget, Result};
use serde_json::json;

use super::{existing, print_json, print_text, scope};
use crate::{args, settings::Settings};

pub(crate) fn run(settings: &Settings, args: args::Forget) -> Result<()> {
    let namespace = existing(settings)?;
    let scope = scope(&args.within)?;
    let what = match (args.ids.is_empty(), scope.is_everything()) {
        (false, false) => return Err(Error::invalid("ids", "and a filter were both given; use one of them")),
        (false, true) => Forget::Ids(args.ids),
        (true, _) => Forget::Scope(scope),
    };
    if let Forget::Scope(scope) = &what
        && !args.yes
    {
        let count = namespace.count(scope)?;
        if !confirmed(count)? {
            return print_text("nothing was forgotten");
        }
    }
    let forgotten = namespace.forget(&what)?;
    if settings.json { print_json(&json!({ "forgotten": forgotten })) } else { print_text(&format!("forgotten: {forgotten}")) }
}

/// Asks on a terminal; without one, `--yes` is needed.
fn confirmed(count: usize) -> Result<bool> {
    if count == 0 {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Err(Error::invalid("yes", format!("is needed to forget {count} memories without a terminal to ask on")));
    }
    let mut error = std::io::stderr();
    let _ = write!(error, "forget {count} memories for good? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|e| super::io_error("-".as_ref(), &e))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
