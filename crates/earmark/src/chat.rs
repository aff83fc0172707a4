//! One question to a language model: any endpoint that speaks OpenAI's `/v1/chat/completions`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    error::{Error, Result},
    http::{Endpoint, Key, operation_url},
};

/// How a model is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmOptions {
    /// Base address, as for [`RemoteOptions::url`](crate::encode::RemoteOptions::url).
    pub url: String,
    /// Model name that the endpoint knows.
    pub model: String,
    /// Environment variable that holds the key; it may be empty for endpoints without one.
    pub key_variable: Option<String>,
    /// Longest duration of one call. Default 60 s.
    pub timeout: Duration,
    /// Repetitions of a failed call. Default 2.
    pub retries: u32,
}

impl LlmOptions {
    /// The defaults for an address and a model.
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        let (url, model) = (url.into(), model.into());
        LlmOptions { url, model, key_variable: None, timeout: Duration::from_secs(60), retries: 2 }
    }
}

/// What a model is asked, at temperature 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompt {
    /// What its task is; may be empty.
    pub system: String,
    /// The matter at hand.
    pub user: String,
    /// Longest answer, in tokens; the endpoint's own limit by default.
    pub most_tokens: Option<u32>,
    /// How many of the likeliest first tokens come with the answer, 0 to 20 (`top_logprobs`).
    pub alternatives: u8,
}

/// What a model answered, and what it cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reply {
    /// Its words; empty where it said nothing. Reasoning that comes beside them is no answer.
    pub text: String,
    /// Whether a limit or a filter cut it off.
    #[serde(default)]
    pub cut: bool,
    /// Tokens that it read; 0 where the endpoint does not say.
    pub prompt_tokens: u64,
    /// Tokens that it wrote, reasoning included; 0 where the endpoint does not say.
    pub answer_tokens: u64,
    /// The likeliest first tokens, likeliest first; empty where none were asked for or the endpoint gives none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<Alternative>,
}

/// A token that an answer could begin with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// As the model spells it, blanks included.
    pub token: String,
    /// Natural logarithm of its probability.
    pub logprob: f64,
}

/// A model behind an endpoint. Shared by threads freely.
pub struct Chat {
    endpoint: Endpoint,
    model: String,
    fields: Map<String, Value>,
}

impl Chat {
    /// Checks the options, which errors call `{what}.url` and `{what}.model`; nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an address or model that cannot be used.
    pub fn open(what: &str, options: &LlmOptions) -> Result<Self> {
        let url = operation_url(&format!("{what}.url"), &options.url, "chat/completions")?;
        if options.model.trim().is_empty() {
            return Err(Error::invalid(format!("{what}.model"), "has to name the model that the endpoint serves"));
        }
        let key = Key::from_variable(options.key_variable.clone());
        let endpoint = Endpoint::new(url, key, options.timeout, options.retries);
        Ok(Chat { endpoint, model: options.model.clone(), fields: Map::new() })
    }

