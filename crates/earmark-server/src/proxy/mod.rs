//! `earmark proxy`: OpenAI's `/v1/chat/completions` in front of any model endpoint, with a memory that learns.
//!
//! The last user turn is asked for in the memory, what was found goes along as a numbered system message, the answer
//! passes through as it comes, its `[n]` citations close the recall, and what the turns tell is remembered. Whatever
//! goes wrong with the memory, the conversation goes on without it.

mod conversation;
mod exchange;
mod listen;
mod upstream;
mod worth;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use earmark::{Namespace, RecallRequest, Result, Scope};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::RwLock;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    access::{Caller, identify_beside},
    app::{App, Missing},
    extract,
    guard::refuse_foreign,
    keys::Access,
    observe::observe,
    problem::Problem,
    router::{broke, not_so, nothing_here},
    routes::health::health,
};
use conversation::{Conversation, inject};
use exchange::Exchange;
use listen::{Answer, Listened};
use upstream::Upstream;

/// Port that the proxy listens on unless told otherwise.
pub const PROXY_PORT: u16 = 3278;
/// Recalls under way and turns seen that are kept in mind; the oldest leave.
const KEPT: usize = 20_000;

/// What a proxy stands in front of, and how it recalls.
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyConfig {
    /// Base address of the endpoint, with or without `/v1`.
    pub upstream: String,
    /// The namespace of requests that name none.
    pub namespace: String,
    /// Memories in the context, 1 to 100; 5 if not given.
    pub top_k: Option<usize>,
    /// About how many tokens the context may have.
    pub max_tokens: Option<usize>,
    /// Whose turns are remembered.
    pub remember: Remember,
}

/// Whose turns a proxy remembers, of those that tell something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Remember {
    /// What users say, and what the model adds to what it was given.
    #[default]
    Both,
    /// What users say.
    User,
    /// Nobody's: the memory is only asked, and learns.
    None,
}

/// A proxy, apart from its socket. Cheap to clone.
#[derive(Clone)]
pub struct Proxy(Arc<Inner>);

struct Inner {
    app: App,
    config: ProxyConfig,
    upstream: Upstream,
    /// Recalls that wait for an answer: the steps of an agent's loop share the recall of their user turn.
    waiting: Mutex<Kept<Arc<Recalled>>>,
    /// Turns that were looked at; a conversation is sent again with each of its turns.
    known: Mutex<Kept<()>>,
    /// Held for reading by what follows an answer.
    under_way: Arc<RwLock<()>>,
}

/// What a recall found for the prompt.
#[derive(Debug)]
struct Recalled {
    recall_id: String,
    context: String,
}

impl Proxy {
    /// A proxy over the memory of `app`.
    ///
    /// # Errors
    /// [`earmark::Error::InvalidInput`] for an upstream that is no http or https address.
    pub fn new(app: App, config: ProxyConfig) -> Result<Proxy> {
        let upstream = Upstream::new(&config.upstream)?;
        let (waiting, known, under_way) = Default::default();
        Ok(Proxy(Arc::new(Inner { app, config, upstream, waiting, known, under_way })))
    }

    /// The memory behind it.
    pub fn app(&self) -> &App {
        &self.0.app
    }

    /// Waits until what follows the answers so far is done: feedback given, turns remembered.
    pub async fn settle(&self) {
        drop(self.0.under_way.write().await);
    }

    /// What the memory holds for the question; nothing if it cannot be asked.
    async fn recalled(&self, namespace: &str, conversation: &Conversation) -> Option<Arc<Recalled>> {
        let key = conversation.key(namespace);
        if let Some(found) = lock(&self.0.waiting).get(&key) {
            return Some(found.clone());
        }
        let config = &self.0.config;
        let request = RecallRequest {
            top_k: config.top_k,
            max_tokens: config.max_tokens,
            scope: Scope { user_id: conversation.user_id.clone(), ..Default::default() },
            ..RecallRequest::new(conversation.question.clone()?)
        };
        let asked = self.0.app.with(namespace.to_owned(), Missing::Create, move |memory| ask(memory, &request)).await;
        let found = asked.unwrap_or_else(|problem| {
            tracing::warn!(problem.detail, "the memory could not be asked; the call goes on without it");
            None
        });
        let found = Arc::new(found?);
        self.0.app.metrics().recalled();
        lock(&self.0.waiting).put(key, found.clone());
        Some(found)
    }
}

