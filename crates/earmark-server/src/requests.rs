//! What callers send, over HTTP and MCP alike, and how it becomes a call of the library.
//!
//! Unknown fields are refused, `null` is as good as nothing, and an empty text where a name belongs is an error.

use earmark::{
    Change, Error, Explore, Feedback, Filter, Forget, Metadata, Namespace, NewMemory, Previous, RecallRequest, Result,
    Scope, Uncited, messages, parse_instant,
};
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// One text or several.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub enum Texts {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// What to remember: exactly one of `content`, `memories` and `messages`. The other fields hold for each memory that
/// does not say otherwise.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Remember {
    /// The namespace; `default` if not given.
    pub namespace: Option<String>,
    /// A text, or a list of texts; one memory each.
    pub content: Option<Texts>,
    /// Memories with fields of their own.
    pub memories: Option<Vec<Item>>,
    /// Chat messages `[{role, name?, content, timestamp?}]`; one memory each.
    #[schema(value_type = Option<Vec<Object>>)]
    pub messages: Option<Value>,
    /// Speaker or role.
    pub author: Option<String>,
    /// `episodic` (default), `semantic`, or your own word.
    pub kind: Option<String>,
    /// Free-form data, reachable by filters.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// Labels, reachable by filters.
    pub tags: Option<Vec<String>>,
    /// Whom it is about or belongs to.
    pub user_id: Option<String>,
    /// The agent that writes it.
    pub agent_id: Option<String>,
    /// The conversation it is a turn of; `run_id` is read too.
    #[serde(alias = "run_id")]
    pub session_id: Option<String>,
    /// When it happened: RFC 3339, a date, or seconds or milliseconds since 1970.
    #[schema(value_type = Option<String>)]
    pub occurred_at: Option<Value>,
}

/// One of several memories.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The text.
    pub content: String,
    /// Speaker or role.
    pub author: Option<String>,
    /// `episodic` (default), `semantic`, or your own word.
    pub kind: Option<String>,
    /// Free-form data, reachable by filters.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// Labels, reachable by filters.
    pub tags: Option<Vec<String>>,
    /// Whom it is about or belongs to.
    pub user_id: Option<String>,
    /// The agent that writes it.
    pub agent_id: Option<String>,
    /// The conversation it is a turn of; `run_id` is read too.
    #[serde(alias = "run_id")]
    pub session_id: Option<String>,
    /// When it happened: RFC 3339, a date, or seconds or milliseconds since 1970.
    #[schema(value_type = Option<String>)]
    pub occurred_at: Option<Value>,
}

impl Remember {
    /// The memories to store.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] that names the field.
    pub fn items(self) -> Result<Vec<NewMemory>> {
        let mut items = match (&self.content, &self.memories, &self.messages) {
            (Some(Texts::One(text)), None, None) => vec![NewMemory::new(text)],
            (Some(Texts::Many(texts)), None, None) => texts.iter().map(NewMemory::new).collect(),
            (None, Some(items), None) => items
                .iter()
                .enumerate()
                .map(|(i, item)| item.read(&format!("memories[{i}].")))
                .collect::<Result<_>>()?,
            (None, None, Some(list)) => messages(list)?,
            _ => return Err(Error::invalid("content", "or `memories` or `messages` must be given, one of them")),
        };
        if items.is_empty() {
            return Err(Error::invalid("content", "is empty: there is nothing to remember"));
        }
        let common = self.common().read("")?;
        items.iter_mut().for_each(|item| fill(item, &common));
        Ok(items)
    }

    fn common(self) -> Item {
        Item {
            content: String::new(),
            author: self.author,
            kind: self.kind,
            metadata: self.metadata,
            tags: self.tags,
            user_id: self.user_id,
            agent_id: self.agent_id,
            session_id: self.session_id,
            occurred_at: self.occurred_at,
        }
    }
}