    /// Sends these fields with every call that has none of the same name; one that is `null` here is never sent.
    /// So models can be asked that want `max_completion_tokens`, or no `temperature`.
    pub fn with_fields(self, fields: Map<String, Value>) -> Self {
        Chat { fields, ..self }
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Asks once.
    ///
    /// # Errors
    /// [`Error::Remote`] when the endpoint fails or its answer is none of a chat.
    pub fn ask(&self, prompt: &Prompt) -> Result<Reply> {
        let answer = self.endpoint.post(&self.body(prompt))?;
        read(&answer).ok_or_else(|| {
            self.endpoint.error("the answer has no `choices` with a `message`; is this a chat endpoint?")
        })
    }

    fn body(&self, prompt: &Prompt) -> Value {
        let said = [("system", &prompt.system), ("user", &prompt.user)];
        let message = |(role, content): (&str, &String)| json!({ "role": role, "content": content });
        let messages: Vec<Value> = said.into_iter().filter(|(_, content)| !content.is_empty()).map(message).collect();
        let mut body = self.fields.clone();
        let mut set = |field: &str, value: Value| {
            if body.get(field).is_none_or(|given| !given.is_null()) {
                body.insert(field.to_owned(), value);
            }
        };
        set("model", json!(self.model));
        set("messages", json!(messages));
        set("temperature", json!(0));
        if let Some(most) = prompt.most_tokens {
            set("max_tokens", json!(most));
        }
        if prompt.alternatives > 0 {
            set("logprobs", json!(true));
            set("top_logprobs", json!(prompt.alternatives));
        }
        body.retain(|_, value| !value.is_null());
        Value::Object(body)
    }
}

fn read(answer: &Value) -> Option<Reply> {
    let choice = answer.get("choices")?.get(0)?;
    let tokens = |field: &str| answer["usage"][field].as_u64().unwrap_or_default();
    Some(Reply {
        text: said(choice.get("message")?),
        cut: is_cut(choice),
        prompt_tokens: tokens("prompt_tokens"),
        answer_tokens: tokens("completion_tokens"),
        first: first_tokens(choice),
    })
}

/// Whether one of a chat answer's `choices`, whole or a streamed part, ends where a limit or a filter cut it off.
pub fn is_cut(choice: &Value) -> bool {
    let reason = choice["finish_reason"].as_str();
    reason.is_some_and(|reason| ["length", "content_filter"].contains(&reason))
}

/// A string or a list of parts; empty if it is `null`.
fn said(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}

fn first_tokens(choice: &Value) -> Vec<Alternative> {
    let likeliest = choice["logprobs"]["content"][0]["top_logprobs"].as_array();
    let read =
        |one: &Value| Some(Alternative { token: one["token"].as_str()?.into(), logprob: one["logprob"].as_f64()? });
    let mut first: Vec<Alternative> = likeliest.into_iter().flatten().filter_map(read).collect();
    first.sort_by(|a, b| b.logprob.total_cmp(&a.logprob));
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::stub;

    fn chat(answer: &Value) -> (Chat, std::sync::mpsc::Receiver<stub::Asked>) {
        let (base, asked) = stub::serve(vec![("200 OK", "", answer.to_string())]);
        let options = LlmOptions { retries: 0, ..LlmOptions::new(base, "m") };
        (Chat::open("llm", &options).unwrap(), asked)
    }

    #[test]
    fn tokens_and_first_tokens_are_read() {
        let token = |token: &str, logprob: f64| json!({ "token": token, "logprob": logprob, "bytes": [1] });
        let first = json!({ "top_logprobs": [token(" no", -1.5), token("Yes", -0.5), json!({ "token": "odd" })] });
        let answer = json!({
            "choices": [{ "message": { "content": "Yes" }, "logprobs": { "content": [first] } }],
            "usage": { "prompt_tokens": 70, "completion_tokens": 1, "total_tokens": 71 },
        });
        let reply = chat(&answer).0.ask(&Prompt::default()).unwrap();
        let expected = [("Yes", -0.5), (" no", -1.5)].map(|(t, logprob)| Alternative { token: t.into(), logprob });
        let said = Reply { text: "Yes".into(), prompt_tokens: 70, answer_tokens: 1, ..Reply::default() };
        assert_eq!(reply, Reply { first: expected.to_vec(), ..said });
    }

    #[test]
    fn limits_and_filters_cut() {
        for (reason, cut) in [
            (json!("length"), true),
            (json!("content_filter"), true),
            (json!("stop"), false),
            (json!("tool_calls"), false),
            (json!(""), false),
            (json!(null), false),
            (json!(7), false),
        ] {
            let answer = json!({ "choices": [{ "message": { "content": "Yes" }, "finish_reason": reason }] });
            assert_eq!(chat(&answer).0.ask(&Prompt::default()).unwrap().cut, cut, "{reason}");
        }
    }

    #[test]
    fn what_an_endpoint_does_not_say_is_nothing() {
        for logprobs in [json!(null), json!({ "content": null }), json!({ "content": [] }), json!({ "content": [{}] })]
        {
            let answer = json!({ "choices": [{ "message": { "content": null }, "logprobs": logprobs }] });
            assert_eq!(chat(&answer).0.ask(&Prompt::default()).unwrap(), Reply::default(), "{logprobs}");
        }
    }

    #[test]
    fn only_what_was_set_is_sent() {
        let body = |prompt: &Prompt, fields: Value| {
            let (chat, asked) = chat(&json!({ "choices": [{ "message": {} }] }));
            let Value::Object(fields) = fields else { return Value::Null };
            chat.with_fields(fields).ask(prompt).unwrap();
            let mut body: Value = serde_json::from_str(&asked.recv().unwrap().body).unwrap();
            body.as_object_mut().unwrap().remove("messages");
            body
        };
        let asked = Prompt { most_tokens: Some(1), alternatives: 20, ..Prompt::default() };
        for (prompt, fields, expected) in [
            (&Prompt::default(), json!({}), json!({ "model": "m", "temperature": 0 })),
            (
                &asked,
                json!({}),
                json!({ "model": "m", "temperature": 0, "max_tokens": 1, "logprobs": true, "top_logprobs": 20 }),
            ),
            (
                &asked,
                json!({ "temperature": null, "max_tokens": null, "logprobs": null, "top_logprobs": null, "seed": 7 }),
                json!({ "model": "m", "seed": 7 }),
            ),
            (
                &Prompt { most_tokens: Some(1), ..Prompt::default() },
                json!({ "max_tokens": 64 }),
                json!({ "model": "m", "temperature": 0, "max_tokens": 1 }),
            ),
            (
                &Prompt::default(),
                json!({ "max_tokens": 64 }),
                json!({ "model": "m", "temperature": 0, "max_tokens": 64 }),
            ),
        ] {
            assert_eq!(body(prompt, fields), expected);
        }
    }
}
