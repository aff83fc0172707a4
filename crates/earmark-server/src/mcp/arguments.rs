//! Arguments as clients really send them: lists, objects and numbers as texts, `3.0` for 3, `null` for nothing.

use earmark::{Error, Result};
use rmcp::model::JsonObject;
use serde_json::Value;

/// Brings arguments to the types of `schema`, where their meaning is beyond doubt.
///
/// # Errors
/// [`Error::InvalidInput`] for an argument that the schema does not have.
pub(crate) fn fitted(schema: &JsonObject, arguments: JsonObject) -> Result<JsonObject> {
    let none = JsonObject::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut fitting = JsonObject::new();
    for (name, value) in arguments {
        let Some(property) = properties.get(&name) else { return Err(unknown(&name, properties)) };
        if !value.is_null() {
            fitting.insert(name, fit(property, value)?);
        }
    }
    Ok(fitting)
}

fn unknown(name: &str, properties: &JsonObject) -> Error {
    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Error::invalid(name, format!("is no argument of this tool; it takes: {known}"))
}

fn fit(property: &Value, value: Value) -> Result<Value> {
    Ok(match (property["type"].as_str().unwrap_or(""), value) {
        ("integer", value) => whole(&value).unwrap_or(value),
        ("array", Value::String(text)) => list(text),
        ("array", Value::Array(items)) => items.into_iter().map(as_text).collect(),
        ("array", value @ Value::Number(_)) => Value::Array(vec![as_text(value)]),
        ("object", value) => object(property, value)?,
        (_, value) => value,
    })
}

/// A whole number, however it is written.
fn whole(value: &Value) -> Option<Value> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (number.fract() == 0.0 && number.abs() < 1e15).then(|| Value::from(number as i64))
}

/// A list that was written as text, or a single item.
fn list(text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(Value::Array(items)) => items.into_iter().map(as_text).collect(),
        _ if text.is_empty() => Value::Array(Vec::new()),
        _ => Value::Array(vec![Value::String(text)]),
    }
}

/// Numbers of memories, where texts are expected.
fn as_text(value: Value) -> Value {
    if value.is_number() { Value::String(value.to_string()) } else { value }
}

/// An object that may have been written as text; one with known parts has them fitted too.
fn object(property: &Value, value: Value) -> Result<Value> {
    let value = match value {
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(read @ Value::Object(_)) => read,
            _ => Value::String(text),
        },
        value => value,
    };
    match (property.as_object(), value) {
        (Some(schema), Value::Object(parts)) if schema.contains_key("properties") => {
            fitted(schema, parts).map(Value::Object)
        }
        (_, value) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(tool: &str, given: Value, expected: Value) {
        let tools = crate::mcp::tools::offered(true, true);
        let tool = tools.iter().find(|t| t.name == tool).unwrap();
        let Value::Object(given) = given else { panic!("no object") };
        assert_eq!(Value::Object(fitted(&tool.input_schema, given).unwrap()), expected);
    }

    #[test]
    fn what_clients_send_is_understood() {
        for top_k in [json!("3"), json!(3.0), json!(3), json!(" 3 ")] {
            check("recall", json!({"query": "q", "top_k": top_k}), json!({"query": "q", "top_k": 3}));
        }
        check("recall", json!({"top_k": 2.5}), json!({"top_k": 2.5}));
        check(
            "recall",
            json!({"explore": "auto", "max_critic_calls": "2"}),
            json!({"explore": "auto", "max_critic_calls": 2}),
        );
        check("recall", json!({"filters": "{\"a\": 1}"}), json!({"filters": {"a": 1}}));
        check("recall", json!({"filters": null, "after": null}), json!({}));
        check(
            "recall",
            json!({"previous": "{\"recall_id\": \"r\", \"used\": [1, \"2\"]}"}),
            json!({"previous": {"recall_id": "r", "used": ["1", "2"]}}),
        );
        check("remember", json!({"tags": "[\"home\",\"bins\"]"}), json!({"tags": ["home", "bins"]}));
        check("remember", json!({"tags": "bus"}), json!({"tags": ["bus"]}));
        check("feedback", json!({"useful": 1}), json!({"useful": ["1"]}));
    }

    #[test]
    fn unknown_arguments_are_named() {
        let tools = crate::mcp::tools::offered(false, false);
        for (given, named) in [
            (json!({"topk": 1}), "`topk`"),
            (json!({"previous": {"id": "x"}}), "`id`"),
            (json!({"namespace": "b"}), "`namespace`"),
            (json!({"explore": "on"}), "`explore`"),
        ] {
            let Value::Object(given) = given else { panic!("no object") };
            let error = fitted(&tools[1].input_schema, given).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