impl Item {
    fn read(&self, place: &str) -> Result<NewMemory> {
        let named = |name: &str, text: &Option<String>| not_empty(&format!("{place}{name}"), text);
        Ok(NewMemory {
            content: self.content.clone(),
            author: named("author", &self.author)?,
            kind: named("kind", &self.kind)?,
            metadata: self.metadata.clone().unwrap_or_default(),
            tags: self.tags.clone().unwrap_or_default(),
            user_id: named("user_id", &self.user_id)?,
            agent_id: named("agent_id", &self.agent_id)?,
            session_id: named("session_id", &self.session_id)?,
            occurred_at: instant(&format!("{place}occurred_at"), &self.occurred_at)?,
        })
    }
}

/// Gives `item` what it lacks; metadata and tags of both come together.
fn fill(item: &mut NewMemory, common: &NewMemory) {
    let or = |own: &mut Option<String>, other: &Option<String>| {
        if own.is_none() {
            own.clone_from(other);
        }
    };
    or(&mut item.author, &common.author);
    or(&mut item.kind, &common.kind);
    or(&mut item.user_id, &common.user_id);
    or(&mut item.agent_id, &common.agent_id);
    or(&mut item.session_id, &common.session_id);
    item.occurred_at = item.occurred_at.or(common.occurred_at);
    for (key, value) in &common.metadata {
        item.metadata.entry(key.clone()).or_insert_with(|| value.clone());
    }
    let missing: Vec<String> = common.tags.iter().filter(|tag| !item.tags.contains(tag)).cloned().collect();
    item.tags.extend(missing);
}

/// A question.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Recall {
    /// The namespace; `default` if not given.
    pub namespace: Option<String>,
    /// The question, not blank.
    pub query: String,
    /// How many memories at most, 1 to 100; 5 if not given. `limit` is read too.
    #[serde(alias = "limit")]
    pub top_k: Option<usize>,
    /// Stop adding memories at about this many tokens of text.
    pub max_tokens: Option<usize>,
    /// Only memories of this user.
    pub user_id: Option<String>,
    /// Only memories of this agent.
    pub agent_id: Option<String>,
    /// Only memories of this conversation; `run_id` is read too.
    #[serde(alias = "run_id")]
    pub session_id: Option<String>,
    /// Only what happened at or after this time.
    #[schema(value_type = Option<String>)]
    pub after: Option<Value>,
    /// Only what happened before this time.
    #[schema(value_type = Option<String>)]
    pub before: Option<Value>,
    /// For example `{"topic": "billing", "priority": {"gte": 2}}`.
    #[schema(value_type = Option<Object>)]
    pub filters: Option<Value>,
    /// Whether to spend critic calls on this question.
    pub explore: Option<Explore>,
    /// Most critic calls for this question.
    pub max_critic_calls: Option<usize>,
    /// Closes an earlier recall on the way.
    pub previous: Option<PreviousRecall>,
    /// The vector of the query, if you have it already.
    pub query_vector: Option<Vec<f32>>,
    /// Answer nothing rather than something of which no memory fits with at least this chance, 0 to 1. It has no say
    /// where the answer's `confidence` is null.
    pub min_confidence: Option<f32>,
}

/// What became of an earlier recall.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviousRecall {
    /// The earlier recall.
    pub recall_id: String,
    /// Ids of its memories that were used, or their numbers in its context.
    #[serde(default, deserialize_with = "names")]
    pub used: Option<Vec<String>>,
    /// The answer that was given, with its `[n]` citations.
    pub answer: Option<String>,
}

impl Recall {
    /// The library's request; numbers in `previous.used` are looked up in `namespace`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] that names the field; [`Error::NotFound`] for the previous recall.
    pub fn request(self, namespace: &Namespace) -> Result<RecallRequest> {
        let scope = Owner { user_id: self.user_id, agent_id: self.agent_id, session_id: self.session_id };
        let scope = scope.scope(&self.after, &self.before, &self.filters)?;
        let previous = self.previous.map(|previous| previous.read(namespace)).transpose()?;
        Ok(RecallRequest {
            query: self.query,
            top_k: self.top_k,
            max_tokens: self.max_tokens,
            scope,
            explore: self.explore.unwrap_or_default(),
            max_critic_calls: self.max_critic_calls,
            previous,
            query_vector: self.query_vector,
            min_confidence: self.min_confidence,
        })
    }
}

