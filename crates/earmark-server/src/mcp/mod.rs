//! The Model Context Protocol: six tools over one namespace, on standard input and output or over HTTP.
//!
//! The namespace is fixed by how the client connects, never by an argument, so that a model cannot leave it.

mod arguments;
pub(crate) mod http;
mod tools;

use axum::http::request::Parts;
use earmark::{Error, FeedbackReport, Forget, LearningStatus, Overview, Recall, Result};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    access::Caller,
    app::{App, Missing},
    extract::misfit,
    keys::Access,
    problem::Problem,
    requests::{ForgetWhich, Labels, Recall as RecallBody, Remember},
    routes::{memories, recalls},
};

const INSTRUCTIONS: &str = "A long-term memory that learns which memories help. Before answering, call recall with \
    the user's question, and cite what you use as [n]. With the next recall, hand in `previous`: the recall_id of the \
    last one and the answer you gave (or the numbers you used). Call remember for what should be known later.";

/// Serves one namespace over standard input and output, until the input ends; then finishes learning.
///
/// # Errors
/// [`Error::Io`] if the other side does not speak the protocol.
pub async fn stdio(app: &App, namespace: String) -> Result<()> {
    let server = Tools { app: app.clone(), place: Some(Place { caller: Caller::Local, namespace }) };
    let failed = |reason: String| Error::Io { path: "standard input".into(), reason };
    let running = server.serve(rmcp::transport::stdio()).await.map_err(|e| failed(e.to_string()))?;
    running.waiting().await.map_err(|e| failed(e.to_string()))?;
    let learning = app.clone();
    tokio::task::spawn_blocking(move || learning.finish()).await.map_err(|e| failed(e.to_string()))
}

/// Who calls, and where.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) caller: Caller,
    pub(crate) namespace: String,
}

/// The tools; over HTTP each request brings its own [`Place`].
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) app: App,
    pub(crate) place: Option<Place>,
}

/// A tool's answer: for programs, and for the model to read.
type Answer = std::result::Result<(Value, String), Problem>;

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("earmark", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.offered()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let offered = self.offered();
        let Some(tool) = offered.iter().find(|tool| tool.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        };
        let place = self.place.clone().or_else(|| context.extensions.get::<Parts>()?.extensions.get().cloned());
        let place = place.ok_or_else(|| ErrorData::internal_error("the request names no namespace", None))?;
        let arguments = request.arguments.unwrap_or_default();
        let answer = match arguments::fitted(&tool.input_schema, arguments) {
            Ok(arguments) => self.call(&request.name, arguments, &place).await,
            Err(error) => Err(error.into()),
        };
        Ok(result(answer).into())
    }
}

fn result(answer: Answer) -> CallToolResult {
    match answer {
        Ok((value, text)) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(value);
            result
        }
        Err(problem) => CallToolResult::error(vec![ContentBlock::text(problem.detail)]),
    }
}

impl Tools {
    fn offered(&self) -> Vec<Tool> {
        tools::offered(self.app.config().refine_tool, self.app.critic().is_some())
    }

    async fn call(&self, tool: &str, arguments: JsonObject, place: &Place) -> Answer {
        match tool {
            "remember" => self.remember(read(arguments)?, place).await,
            "recall" => self.recall(read(arguments)?, place).await,
            "feedback" => self.feedback(arguments, place).await,
            "refine" => self.refine(arguments, place).await,
            "forget" => self.forget(read(arguments)?, place).await,
            _ => self.status(place).await,
        }
    }

    async fn remember(&self, body: Remember, place: &Place) -> Answer {
        let stored = memories::store(&self.app, &place.caller, Some(&place.namespace), body).await?;
        let word = |created: bool| if created { "remembered" } else { "known already" };
        let lines = stored.memories.iter().map(|one| format!("{}: {}", word(one.created), one.id));
        let text = lines.collect::<Vec<_>>().join("\n");
        answer(&stored, text)
    }

    async fn recall(&self, body: RecallBody, place: &Place) -> Answer {
        let recall = recalls::ask(&self.app, &place.caller, Some(&place.namespace), body).await?;
        answer(&recall, for_the_model(&recall))
    }

    async fn feedback(&self, mut arguments: JsonObject, place: &Place) -> Answer {
        let (recall_id, body) = labels(&mut arguments)?;
        let report = recalls::close(&self.app, &place.caller, Some(&place.namespace), recall_id, body).await?;
        answer(&report, said(&report))
    }

    async fn refine(&self, mut arguments: JsonObject, place: &Place) -> Answer {
        let (recall_id, body) = labels(&mut arguments)?;
        let recall = recalls::next_slate(&self.app, &place.caller, Some(&place.namespace), recall_id, body).await?;
        answer(&recall, for_the_model(&recall))
    }

    async fn forget(&self, which: ForgetWhich, place: &Place) -> Answer {
        let namespace = place.caller.enter(Some(&place.namespace), Access::Write)?;
        let what: Forget = which.what()?;
        let forgotten = self.app.with(namespace, Missing::Refuse, move |memory| memory.forget(&what)).await?;
        let text = format!("forgot {forgotten} {}", if forgotten == 1 { "memory" } else { "memories" });
        answer(&json!({ "forgotten": forgotten }), text)
    }

    async fn status(&self, place: &Place) -> Answer {
        let namespace = place.caller.enter(Some(&place.namespace), Access::Read)?;
        let look = |memory: &earmark::Namespace| Ok((memory.overview()?, memory.learning()?));
        let (overview, learning): (Overview, LearningStatus) = self.app.with(namespace, Missing::Create, look).await?;
        let text = format!("{} memories. {}", overview.memories, learning.in_words());
        answer(&json!({ "overview": overview, "learning": learning }), text)
    }
}

fn answer(value: &impl Serialize, text: String) -> Answer {
    let value = serde_json::to_value(value).map_err(|e| Problem::invalid("", e))?;
    Ok((value, text))
}

fn for_the_model(recall: &Recall) -> String {
    let id = &recall.recall_id;
    let warning = recall.warning.as_ref().map(|warning| format!("\n\nWarning: {warning}.")).unwrap_or_default();
    match recall.results.is_empty() {
        true => format!("nothing found (recall_id {id}){warning}"),
        false => format!("{}\n\nrecall_id: {id}. Cite what you use as [n].{warning}", recall.context),
    }
}

fn said(report: &FeedbackReport) -> String {
    if !report.closed {
        return "no label could be read; the recall stays open".to_owned();
    }
    let state = if report.repeated { "known already" } else { "thank you" };
    format!("{state}: {} useful, {} not useful", report.useful.len(), report.not_useful.len())
}

/// Splits the recall's id off.
fn labels(arguments: &mut JsonObject) -> std::result::Result<(String, Labels), Problem> {
    let id = arguments.remove("recall_id").unwrap_or_default();
    let id = id.as_str().filter(|id| !id.is_empty()).map(str::to_owned);
    let id = id.ok_or_else(|| Problem::invalid("recall_id", "is missing: it is in the answer to recall"))?;
    Ok((id, read(std::mem::take(arguments))?))
}

fn read<T: DeserializeOwned>(arguments: JsonObject) -> std::result::Result<T, Problem> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|e| misfit(&e))
}
