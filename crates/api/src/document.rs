//! Document of the live view, and the patch from one to the next.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::merge_patch::merge_patch;

/// State at one moment; `Z` is a zone.
#[derive(Clone)]
pub struct Document<Z> {
    state: Value,
    /// By name. They are compared as they are: of thousands of zones few change.
    zones: BTreeMap<String, ZoneGroup<Z>>,
}

/// The zones of a shard or of a tier, by their number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneGroup<Z> {
    /// Fields that say what they belong to.
    #[serde(flatten)]
    pub owner: Value,
    pub zone_bytes: u64,
    /// The zone that would be emptied next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextVictim>,
    pub zones: BTreeMap<u32, Z>,
}

/// A victim to be, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextVictim {
    pub zone: u32,
    /// Its figures, and their names.
    pub score: Vec<u64>,
    pub scored_by: &'static [&'static str],
}

impl<Z> Default for Document<Z> {
    fn default() -> Self {
        Self { state: Value::Null, zones: BTreeMap::new() }
    }
}

impl<Z: Clone + PartialEq + Serialize> Document<Z> {
    /// Requires: `state` is an object.
    pub fn new(state: Value, zones: impl IntoIterator<Item = (String, ZoneGroup<Z>)>) -> Self {
        Self { state, zones: zones.into_iter().collect() }
    }

    /// True before the first sample.
    pub fn is_empty(&self) -> bool {
        self.state.is_null()
    }

    pub const fn state(&self) -> &Value {
        &self.state
    }

    pub fn zones(&self) -> impl Iterator<Item = (String, ZoneGroup<Z>)> {
        self.zones.iter().map(|(name, group)| (name.clone(), group.clone()))
    }

    pub fn whole(&self) -> Value {
        with_zones(self.state.clone(), without_nulls(json!(self.zones)))
    }

    /// The merge patch that makes `last` this document.
    pub fn patch_from(&self, last: &Self) -> Value {
        let mut patch = merge_patch(&last.state, &self.state).unwrap_or_else(|| json!({}));
        let gone = last.zones.keys().filter(|name| !self.zones.contains_key(*name));
        let mut zones: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).collect();
        for (name, group) in &self.zones {
            let change = match last.zones.get(name) {
                Some(was) => changed_zones(was, group),
                None => Some(without_nulls(json!(group))),
            };
            zones.extend(change.map(|change| (name.clone(), change)));
        }
        if !zones.is_empty() {
            patch = with_zones(patch, zones.into());
        }
        patch
    }
}

fn with_zones(mut state: Value, zones: Value) -> Value {
    if let Some(fields) = state.as_object_mut() {
        fields.insert("zones".to_owned(), zones);
    }
    state
}

/// A document without the fields that are `null`: a merge patch cannot set them, so they would be
/// there or not, depending on when a viewer came.
pub fn without_nulls(document: Value) -> Value {
    match document {
        Value::Object(fields) => {
            let known = fields.into_iter().filter(|(_, value)| !value.is_null());
            known.map(|(name, value)| (name, without_nulls(value))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

/// The zones that differ, whole, and the next victim if it is another; `None` if all are equal.
fn changed_zones<Z: PartialEq + Serialize>(
    was: &ZoneGroup<Z>,
    now: &ZoneGroup<Z>,
) -> Option<Value> {
    let gone = was.zones.keys().filter(|zone| !now.zones.contains_key(*zone));
    let mut changes: Map<String, Value> =
        gone.map(|zone| (zone.to_string(), Value::Null)).collect();
    let changed = now.zones.iter().filter(|(number, zone)| was.zones.get(*number) != Some(zone));
    changes.extend(changed.map(|(number, zone)| (number.to_string(), json!(zone))));
    let mut patch = Map::new();
    if !changes.is_empty() {
        patch.insert("zones".to_owned(), changes.into());
    }
    if was.next != now.next {
        patch.insert("next".to_owned(), json!(now.next));
    }
    (!patch.is_empty()).then_some(patch.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(at_ns: u64, zones: &[(u32, u64)]) -> Document<u64> {
        let zones = zones.iter().copied().collect();
        let group = ZoneGroup { owner: json!({ "shard": 1 }), zone_bytes: 4096, next: None, zones };
        Document::new(json!({ "at_ns": at_ns }), [("0/1".to_owned(), group)])
    }

    #[test]
    fn a_patch_has_only_the_zones_that_changed() {
        let before = document(1, &[(4, 0), (5, 0), (6, 0)]);
        let after = document(2, &[(4, 0), (5, 4096), (6, 0)]);
        let patch = after.patch_from(&before);
        assert_eq!(patch, json!({ "at_ns": 2, "zones": { "0/1": { "zones": { "5": 4096 } } } }));
        let same = document(3, &[(4, 0), (5, 4096), (6, 0)]).patch_from(&after);
        assert_eq!(same, json!({ "at_ns": 3 }));
    }

    #[test]
    fn the_next_victim_is_in_the_patch_when_it_is_another() {
        let at = |zone: Option<u32>| {
            let zones = [(4, 0)].into();
            let next = zone.map(|zone| NextVictim { zone, score: vec![7], scored_by: &["age"] });
            let group = ZoneGroup { owner: json!({}), zone_bytes: 4096, next, zones };
            Document::new(json!({}), [("0/1".to_owned(), group)])
        };
        let next = json!({ "zone": 4, "score": [7], "scored_by": ["age"] });
        assert_eq!(at(Some(4)).whole()["zones"]["0/1"]["next"], next);
        let patch = |zone: Option<u32>, before| at(zone).patch_from(&at(before));
        assert_eq!(patch(Some(4), None), json!({ "zones": { "0/1": { "next": next } } }));
        assert_eq!(patch(None, Some(4)), json!({ "zones": { "0/1": { "next": null } } }));
        assert_eq!(patch(Some(4), Some(4)), json!({}));
    }

    #[test]
    fn a_group_that_is_gone_and_one_that_is_new_are_in_the_patch() {
        let (none, one) = (Document::new(json!({}), Vec::new()), document(1, &[(4, 0)]));
        assert_eq!(one.patch_from(&none), one.whole());
        assert_eq!(none.patch_from(&one), json!({ "at_ns": null, "zones": { "0/1": null } }));
        let whole = one.whole();
        assert_eq!(
            (&whole["zones"]["0/1"]["shard"], &whole["zones"]["0/1"]["zones"]["4"]),
            (&json!(1), &json!(0))
        );
    }
}
