//! What mem0's programs send. What steers its language model (`infer`, `prompt` and so on) has no meaning here and is
//! passed over by name; anything else that is not known is refused, because it may have been meant to restrict.

use earmark::{Change, Error, Filter, Metadata, NewMemory, Result, Scope, messages, parse_instant};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// Where an application's id is kept.
pub(super) const APP: &str = "app_id";

/// Fields that are read and mean nothing here.
const PASSED_OVER: [&str; 24] = [
    "infer",
    "memory_type",
    "prompt",
    "async_mode",
    "output_format",
    "version",
    "custom_categories",
    "custom_instructions",
    "agent_custom_instructions",
    "structured_data_schema",
    "enable_graph",
    "includes",
    "excludes",
    "org_id",
    "project_id",
    "rerank",
    "fields",
    "show_expired",
    "reference_date",
    "latest_only",
    "keyword_search",
    "filter_memories",
    "immutable",
    "source",
];

/// Further fields of a body.
type Rest = Map<String, Value>;

/// mem0's `add`.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Add {
    /// Chat messages, or one text. They are kept as they are.
    #[schema(value_type = Object)]
    messages: Value,
    user_id: Option<String>,
    agent_id: Option<String>,
    app_id: Option<String>,
    run_id: Option<String>,
    /// The same ids in one object.
    #[schema(value_type = Option<Object>)]
    filters: Option<Value>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Metadata>,
    /// When it happened, in seconds since 1970.
    #[schema(value_type = Option<Object>)]
    timestamp: Option<Value>,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    rest: Rest,
}

impl Add {
    /// The memories that it holds.
    pub(super) fn items(self) -> Result<Vec<NewMemory>> {
        check_rest(&self.rest)?;
        let owner = self.owner()?;
        let occurred_at = instant(self.timestamp.as_ref())?;
        let mut items = match &self.messages {
            Value::String(text) => vec![NewMemory::new(text)],
            message @ Value::Object(_) => messages(&json!([message]))?,
            list => messages(list)?,
        };
        if items.is_empty() {
            return Err(Error::invalid("messages", "hold no text to remember"));
        }
        for item in &mut items {
            item.user_id = owner.get("user_id").cloned();
            item.agent_id = owner.get("agent_id").cloned();
            item.session_id = owner.get("run_id").cloned();
            item.metadata.extend(self.metadata.clone().unwrap_or_default());
            item.metadata.extend(owner.get(APP).map(|app| (APP.to_owned(), json!(app))));
            item.occurred_at = item.occurred_at.or(occurred_at);
        }
        Ok(items)
    }

    /// Whom the memories belong to, by the names of [`OWNERS`].
    fn owner(&self) -> Result<std::collections::HashMap<&'static str, String>> {
        let mut named = Map::new();
        collect_owner(self.filters.as_ref().unwrap_or(&Value::Null), &mut named)?;
        for (name, id) in OWNERS.into_iter().zip([&self.user_id, &self.agent_id, &self.app_id, &self.run_id]) {
            named.extend(id.iter().map(|id| (name.to_owned(), json!(id))));
        }
        let id = |name: &'static str| match named.get(name)?.as_str() {
            Some(id) if !id.is_empty() => Some(Ok((name, id.to_owned()))),
            _ => Some(Err(Error::invalid(name, "must be a text that is not empty"))),
        };
        OWNERS.into_iter().filter_map(id).collect()
    }
}

const OWNERS: [&str; 4] = ["user_id", "agent_id", APP, "run_id"];

/// Ids as mem0 writes them into `filters`: an object, or the parts of an `AND`.
fn collect_owner(filters: &Value, named: &mut Map<String, Value>) -> Result<()> {
    let refuse = |what: &str| {
        let reason = format!("may name only {} where memories are added, received {what}", OWNERS.join(", "));
        Err(Error::invalid("filters", reason))
    };
    match filters {
        Value::Null => Ok(()),
        Value::Object(parts) => parts.iter().try_for_each(|(key, value)| match value {
            Value::Array(parts) if key == "AND" => parts.iter().try_for_each(|part| collect_owner(part, named)),
            _ if OWNERS.contains(&key.as_str()) => {
                named.insert(key.clone(), value.clone());
                Ok(())
            }
            _ => refuse(&format!("`{key}`")),
        }),
        other => refuse(&other.to_string()),
    }
}

/// mem0's `search`.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Search {
    pub(super) query: String,
    user_id: Option<String>,
    agent_id: Option<String>,
    app_id: Option<String>,
    run_id: Option<String>,
    #[schema(value_type = Option<Object>)]
    filters: Option<Value>,
    /// How many memories at most.
    #[serde(alias = "top_k")]
    pub(super) limit: Option<usize>,
    /// Lowest `score`.
    pub(super) threshold: Option<f32>,
    /// Only memories with one of these tags.
    categories: Option<Vec<String>>,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    rest: Rest,
}

