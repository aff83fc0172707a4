//! `earmark remember`.

use std::{io::IsTerminal, path::Path, process::ExitCode};

use earmark::{Error, Metadata, NewMemory, Remembered, Result, messages, parse_instant};

use super::{advance, print_json, print_text, progress, read_input, read_text};
use crate::{args::Remember, open, settings::Settings};

pub(crate) fn run(settings: &Settings, args: &Remember) -> Result<ExitCode> {
    if let Some(file) = &args.jsonl {
        let bytes = read_input(file)?;
        let bar = progress(settings, "remembering");
        let report = open::namespace(settings)?.import(&bytes, &mut advance(&bar))?;
        bar.finish_and_clear();
        super::import::print_report(settings, &report)?;
        return Ok(super::import::exit_code(&report));
    }
    let items = if let Some(file) = &args.messages { read_messages(file, args)? } else { read_texts(args)? };
    let remembered = open::namespace(settings)?.remember(&items)?;
    if settings.json {
        print_json(&remembered)?
    } else {
        remembered.iter().try_for_each(print_one)?
    }
    Ok(ExitCode::SUCCESS)
}

fn print_one(one: &Remembered) -> Result<()> {
    let note = if one.created { "remembered" } else { "known already: nothing was stored" };
    print_text(&format!("{}  {note}", one.id))
}

fn read_texts(args: &Remember) -> Result<Vec<NewMemory>> {
    let contents = match args.content.as_slice() {
        [] if !std::io::stdin().is_terminal() => vec![read_text("content")?],
        [] => return Err(Error::invalid("content", "is missing: give a text, `-`, --jsonl or --messages")),
        [dash] if dash == "-" => vec![read_text("content")?],
        texts => texts.to_vec(),
    };
    contents.into_iter().map(|content| with_fields(NewMemory::new(content), args)).collect()
}

fn read_messages(file: &Path, args: &Remember) -> Result<Vec<NewMemory>> {
    let bytes = read_input(file)?;
    let value = serde_json::from_slice(&bytes).map_err(|e| Error::invalid("messages", format!("is not JSON: {e}")))?;
    messages(&value)?.into_iter().map(|memory| with_fields(memory, args)).collect()
}

/// Adds what the flags say and the text itself does not.
fn with_fields(mut memory: NewMemory, args: &Remember) -> Result<NewMemory> {
    memory.author = memory.author.or_else(|| args.author.clone());
    memory.kind = memory.kind.or_else(|| args.kind.clone());
    memory.tags.clone_from(&args.tags);
    if let Some(text) = &args.metadata {
        let given: Metadata =
            serde_json::from_str(text).map_err(|e| Error::invalid("metadata", format!("is not a JSON object: {e}")))?;
        memory.metadata.extend(given);
    }
    if memory.occurred_at.is_none() {
        memory.occurred_at = args.at.as_ref().map(|t| parse_instant("at", &t.clone().into())).transpose()?;
    }
    memory.user_id.clone_from(&args.owner.user_id);
    memory.agent_id.clone_from(&args.owner.agent_id);
    memory.session_id.clone_from(&args.owner.session_id);
    Ok(memory)
}
