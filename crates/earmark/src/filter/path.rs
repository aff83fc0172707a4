//! Metadata keys with dots: one literal key, or a path through nested objects.

use serde_json::{Map, Value};

/// The value under `path`: the literal key if there is one, else the first split at a dot
/// (from the left) whose head is an object that has the rest.
pub(crate) fn lookup<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    object.get(path).or_else(|| {
        path.match_indices('.').find_map(|(dot, _)| {
            let inner = object.get(&path[..dot])?.as_object()?;
            lookup(inner, &path[dot + 1..])
        })
    })
}

/// Every path under which [`lookup`] finds a value, with that value; nesting below `depth` is left out.
pub(crate) fn flatten(object: &Map<String, Value>, depth: usize) -> Vec<(String, &Value)> {
    let mut paths = Vec::new();
    collect(object, "", depth, &mut paths);
    paths.sort();
    paths.dedup();
    paths.into_iter().filter_map(|path| lookup(object, &path).map(|value| (path, value))).collect()
}

fn collect(object: &Map<String, Value>, prefix: &str, depth: usize, paths: &mut Vec<String>) {
    for (key, value) in object {
        let path = format!("{prefix}{key}");
        if let (Value::Object(inner), true) = (value, depth > 1) {
            collect(inner, &format!("{path}."), depth - 1, paths);
        }
        paths.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(object: &Value, path: &str) -> Option<Value> {
        lookup(object.as_object().unwrap(), path).cloned()
    }

    #[test]
    fn literal_keys_win_over_paths() {
        let both = json!({"a.b": 1, "a": {"b": 2, "c.d": 3}});
        assert_eq!(found(&both, "a.b"), Some(json!(1)));
        assert_eq!(found(&both, "a.c.d"), Some(json!(3)));
        assert_eq!(found(&both, "a.x"), None);
    }

    #[test]
    fn flatten_lists_what_lookup_finds() {
        let both = json!({"a.b": 1, "a": {"b": 2, "c": {"d": null}}});
        let paths: Vec<_> = flatten(both.as_object().unwrap(), 8).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["a", "a.b", "a.c", "a.c.d"]);
    }
}