impl Search {
    pub(super) fn scope(&self) -> Result<Scope> {
        check_rest(&self.rest)?;
        let owner = owner_parts(&self.user_id, &self.agent_id, &self.app_id, &self.run_id)?;
        all(owner.into_iter().chain(restricted(self.filters.as_ref(), self.categories.as_ref())))
    }
}

/// mem0's `get_all`.
#[derive(Debug, Deserialize)]
pub(super) struct List {
    user_id: Option<String>,
    agent_id: Option<String>,
    app_id: Option<String>,
    run_id: Option<String>,
    filters: Option<Value>,
    start_date: Option<Value>,
    end_date: Option<Value>,
    categories: Option<Vec<String>>,
    #[serde(flatten)]
    rest: Rest,
}

impl List {
    pub(super) fn scope(&self) -> Result<Scope> {
        check_rest(&self.rest)?;
        let owner = owner_parts(&self.user_id, &self.agent_id, &self.app_id, &self.run_id)?;
        let parts = owner.into_iter().chain(restricted(self.filters.as_ref(), self.categories.as_ref()));
        let start = self.start_date.as_ref().map(|date| json!({ "created_at": { "gte": date } }));
        all(parts.chain(start).chain(self.end_date.as_ref().map(|date| json!({ "created_at": { "lte": date } }))))
    }
}

/// mem0's `update`.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Edit {
    text: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Metadata>,
    #[schema(value_type = Option<Object>)]
    timestamp: Option<Value>,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    rest: Rest,
}

impl Edit {
    pub(super) fn change(self) -> Result<Change> {
        check_rest(&self.rest)?;
        let occurred_at = instant(self.timestamp.as_ref())?.map(Some);
        let change = Change { content: self.text, metadata: self.metadata, occurred_at, ..Default::default() };
        if change == Change::default() {
            return Err(Error::invalid("text", "or `metadata` or `timestamp` must be given: nothing would change"));
        }
        Ok(change)
    }
}

fn check_rest(rest: &Rest) -> Result<()> {
    let unknown = rest.iter().find(|(key, value)| !PASSED_OVER.contains(&key.as_str()) && !value.is_null());
    match unknown.map(|(key, _)| key.as_str()) {
        None => Ok(()),
        Some(key @ "expiration_date") => {
            Err(Error::invalid(key, "is not kept: memories do not expire here, delete them instead"))
        }
        Some(key) => Err(Error::invalid(key, "is not a field that is known here")),
    }
}

/// A `timestamp`, if one is given.
fn instant(timestamp: Option<&Value>) -> Result<Option<Timestamp>> {
    timestamp.filter(|at| !at.is_null()).map(|at| parse_instant("timestamp", at)).transpose()
}

/// A condition each for what `filters` and `categories` restrict.
fn restricted(filters: Option<&Value>, categories: Option<&Vec<String>>) -> impl Iterator<Item = Value> {
    let tagged = categories.map(|names| json!({ "tags": { "in": names } }));
    filters.map(translated).into_iter().chain(tagged)
}

/// A condition for each id that is given.
fn owner_parts(
    user_id: &Option<String>,
    agent_id: &Option<String>,
    app_id: &Option<String>,
    run_id: &Option<String>,
) -> Result<Vec<Value>> {
    let given = OWNERS.into_iter().zip([user_id, agent_id, app_id, run_id]);
    let part = |(name, id): (&str, &Option<String>)| match id.as_deref()? {
        "" => Some(Err(Error::invalid(name, "is empty; leave it out instead"))),
        id => Some(Ok(json!({ name: id }))),
    };
    given.filter_map(part).collect()
}

/// What memories of these owners have in common; `None` if nobody is named.
pub(super) fn owner_filter(
    user_id: &Option<String>,
    agent_id: &Option<String>,
    app_id: &Option<String>,
    run_id: &Option<String>,
) -> Result<Option<Filter>> {
    Ok(all(owner_parts(user_id, agent_id, app_id, run_id)?)?.filter)
}

/// The scope in which all parts hold.
fn all(parts: impl IntoIterator<Item = Value>) -> Result<Scope> {
    let parts: Vec<Value> = parts.into_iter().filter(|part| !part.is_null()).collect();
    let filter = if parts.is_empty() { None } else { Some(Filter::parse(&json!({ "AND": parts }))?) };
    Ok(Scope { filter, ..Default::default() })
}

/// A filter of mem0's in our words: `"*"` is any value, categories are tags, keywords are parts of the text.
fn translated(filters: &Value) -> Value {
    match filters {
        Value::Object(parts) => {
            let part = |(key, value): (&String, &Value)| (word(key).to_owned(), translated(value));
            Value::Object(parts.iter().map(part).collect())
        }
        Value::Array(items) => items.iter().map(translated).collect(),
        Value::String(any) if any == "*" => json!({ "exists": true }),
        other => other.clone(),
    }
}

fn word(key: &str) -> &str {
    match key {
        "categories" => "tags",
        "keywords" => "content",
        key => key,
    }
}
