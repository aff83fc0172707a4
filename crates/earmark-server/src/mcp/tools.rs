//! The tools as clients see them. Schemas keep to what every client takes: plain objects, one type a property.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

/// What is offered; `refine` only where it is switched on, and exploring only where there is a critic.
pub(crate) fn offered(refine: bool, critic: bool) -> Vec<Tool> {
    let mut tools = vec![remember(), recall(critic), feedback(), forget(), memory_status()];
    if refine {
        tools.push(self::refine());
    }
    tools
}

fn remember() -> Tool {
    let schema = object(
        json!({
            "content": text("What to remember, in full: it is kept word for word"),
            "author": text("Who said it"),
            "kind": text("episodic (default), semantic, or your own word"),
            "tags": list("Labels to filter by"),
            "metadata": { "type": "object", "description": "Free-form data to filter by" },
            "user_id": text("Whom it is about"),
            "agent_id": text("The agent that writes it"),
            "session_id": text("The conversation it belongs to"),
            "occurred_at": text("When it happened, for example 2027-01-31T18:45:00Z"),
        }),
        &["content"],
    );
    tool("remember", "Store one fact, event or turn for later. Storing the same again is safe.", schema)
        .with_annotations(hints(false, false).idempotent(true))
}

fn recall(critic: bool) -> Tool {
    let previous = json!({
        "type": "object",
        "description": "What became of the recall before: give its answer with [n] citations, or the numbers used",
        "properties": {
            "recall_id": text("Id of the recall before"),
            "answer": text("The answer that was given, with its [n] citations"),
            "used": list("Numbers or ids of the memories that were used"),
        },
        "required": ["recall_id"],
    });
    let mut properties = json!({
        "query": text("The question, in full"),
        "previous": previous,
        "top_k": whole("How many memories at most, 1 to 100; 5 if not given"),
        "max_tokens": whole("Stop at about this many tokens of text"),
        "user_id": text("Only memories of this user"),
        "agent_id": text("Only memories of this agent"),
        "session_id": text("Only memories of this conversation"),
        "after": text("Only what happened at or after this time"),
        "before": text("Only what happened before this time"),
        "filters": filters(),
    });
    if critic {
        properties["explore"] = one_of(
            &["off", "auto", "on"],
            "Whether a slower critic looks for better memories first: auto only if it may pay; off if not given",
        );
        properties["max_critic_calls"] = whole("Most calls of the critic for this question");
    }
    let schema = object(properties, &["query"]);
    let description = "Find the memories that answer a question, best first, as numbered text. Cite what you use as \
                       [n], and hand in `previous` for the recall before: that is how recall gets better.";
    tool("recall", description, schema).with_annotations(hints(true, false))
}

fn feedback() -> Tool {
    let schema = object(
        json!({
            "recall_id": text("Id of the recall"),
            "answer": text("The answer that was given, with its [n] citations"),
            "useful": list("Numbers or ids of memories that helped"),
            "not_useful": list("Numbers or ids of memories that misled"),
        }),
        &["recall_id"],
    );
    tool("feedback", "Say which memories of a recall helped, if no later recall says it in `previous`.", schema)
        .with_annotations(hints(false, false).idempotent(true))
}

fn forget() -> Tool {
    let schema = object(
        json!({
            "ids": list("Ids of the memories"),
            "user_id": text("Everything of this user"),
            "agent_id": text("Everything of this agent"),
            "session_id": text("Everything of this conversation"),
            "filters": filters(),
        }),
        &[],
    );
    tool("forget", "Delete memories for good: by ids, or everything that the other arguments all hold for.", schema)
        .with_annotations(hints(false, true).idempotent(true))
}

fn memory_status() -> Tool {
    tool("memory_status", "How much is remembered and what was learned.", object(json!({}), &[]))
        .with_annotations(hints(true, false))
}

fn refine() -> Tool {
    let schema = object(
        json!({
            "recall_id": text("Id of the recall"),
            "useful": list("Numbers or ids of memories that helped"),
            "not_useful": list("Numbers or ids of memories that did not"),
        }),
        &["recall_id"],
    );
    let description = "Not those, show me others: labels what a recall showed and gets its next memories.";
    tool("refine", description, schema).with_annotations(hints(false, false))
}

fn tool(name: &'static str, description: &'static str, schema: Value) -> Tool {
    let Value::Object(schema) = schema else { return Tool::default() };
    Tool::new(name, description, Arc::new(schema))
}

fn hints(read_only: bool, destructive: bool) -> ToolAnnotations {
    ToolAnnotations::new().read_only(read_only).destructive(destructive).open_world(false)
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn one_of(words: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": words, "description": description })
}

fn whole(description: &str) -> Value {
    json!({ "type": "integer", "description": description })
}

fn list(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn filters() -> Value {
    let description = "For example {\"topic\": \"billing\", \"priority\": {\"gte\": 2}}; AND, OR, NOT; \
                       eq ne in nin gt gte lt lte contains icontains exists";
    json!({ "type": "object", "description": description })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every schema within `value`, at any depth.
    fn schemas(value: &Value) -> Vec<&Value> {
        let inner = value["properties"].as_object().into_iter().flat_map(|p| p.values()).chain(value.get("items"));
        std::iter::once(value).chain(inner.flat_map(schemas)).collect()
    }

    #[test]
    fn every_client_takes_the_schemas() {
        let tools = offered(true, true);
        assert!(tools.len() <= 6);
        assert!(serde_json::to_string(&tools).unwrap().len() <= 12_000);
        for tool in &tools {
            assert!(tool.name.len() <= 40 && tool.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            assert!(tool.description.as_deref().is_some_and(|d| (1..=1024).contains(&d.len())));
            let schema = tool.schema_as_json_value();
            assert_eq!(schema["type"], "object");
            for part in schemas(&schema) {
                assert!(part["type"].is_string(), "{} has a part without one type: {part}", tool.name);
                assert!(part.get("format").is_none());
                assert!(["oneOf", "anyOf", "allOf", "$ref"].iter().all(|key| part.get(key).is_none()));
                assert!(part["type"] != "array" || part["items"]["type"].is_string());
                let names = part["properties"].as_object().into_iter().flat_map(|p| p.keys());
                assert!(names.into_iter().all(|n| n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')));
            }
            let hints = tool.annotations.as_ref().unwrap();
            let reads = ["recall", "memory_status"].contains(&tool.name.as_ref());
            assert_eq!(hints.read_only_hint, Some(reads), "{}", tool.name);
            assert_eq!(hints.destructive_hint, Some(tool.name == "forget"), "{}", tool.name);
        }
    }
}
