//! How a contradiction is shown.

use crate::context::{Severity, WorkloadContext};
use crate::details;
use std::error::Error;
use std::fmt;

/// A history for which no order explains every result.
///
/// Its text is the smallest part of the history that shows it, and the state in which it finds the
/// object, in the order of the calls: client, operation, result, the moments of call and return
/// (one tick for each), and the version where there is one. Then the end of the longest order that
/// explains a part of it, and the state that it leaves.
///
/// ```
/// # use shaketable::history::{Counter, CounterOperation, History};
/// # let history = History::<Counter>::new();
/// history.call(0, CounterOperation::Add(1)).returned(None);
/// history.call(1, CounterOperation::Read).returned(Some(0));
/// let error = history.check().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "not linearizable: no order of these 1 of 2 operations explains every answer\n\
///     \x20 1 before these can only leave 1\n\
///     \x20 client 1: Read -> Some(0)  [3, 4]\n\
///     none of them, done first, returns what was recorded"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLinearizable {
    operations: usize,
    /// `None` if the search was given up.
    pub(super) contradiction: Option<Contradiction>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contradiction {
    /// How many operations came before, and what they left.
    pub(super) before: Option<(usize, String)>,
    /// Those that have no explanation.
    pub(super) least: Vec<Shown>,
    /// The longest order of them that explains a part, ...
    pub(super) longest: Vec<Shown>,
    /// ... and what the object is after it.
    pub(super) state: String,
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
            contradiction: None,
        }
    }

    pub(super) fn contradiction(operations: usize, contradiction: Contradiction) -> Self {
        NotLinearizable {
            operations,
            contradiction: Some(contradiction),
        }
    }

    /// Whether the search was given up: there may be an order.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// # let history = History::<Counter>::new();
    /// history.call(0, CounterOperation::Add(1)).returned(None);
    /// history.call(1, CounterOperation::Read).returned(Some(0));
    /// assert!(!history.check().unwrap_err().is_undecided());
    /// ```
    pub fn is_undecided(&self) -> bool {
        self.contradiction.is_none()
    }

    /// How many operations the smallest contradicting part has.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// # let history = History::<Counter>::new();
    /// history.call(0, CounterOperation::Add(1)).returned(None);
    /// history.call(1, CounterOperation::Read).returned(Some(0));
    /// assert_eq!(history.check().unwrap_err().len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.least().len()
    }

    /// Whether there is no part to show.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn least(&self) -> &[Shown] {
        let contradiction = self.contradiction.as_ref();
        contradiction.map_or(&[], |contradiction| &contradiction.least)
    }
}

/// Writes a contradiction to stderr and to the trace, where it is read.
pub(super) fn tell(error: &NotLinearizable) {
    let Some(context) = WorkloadContext::current() else {
        return;
    };
    eprintln!("{error}");
    for shown in error.least() {
        let operation = shown.to_string();
        context.trace(
            Severity::WarnAlways,
            "WorkloadHistory",
            details!["Operation" => operation],
        );
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
        let Some(contradiction) = &self.contradiction else {
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
            contradiction.least.len(),
            self.operations
        )?;
        if let Some((count, state)) = &contradiction.before {
            writeln!(f, "  {count} before these can only leave {state}")?;
        }
        last_of(f, &contradiction.least, OPERATIONS_SHOWN)?;
        if contradiction.longest.is_empty() {
            return write!(f, "none of them, done first, returns what was recorded");
        }
        writeln!(f, "the longest order that explains a part:")?;
        last_of(f, &contradiction.longest, ORDER_SHOWN)?;
        write!(
            f,
            "leaves {}, and none of the rest returns what was recorded",
            contradiction.state
        )
    }
}

/// What is shown of a long contradiction; the trace has all of it.
const OPERATIONS_SHOWN: usize = 16;
const ORDER_SHOWN: usize = 4;

fn last_of(f: &mut fmt::Formatter<'_>, list: &[Shown], count: usize) -> fmt::Result {
    let skipped = list.len().saturating_sub(count);
    if skipped > 0 {
        writeln!(f, "  … {skipped} before these")?;
    }
    for shown in &list[skipped..] {
        writeln!(f, "  {shown}")?;
    }
    Ok(())
}

impl Error for NotLinearizable {}
