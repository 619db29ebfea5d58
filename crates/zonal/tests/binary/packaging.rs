//! Tests of the packaged dashboards and alerts: they use only exported metrics, and every alert is
//! documented.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::metrics::documented;

const DASHBOARDS: [&str; 2] = [
    include_str!("../../../../packaging/grafana-dashboard.json"),
    include_str!("../../../../packaging/grafana-block-dashboard.json"),
];
const ALERTS: &str = include_str!("../../../../packaging/alerts.yml");
const ALERTS_PAGE: &str = include_str!("../../../../docs/alerts.md");

/// Metric names of Zonal in a text. Those of histograms without the suffix of their samples.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named = words.filter(|word| ["zonal_", "process_"].iter().any(|of| word.starts_with(of)));
    let suffixes = ["_seconds_bucket", "_seconds_count", "_seconds_sum"];
    let family = |name| match suffixes.iter().find_map(|suffix| str::strip_suffix(name, suffix)) {
        Some(start) => &name[..start.len() + "_seconds".len()],
        None => name,
    };
    named.map(family).collect()
}

/// Collects all string values of `key`, at any depth.
fn strings<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if name == key => found.push(text),
                    field => strings(field, key, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, key, found)),
        _ => {}
    }
}

#[test]
fn every_metric_of_the_dashboards_and_the_alerts_is_exported() {
    let dashboards = DASHBOARDS.map(|text| serde_json::from_str::<Value>(text).unwrap());
    let mut queries = Vec::new();
    for dashboard in &dashboards {
        let before = queries.len();
        strings(dashboard, "expr", &mut queries);
        assert!(before + 10 <= queries.len(), "{queries:?}");
    }
    // Tests in `metrics` and `block` check that documented metrics are exported.
    let exported = documented(|_| true);
    for query in queries {
        let named = metrics(query);
        assert!(!named.is_empty() && named.is_subset(&exported), "{query}");
    }
    let expressions: Vec<&str> =
        ALERTS.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    for expression in &expressions {
        let named = metrics(expression);
        assert!(!named.is_empty() && named.is_subset(&exported), "{expression}");
    }
    assert_eq!(expressions.len(), ALERTS.matches("- alert: ").count());
    assert!(metrics(ALERTS_PAGE).is_subset(&exported));
}

#[test]
fn every_alert_is_explained_and_every_one_explained_is_there() {
    let alerts = ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let explained = ALERTS_PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let explained = explained.map(|row| row.split('`').next().unwrap());
    assert_eq!(alerts.collect::<Vec<_>>(), explained.collect::<Vec<_>>(), "in one order");
}
