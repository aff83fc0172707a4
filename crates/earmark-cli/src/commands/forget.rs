//! `earmark forget`.

use earmark::{Error, Forget, Result};
use serde_json::json;

use super::{confirmed, existing, print_json, print_text, scope};
use crate::{args, render::counted, settings::Settings};

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
        && !scope.is_everything()
    {
        let count = namespace.count(scope)?;
        if count > 0 && !confirmed(&format!("forget {} for good?", counted(count, "memory", "memories")))? {
            return print_text("nothing was forgotten");
        }
    }
    let forgotten = namespace.forget(&what)?;
    if let (0, Forget::Ids(ids)) = (forgotten, &what) {
        return Err(Error::not_found("memory", ids.join("`, `")));
    }
    if settings.json {
        print_json(&json!({ "forgotten": forgotten }))
    } else {
        print_text(&format!("forgotten: {forgotten}"))
    }
}
