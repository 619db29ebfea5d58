//! Exposition formats of `/metrics`, chosen by the `Accept` header of the scraper.

use std::fmt;

use http::header::{ACCEPT, HeaderMap};
use prometheus_client::encoding::prometheus_protobuf;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// Exposition format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus text format 0.0.4, for clients that ask for nothing else.
    Text,
    /// OpenMetrics text format 1.0.0.
    OpenMetrics,
    /// Prometheus protobuf format, the only one with native histograms.
    Protobuf,
}

impl Format {
    /// The format that the scraper prefers; the text format if it names none of the others.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        // Names of types and parameters have no case, and values may be quoted (RFC 9110).
        let ranges = values.flat_map(|value| value.split(',')).map(str::to_ascii_lowercase);
        let offers = ranges.filter_map(|range| {
            let range = range.replace('"', "");
            let mut parts = range.split(';').map(str::trim);
            let format = Self::of_media_type(parts.next()?, &range)?;
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
            Some((quality.unwrap_or(1.0), format))
        });
        // Among equals the first one is taken.
        let best = offers.fold(
            (0.0, Self::Text),
            |best: (f32, _), offer| {
                if best.0 < offer.0 { offer } else { best }
            },
        );
        best.1
    }

    fn of_media_type(media_type: &str, range: &str) -> Option<Self> {
        match media_type {
            "text/plain" | "text/*" | "*/*" => Some(Self::Text),
            "application/openmetrics-text" => Some(Self::OpenMetrics),
            "application/vnd.google.protobuf" => {
                let is_prometheus = range.contains("proto=io.prometheus.client.metricfamily")
                    && range.contains("encoding=delimited");
                is_prometheus.then_some(Self::Protobuf)
            }
            _ => None,
        }
    }

    /// Value of `Content-Type`.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }

    pub(super) fn encode(self, registry: &Registry) -> Result<Vec<u8>, fmt::Error> {
        let open_metrics = || {
            let mut text = String::new();
            encode(&mut text, registry).map(|()| text)
        };
        match self {
            Self::Text => Ok(to_text_format(&open_metrics()?).into_bytes()),
            Self::OpenMetrics => Ok(open_metrics()?.into_bytes()),
            Self::Protobuf => prometheus_protobuf::encode_to_vec(registry).map_err(|_| fmt::Error),
        }
    }
}

/// Converts OpenMetrics to the text format 0.0.4. There the family of a counter has the full name
/// of its samples, and no line marks the end.
fn to_text_format(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = Some(described);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|described| described.split_once(' '))
        {
            let total = if kind == "counter" { "_total" } else { "" };
            if let Some(help) = help.take().and_then(|help| help.strip_prefix(name)) {
                text += &format!("# HELP {name}{total}{help}\n");
            }
            text += &format!("# TYPE {name}{total} {kind}\n");
        } else if !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_scraper_chooses_the_format() {
        let of = |accept: &'static str| {
            let headers = [(ACCEPT, HeaderValue::from_static(accept))];
            Format::of(&headers.into_iter().collect())
        };
        assert_eq!(Format::of(&HeaderMap::new()), Format::Text);
        assert_eq!(of("*/*"), Format::Text);
        assert_eq!(of("text/html, */*;q=0.1"), Format::Text);
        assert_eq!(of("application/json"), Format::Text);
        assert_eq!(of("application/openmetrics-text"), Format::OpenMetrics);
        // Prometheus 3, without and with native histograms.
        let rest = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                    application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;\
                    escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert_eq!(of(rest), Format::OpenMetrics);
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                      encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5";
        assert_eq!(of(native), Format::Protobuf);
        assert_eq!(of("application/vnd.google.protobuf;proto=other"), Format::Text);
        assert_eq!(of("Application/OpenMetrics-Text; Version=\"1.0.0\""), Format::OpenMetrics);
        assert_eq!(of("application/openmetrics-text;Q=0"), Format::Text);
    }

    #[test]
    fn the_text_format_names_counters_as_their_samples() {
        let open_metrics = "# HELP a Things.\n# TYPE a counter\na_total{b=\"c\"} 1\n\
                            # HELP d Level.\n# TYPE d gauge\nd 2\n# EOF\n";
        let text = "# HELP a_total Things.\n# TYPE a_total counter\na_total{b=\"c\"} 1\n\
                    # HELP d Level.\n# TYPE d gauge\nd 2\n";
        assert_eq!(to_text_format(open_metrics), text);
    }
}
