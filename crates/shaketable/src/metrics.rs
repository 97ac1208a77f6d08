//! The numbers a workload reports after its check.

use crate::context::{Severity, WorkloadContext};
use crate::details;
use crate::host::HostMetrics;
use crate::stderr::complain;
use crate::trace_event::c_string;

/// Where [`get_metrics`](crate::Workload::get_metrics) puts its numbers.
///
/// Open while `get_metrics` runs; a later push only complains on stderr.
///
/// ```
/// # use shaketable::{Metric, Metrics};
/// # struct Transfers { made: u32, seconds: f64 }
/// # impl Transfers {
/// fn get_metrics(&self, mut out: Metrics) {
///     out.push(Metric::val("transfers", self.made));
/// }
/// # }
/// ```
pub struct Metrics(HostMetrics);

/// One number.
///
/// ```
/// use shaketable::Metric;
///
/// let latency = Metric { fmt: Some("%.1f ms"), ..Metric::avg("latency", 3.25) };
/// assert!(latency.avg);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Metric<'a> {
    /// Its name.
    pub key: &'a str,
    /// Its value.
    pub val: f64,
    /// Whether the clients' values are averaged (`true`) or summed (`false`).
    pub avg: bool,
    /// How to print it: a printf format with exactly one floating-point conversion. `None` means
    /// `%.3g`.
    pub fmt: Option<&'a str>,
}

const DEFAULT_FORMAT: &str = "%.3g";
/// A host makes room for what is announced, and ends if there is not as much. An iterator may
/// announce any number.
const RESERVED_MAX: usize = 1000;
/// A width or a precision of more digits makes a host write millions of characters.
const DIGITS_MAX: usize = 3;

impl Metrics {
    pub(crate) fn new(host: HostMetrics) -> Self {
        Metrics(host)
    }

    /// Announces that `n` more metrics follow: a hint, of which no host needs the exact number.
    pub fn reserve(&mut self, n: usize) {
        if !self.0.reserve(n.min(RESERVED_MAX)) {
            complain("reserve");
        }
    }

    /// Reports a metric.
    pub fn push(&mut self, metric: Metric) {
        let format = match metric.fmt {
            Some(format) if !prints_one_double(format) => {
                report_format(metric.key, format);
                DEFAULT_FORMAT
            }
            Some(format) => format,
            None => DEFAULT_FORMAT,
        };
        let key = match metric.key {
            "" => "unnamed",
            key => key,
        };
        let key = c_string(key.as_bytes());
        let format = c_string(format.as_bytes());
        if !self.0.push(&key, &format, metric.val, metric.avg) {
            complain("push");
        }
    }

    /// Reports several metrics.
    ///
    /// ```
    /// # use shaketable::{Metric, Metrics};
    /// # struct Transfers { made: u32, seconds: f64 }
    /// # impl Transfers {
    /// fn get_metrics(&self, mut out: Metrics) {
    ///     out.extend([
    ///         Metric::val("transfers", self.made),
    ///         Metric::avg("seconds each", self.seconds),
    ///     ]);
    /// }
    /// # }
    /// ```
    pub fn extend<'a, T>(&mut self, metrics: T)
    where
        T: IntoIterator<Item = Metric<'a>>,
    {
        let metrics = metrics.into_iter();
        let (at_least, at_most) = metrics.size_hint();
        self.reserve(at_most.unwrap_or(at_least));
        for metric in metrics {
            self.push(metric);
        }
    }
}

impl<'a> Metric<'a> {
    /// A number that is summed over all clients.
    ///
    /// # Panics
    ///
    /// If the value is no number that fits `f64`.
    ///
    /// ```
    /// let transfers = shaketable::Metric::val("transfers", 30);
    /// assert_eq!(transfers.val, 30.0);
    /// ```
    pub fn val<V>(key: &'a str, val: V) -> Self
    where
        V: TryInto<f64>,
    {
        Metric::new(key, val, false)
    }

    /// A number that is averaged over all clients.
    ///
    /// # Panics
    ///
    /// If the value is no number that fits `f64`.
    ///
    /// ```
    /// let seconds = shaketable::Metric::avg("seconds each", 0.25);
    /// assert!(seconds.avg);
    /// ```
    pub fn avg<V>(key: &'a str, val: V) -> Self
    where
        V: TryInto<f64>,
    {
        Metric::new(key, val, true)
    }

    fn new<V: TryInto<f64>>(key: &'a str, val: V, avg: bool) -> Self {
        let Ok(val) = val.try_into() else {
            panic!("the value of metric `{key}` does not fit an f64");
        };
        Metric {
            key,
            val,
            avg,
            fmt: None,
        }
    }
}

/// Whether printf, given this format and one double, prints it and touches nothing else.
fn prints_one_double(format: &str) -> bool {
    let mut conversions = 0;
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        match character {
            '\0' => return false,
            '%' => {}
            _ => continue,
        }
        let mut digits = 0;
        let conversion = rest.find(|c| {
            digits = if c.is_ascii_digit() { digits + 1 } else { 0 };
            digits > DIGITS_MAX || !"-+ #0123456789.".contains(*c)
        });
        match conversion {
            Some('%') => {}
            Some('a' | 'A' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G') => conversions += 1,
            _ => return false,
        }
    }
    conversions == 1
}

#[cold]
fn report_format(key: &str, format: &str) {
    if let Some(context) = WorkloadContext::current() {
        context.trace(
            Severity::Error,
            "WorkloadMetricFormatInvalid",
            details![
                "Metric" => key,
                "Format" => format,
                "Expected" => "a printf format with exactly one floating-point conversion",
            ],
        );
    }
}

#[cold]
fn complain(method: &str) {
    complain!("Metrics::{method} was called after get_metrics had returned; ignored");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_print_one_double_pass() {
        for format in ["%.3g", "%f", "%+08.2f s", "100%% of %e", "%-12G|"] {
            assert!(prints_one_double(format), "{format}");
        }
    }

    #[test]
    fn formats_that_would_read_something_else_do_not() {
        for format in [
            "", "0.3g", "%s", "%d", "%n", "%*f", "%f %f", "%", "%lf\0", "100%", "%9999f", "%.9999f",
        ] {
            assert!(!prints_one_double(format), "{format}");
        }
    }

    #[test]
    fn a_metric_is_a_sum_or_a_mean() {
        assert!(!Metric::val("transfers", 3).avg);
        assert!(Metric::avg("latency", 0.5).avg);
    }
}
