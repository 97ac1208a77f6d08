//! Metrics: numbers of all clients become one, as FoundationDB's tester combines them.

use crate::library::instance::Reported;
use crate::printf;
use crate::verdict::Metric;
use std::collections::BTreeMap;

/// The format of a metric whose workload chose none.
const DEFAULT_FORMAT: &str = "%.3g";

/// A metric's value in the format its workload chose. An invalid format is shown instead of the
/// value, as C would.
pub(super) fn formatted(metric: &Reported, value: f64) -> String {
    let format = metric.format.as_deref().unwrap_or(DEFAULT_FORMAT);
    printf::format_one(format, value).unwrap_or_else(|_| format.to_owned())
}

/// Combines the metrics of all clients by name: the sum, or the mean over the reports if the first
/// of that name is averaged.
pub(super) fn combine<'a>(clients: impl IntoIterator<Item = &'a [Reported]>) -> Vec<Metric> {
    let mut by_name: BTreeMap<&str, Vec<&Reported>> = BTreeMap::new();
    for metric in clients.into_iter().flatten() {
        by_name.entry(&metric.name).or_default().push(metric);
    }
    by_name
        .into_iter()
        .map(|(name, reports)| {
            let sum: f64 = reports.iter().map(|metric| metric.value).sum();
            let value = if reports[0].averaged {
                sum / reports.len() as f64
            } else {
                sum
            };
            Metric {
                name: name.to_owned(),
                value,
                formatted: formatted(reports[0], value),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str, value: f64, averaged: bool) -> Reported {
        Reported {
            name: name.into(),
            format: None,
            value,
            averaged,
        }
    }

    #[test]
    fn sums_are_added_and_means_divided_by_the_reports() {
        let clients: Vec<Vec<Reported>> = (0..4)
            .map(|client| {
                vec![
                    report("count", 3.0, false),
                    report("mean", f64::from(client), true),
                ]
            })
            .collect();
        let combined = combine(clients.iter().map(Vec::as_slice));
        let lines: Vec<String> = combined
            .iter()
            .map(|metric| format!("{} {} {}", metric.name, metric.value, metric.formatted))
            .collect();
        assert_eq!(lines, ["count 12 12", "mean 1.5 1.5"]);
    }

    #[test]
    fn a_format_that_would_read_memory_is_shown_and_not_used() {
        let mut metric = report("x", 1.0, false);
        metric.format = Some("%s%n".into());
        assert_eq!(formatted(&metric, 1.0), "%s%n");
    }
}