impl PreviousRecall {
    fn read(self, namespace: &Namespace) -> Result<Previous> {
        let used = self.used.unwrap_or_default();
        let used = namespace.shown_by_name(&self.recall_id, "previous.used", &used)?;
        Ok(Previous { recall_id: self.recall_id, used, answer: self.answer })
    }
}

/// Labels for what a recall showed.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// The namespace; `default` if not given.
    pub namespace: Option<String>,
    /// Ids of memories that helped, or their numbers in the context.
    #[serde(default, deserialize_with = "names")]
    pub useful: Option<Vec<String>>,
    /// Ids of memories that did not, or their numbers in the context.
    #[serde(default, deserialize_with = "names")]
    pub not_useful: Option<Vec<String>>,
    /// An answer with `[n]` citations to read the labels from.
    pub answer: Option<String>,
    /// What silence means; by default negative for a completely cited `answer`, else ignored.
    pub uncited: Option<Uncited>,
}

impl Labels {
    /// The library's feedback; numbers are looked up in `namespace`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] that names the field; [`Error::NotFound`] for the recall.
    pub fn feedback(&self, namespace: &Namespace, recall_id: &str) -> Result<Feedback> {
        let named = |field: &str, names: &Option<Vec<String>>| {
            namespace.shown_by_name(recall_id, field, names.as_deref().unwrap_or_default())
        };
        let feedback = Feedback {
            useful: named("useful", &self.useful)?,
            not_useful: named("not_useful", &self.not_useful)?,
            answer: self.answer.clone(),
            uncited: self.uncited,
        };
        if feedback.useful.is_empty() && feedback.not_useful.is_empty() && feedback.answer.is_none() {
            return Err(Error::invalid("useful", "or `not_useful` or `answer` must be given"));
        }
        Ok(feedback)
    }
}

/// Memories of a slate, by id or number; a number may be a text or a number.
fn names<'de, D: serde::Deserializer<'de>>(reader: D) -> std::result::Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected an id or a number")]
    enum Name {
        Text(String),
        Number(u64),
    }
    let text = |name| match name {
        Name::Text(text) => text,
        Name::Number(number) => number.to_string(),
    };
    let given = Option::<Vec<Name>>::deserialize(reader)?;
    Ok(given.map(|names| names.into_iter().map(text).collect()))
}

/// Changes to a memory: a field that is not there stays, `null` takes it away where it can be missing.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The namespace; `default` if not given.
    pub namespace: Option<String>,
    /// New text.
    pub content: Option<String>,
    /// New speaker or role.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub author: Option<Option<String>>,
    /// New kind.
    pub kind: Option<String>,
    /// New metadata, in place of all of the old.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// New labels, in place of all of the old.
    pub tags: Option<Vec<String>>,
    /// New time.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub occurred_at: Option<Option<Value>>,
}

/// Tells `null` from nothing.
fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    reader: D,
) -> std::result::Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(reader).map(Some)
}

impl Edit {
    /// The library's change.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] that names the field, or for no change at all.
    pub fn change(self) -> Result<Change> {
        let occurred_at = self.occurred_at.map(|at| instant("occurred_at", &at)).transpose()?;
        let author = self.author.map(|author| not_empty("author", &author)).transpose()?;
        let kind = not_empty("kind", &self.kind)?;
        let change =
            Change { content: self.content, author, kind, metadata: self.metadata, tags: self.tags, occurred_at };
        if change == Change::default() {
            return Err(Error::invalid("content", "or another field must be given: there is nothing to change"));
        }
        Ok(change)
    }
}

/// Which memories, in a query string.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// The namespace; `default` if not given.
    pub namespace: Option<String>,
    /// Only memories of this user.
    pub user_id: Option<String>,
    /// Only memories of this agent.
    pub agent_id: Option<String>,
    /// Only memories of this conversation; `run_id` is read too.
    #[serde(alias = "run_id")]
    pub session_id: Option<String>,
    /// Only what happened at or after this time.
    pub after: Option<String>,
    /// Only what happened before this time.
    pub before: Option<String>,
    /// A filter as JSON text, for example `{"topic":"billing"}`.
    pub filters: Option<String>,
    /// At most this many; 50 if not given, 1000 at most.
    pub limit: Option<usize>,
    /// Where the page before ended: its `next`.
    pub cursor: Option<String>,
}

