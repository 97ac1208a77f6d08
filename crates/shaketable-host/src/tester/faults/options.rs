//! Options of the built-in workloads, read as FoundationDB reads them, but refusing what it would misread.

use crate::testfile::WorkloadSpec;

/// Reads options of one block.
pub(super) struct Reader<'a> {
    spec: &'a WorkloadSpec,
}

impl<'a> Reader<'a> {
    pub(super) fn new(spec: &'a WorkloadSpec) -> Self {
        Reader { spec }
    }

    /// A number of any kind.
    pub(super) fn number(&self, key: &str, default: f64) -> Result<f64, String> {
        self.parse(key, default, "a number")
    }

    /// A whole number.
    pub(super) fn integer(&self, key: &str, default: i64) -> Result<i64, String> {
        self.parse(key, default, "a whole number")
    }

    /// `true` or `false`, if it is there.
    pub(super) fn boolean(&self, key: &str) -> Result<Option<bool>, String> {
        match self.spec.option(key) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(self.complaint(key, "`true` or `false`", other)),
        }
    }

    /// Text; empty if it is not there.
    pub(super) fn text(&self, key: &str) -> String {
        self.spec.option(key).unwrap_or_default().to_owned()
    }

    fn parse<T: std::str::FromStr>(
        &self,
        key: &str,
        default: T,
        expected: &str,
    ) -> Result<T, String> {
        match self.spec.option(key) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| self.complaint(key, expected, text)),
        }
    }

    fn complaint(&self, key: &str, expected: &str, found: &str) -> String {
        let line = self
            .spec
            .options
            .iter()
            .find(|option| option.key == key)
            .map_or(0, |option| option.line);
        format!(
            "expected {expected} for `{key}` of {} (line {line}), found `{found}`",
            self.spec.name
        )
    }
}
