//! A contradiction, as it is told.

use std::error::Error;
use std::fmt;

/// A history for which there is no order that explains every answer.
///
/// Its text is the smallest part of the history that shows it, in the order of the calls: client, operation, answer, the moments of call and
/// return (one tick for each), and the version where there is one. Then the longest order that explains a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLinearizable {
    operations: usize,
    /// `None` if the search was given up.
    least: Option<Vec<Shown>>,
    longest: Vec<Shown>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) client: i32,
    pub(super) called: u64,
    pub(super) returned: Option<u64>,
    pub(super) operation: String,
    pub(super) output: Option<String>,
    pub(super) version: Option<i64>,
}

impl NotLinearizable {
    pub(super) fn undecided(operations: usize) -> Self {
        NotLinearizable {
            operations,
            least: None,
            longest: Vec::new(),
        }
    }

    pub(super) fn contradiction(operations: usize, least: Vec<Shown>, longest: Vec<Shown>) -> Self {
        NotLinearizable {
            operations,
            least: Some(least),
            longest,
        }
    }

    /// Whether the search was given up: there may be an order.
    pub fn is_undecided(&self) -> bool {
        self.least.is_none()
    }

    /// How many operations the smallest contradicting part has.
    pub fn len(&self) -> usize {
        self.least.as_ref().map_or(0, Vec::len)
    }

    /// Whether there is no part to show.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}: {}", self.client, self.operation)?;
        match &self.output {
            Some(output) => write!(f, " -> {output}")?,
            None => write!(f, " (fate unknown)")?,
        }
        match self.returned {
            Some(returned) => write!(f, "  [{}, {returned}]", self.called)?,
            None => write!(f, "  [{}, …", self.called)?,
        }
        match self.version {
            Some(version) => write!(f, " at version {version}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(least) = &self.least else {
            return write!(
                f,
                "undecided: too many of the {} operations overlap; record fewer in one history, one for each key for \
                 example, or say at which version each committed or read",
                self.operations
            );
        };
        writeln!(
            f,
            "not linearizable: no order of these {} of {} operations explains every answer",
            least.len(),
            self.operations
        )?;
        for shown in least {
            writeln!(f, "  {shown}")?;
        }
        write!(f, "the longest order that explains a part:")?;
        if self.longest.is_empty() {
            write!(f, " none; no first operation answers as it did")?;
        }
        for shown in &self.longest {
            write!(f, "\n  {shown}")?;
        }
        Ok(())
    }
}

impl Error for NotLinearizable {}