fn ask(memory: &Namespace, request: &RecallRequest) -> Result<Option<Recalled>> {
    if memory.store().count()? == 0 {
        return Ok(None);
    }
    let recall = memory.recall(request)?;
    let found = !recall.results.is_empty();
    Ok(found.then_some(Recalled { recall_id: recall.recall_id, context: recall.context }))
}

/// Everything the proxy answers.
pub fn proxy_router(proxy: &Proxy) -> Router {
    let app = proxy.app().clone();
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/{*rest}", any(pass))
        .with_state(proxy.clone())
        .route("/healthz", get(health))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(app.clone(), identify_beside))
        .layer(from_fn_with_state(app.clone(), refuse_foreign))
        .layer(CatchPanicLayer::custom(broke))
        .layer(from_fn_with_state(app, observe))
}

/// Passes anything else on as it is.
async fn pass(State(proxy): State<Proxy>, request: Request) -> std::result::Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    Ok(proxy.0.upstream.send(&parts, body).await?.map(Body::new))
}

async fn chat(
    State(proxy): State<Proxy>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> std::result::Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let named = header_text(&parts.headers, "x-earmark-namespace")?;
    let namespace = caller.enter(Some(named.as_deref().unwrap_or(&proxy.0.config.namespace)), Access::Write)?;
    let bytes = extract::read(Request::from_parts(parts.clone(), body), proxy.app()).await?;
    let read = serde_json::from_slice::<Value>(&bytes).ok().and_then(|body| {
        let conversation = Conversation::read(&body)?;
        Some((body, conversation))
    });
    // What is no chat call is the upstream's to refuse.
    let Some((mut body, mut conversation)) = read else {
        return Ok(proxy.0.upstream.send(&parts, Body::from(bytes)).await?.map(Body::new));
    };
    conversation.session_id = header_text(&parts.headers, "x-earmark-session")?;
    conversation.user_id = header_text(&parts.headers, "x-earmark-user")?.or(conversation.user_id);
    let recalled = proxy.recalled(&namespace, &conversation).await;
    if let Some(recalled) = &recalled {
        inject(&mut body, &recalled.context);
    }
    let exchange = Exchange { proxy: proxy.clone(), namespace, conversation, recalled };
    answered(&proxy, &mut parts, (&body, bytes), exchange).await
}

/// Sends the call on, with the context or, where the model takes no such call, without it, and listens to a good answer
/// on its way back.
async fn answered(
    proxy: &Proxy,
    parts: &mut Parts,
    (body, original): (&Value, Bytes),
    mut exchange: Exchange,
) -> std::result::Result<Response, Problem> {
    // A compressed answer could not be listened to.
    parts.headers.remove(header::ACCEPT_ENCODING);
    let mut response = proxy.0.upstream.send(parts, Body::from(body.to_string())).await?;
    if may_be_the_context(response.status()) && exchange.recalled.take().is_some() {
        tracing::warn!(status = %response.status(), "the model refused the call with its context; sent again without");
        response = proxy.0.upstream.send(parts, Body::from(original)).await?;
    }
    if !response.status().is_success() || response.headers().contains_key(header::CONTENT_ENCODING) {
        return Ok(response.map(Body::new));
    }
    Ok(listened(response, exchange).into_response())
}

/// Too long for the model, or a system message where its template takes none.
fn may_be_the_context(status: StatusCode) -> bool {
    [400, 413, 422, 500].contains(&status.as_u16())
}

fn listened(response: hyper::Response<Incoming>, exchange: Exchange) -> hyper::Response<Body> {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let streams = kind.to_ascii_lowercase().starts_with("text/event-stream");
    let guard = exchange.proxy.0.under_way.clone().try_read_owned();
    let after = move |answer: Option<Answer>| {
        tokio::spawn(async move {
            exchange.follow(answer).await;
            drop(guard);
        });
    };
    response.map(|body| Body::new(Listened::new(body, streams, after)))
}

fn header_text(headers: &HeaderMap, name: &str) -> std::result::Result<Option<String>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).ok().map(str::trim).filter(|text| !text.is_empty());
    text.map(|text| Some(text.to_owned())).ok_or_else(|| Problem::invalid(name, "is empty or not readable"))
}

type Hash = [u8; 32];

/// A map that forgets its oldest entries.
struct Kept<T> {
    entries: HashMap<Hash, T>,
    order: VecDeque<Hash>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Kept<T> {
    fn get(&self, key: &Hash) -> Option<&T> {
        self.entries.get(key)
    }

    fn put(&mut self, key: Hash, value: T) {
        if self.entries.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > KEPT {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.entries.remove(&oldest));
        }
    }

    fn remove(&mut self, key: &Hash) {
        self.entries.remove(key);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