impl Which {
    /// The library's scope.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] and [`Error::InvalidFilter`] that name the field.
    pub fn scope(&self) -> Result<Scope> {
        let owner = Owner {
            user_id: self.user_id.clone(),
            agent_id: self.agent_id.clone(),
            session_id: self.session_id.clone(),
        };
        let text = |text: &Option<String>| text.clone().map(Value::String);
        let filters = self.filters.as_deref().map(read_filters).transpose()?;
        owner.scope(&text(&self.after), &text(&self.before), &filters)
    }
}

/// Memories to forget: `ids`, or everything that the other fields all hold for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetWhich {
    /// Their ids.
    pub ids: Option<Vec<String>>,
    /// The user.
    pub user_id: Option<String>,
    /// The agent.
    pub agent_id: Option<String>,
    /// The conversation.
    pub session_id: Option<String>,
    /// A filter.
    pub filters: Option<Value>,
}

impl ForgetWhich {
    /// The library's word for it.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] and [`Error::InvalidFilter`] that name the field.
    pub fn what(self) -> Result<Forget> {
        let owner = Owner { user_id: self.user_id, agent_id: self.agent_id, session_id: self.session_id };
        let scope = owner.scope(&None, &None, &self.filters)?;
        match self.ids {
            Some(_) if !scope.is_everything() => {
                Err(Error::invalid("ids", "cannot be combined with other arguments: give one or the other"))
            }
            Some(ids) if ids.is_empty() => Err(Error::invalid("ids", "is empty: name the memories to forget")),
            Some(ids) => Ok(Forget::Ids(ids)),
            None => Ok(Forget::Scope(scope)),
        }
    }
}

fn read_filters(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error::invalid("filters", format!("is not JSON: {e}")))
}

/// Whose memories.
#[derive(Debug, Clone, Default)]
pub struct Owner {
    /// The user.
    pub user_id: Option<String>,
    /// The agent.
    pub agent_id: Option<String>,
    /// The conversation.
    pub session_id: Option<String>,
}

impl Owner {
    /// The library's scope.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] and [`Error::InvalidFilter`] that name the field.
    pub fn scope(&self, after: &Option<Value>, before: &Option<Value>, filters: &Option<Value>) -> Result<Scope> {
        Ok(Scope {
            user_id: not_empty("user_id", &self.user_id)?,
            agent_id: not_empty("agent_id", &self.agent_id)?,
            session_id: not_empty("session_id", &self.session_id)?,
            after: instant("after", after)?,
            before: instant("before", before)?,
            filter: filters.as_ref().filter(|value| !value.is_null()).map(Filter::parse).transpose()?,
        })
    }
}

fn instant(field: &str, value: &Option<Value>) -> Result<Option<jiff::Timestamp>> {
    value.as_ref().filter(|value| !value.is_null()).map(|value| parse_instant(field, value)).transpose()
}

/// An empty name would match nothing without a word; it is a mistake.
fn not_empty(field: &str, text: &Option<String>) -> Result<Option<String>> {
    match text {
        Some(text) if text.is_empty() => Err(Error::invalid(field, "is empty; leave it out instead")),
        text => Ok(text.clone()),
    }
}

/// Names the namespace, in a query string.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Where {
    /// The namespace; `default` if not given.
    pub namespace: Option<String>,
}

/// Names the namespace, in a body.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhereBody {
    /// The namespace; `default` if not given.
    pub namespace: Option<String>,
}

/// The one namespace that query string and body name.
///
/// # Errors
/// [`Error::InvalidInput`] if they name two.
pub fn one_namespace<'a>(query: &'a Option<String>, body: &'a Option<String>) -> Result<Option<&'a str>> {
    match (query.as_deref(), body.as_deref()) {
        (Some(query), Some(body)) if query != body => {
            Err(Error::invalid("namespace", "is one in the query string and another in the body"))
        }
        (query, body) => Ok(query.or(body)),
    }
}
