//! `earmark keys`.

use earmark::Result;
use earmark_server::{Access, Keys};
use serde_json::{Value, json};

use super::{print_json, print_text};
use crate::{
    args::{self, KeyAccess},
    open,
    render::{printable, table},
    settings::Settings,
};

pub(crate) fn run(settings: &Settings, verb: args::Keys) -> Result<()> {
    let keys = Keys::open(&open::earmark(settings)?.path())?;
    match verb {
        args::Keys::Create { name, namespaces, access } => create(settings, &keys, &name, namespaces, access),
        args::Keys::List => list(settings, &keys),
        args::Keys::Revoke { id } => {
            keys.revoke(&id)?;
            if settings.json { print_json(&json!({ "revoked": id })) } else { print_text(&format!("revoked {id}")) }
        }
    }
}

fn create(settings: &Settings, keys: &Keys, name: &str, named: Vec<String>, access: KeyAccess) -> Result<()> {
    let namespaces = if named.is_empty() { vec![settings.namespace.clone()] } else { named };
    let (secret, key) = keys.create(name, &namespaces, level(access))?;
    if settings.json {
        return print_json(&json!({ "id": key.id, "key": secret, "namespaces": key.namespaces, "access": key.access }));
    }
    print_text(&format!(
        "{secret}\n\n{} {} access to {}. Keep it now: it is not shown again. Send it as `Authorization: Bearer KEY`.",
        key.id,
        word(key.access),
        printable(&key.namespaces.join(", "))
    ))
}

fn list(settings: &Settings, keys: &Keys) -> Result<()> {
    let keys = keys.list()?;
    if settings.json {
        let shown = |key: &earmark_server::Key| -> Value {
            json!({ "id": key.id, "name": key.name, "namespaces": key.namespaces, "access": key.access,
                "created_at": key.created_at })
        };
        return print_json(&keys.iter().map(|key| shown(key)).collect::<Vec<_>>());
    }
    if keys.is_empty() {
        return print_text("no keys yet; make one: earmark keys create");
    }
    let mut rows = table(&["id", "name", "namespaces", "access", "created"]);
    for key in keys.iter() {
        rows.add([
            key.id.clone(),
            printable(&key.name),
            printable(&key.namespaces.join(", ")),
            word(key.access).to_owned(),
            key.created_at.strftime("%Y-%m-%d").to_string(),
        ]);
    }
    print_text(&rows.to_string())
}

fn level(access: KeyAccess) -> Access {
    match access {
        KeyAccess::Read => Access::Read,
        KeyAccess::Write => Access::Write,
        KeyAccess::Admin => Access::Admin,
    }
}

fn word(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
        Access::Admin => "admin",
    }
}
