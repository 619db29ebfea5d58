//! JSON merge patches (RFC 7396): what to change in one document to get another.

use serde_json::{Map, Value};

/// The patch from `old` to `new`; `None` if they are equal. A field that is `null` in `new` is
/// removed, because a patch cannot set it to `null`.
pub(crate) fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in after {
        let change = match before.get(name) {
            Some(was) => merge_patch(was, value),
            None => Some(value.clone()),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_has_only_what_changed_and_makes_the_old_document_the_new_one() {
        let old = json!({"a": 1, "gone": 2, "same": {"x": [1, 2]}, "in": {"y": 1, "z": 2}});
        let new = json!({"a": 3, "same": {"x": [1, 2]}, "in": {"y": 1, "z": 4}, "more": [7]});
        let patch = merge_patch(&old, &new).unwrap();
        assert_eq!(patch, json!({"a": 3, "gone": null, "in": {"z": 4}, "more": [7]}));
        let mut patched = old.clone();
        json_patch::merge(&mut patched, &patch);
        assert_eq!(patched, new);
        assert_eq!(merge_patch(&new, &new), None);
    }

    #[test]
    fn arrays_and_fields_of_another_type_are_replaced() {
        let (old, new) = (json!({"a": [1, 2], "b": {"c": 1}}), json!({"a": [1], "b": 5}));
        assert_eq!(merge_patch(&old, &new), Some(json!({"a": [1], "b": 5})));
    }
}
