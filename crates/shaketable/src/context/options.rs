//! Options: what the test file says to a workload.
//!
//! The host hands out a text once, and the workload wants a number, a name, a probability: anything
//! that can be parsed. A text that does not parse is a mistake in the test file, and no default
//! takes its place in silence: the run fails, or the workload is given the error, with the option's
//! name.

use super::{Severity, WorkloadContext};
use crate::details;
use crate::trace_event::c_string;
use std::any::type_name;
use std::fmt;
use std::str::FromStr;

/// An option of the test file whose text is not what the workload asked for.
///
/// ```
/// # use shaketable::{OptionError, WorkloadContext};
/// fn accounts(context: &WorkloadContext) -> Result<u32, OptionError> {
///     // option `accounts` of the test file: expected u32, found `many`: invalid digit found in
///     // string
///     Ok(context.try_get_option("accounts")?.unwrap_or(100))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionError {
    name: String,
    value: String,
    expected: &'static str,
    cause: String,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "option `{}` of the test file: expected {}, found `{}`: {}",
            self.name, self.expected, self.value, self.cause
        )
    }
}

impl std::error::Error for OptionError {}

impl WorkloadContext {
    /// An option of the test file.
    ///
    /// Reading an option consumes it: the second read returns `None`. So does an option that is
    /// absent or empty. A text that does not parse as a `T` is an error event with the option's
    /// name, which fails the run, and returns `None`; to handle it yourself, see
    /// [`try_get_option`](Self::try_get_option).
    ///
    /// Read options in the factory: the server checks before `setup` that none is left over.
    ///
    /// ```
    /// # use shaketable::WorkloadContext;
    /// struct Transfers {
    ///     accounts: u32,
    ///     label: String,
    /// }
    ///
    /// fn new(_name: String, context: WorkloadContext) -> Transfers {
    ///     Transfers {
    ///         accounts: context.get_option("accounts").unwrap_or(100),
    ///         label: context.get_option("label").unwrap_or_default(),
    ///     }
    /// }
    /// ```
    pub fn get_option<T>(&self, name: &str) -> Option<T>
    where
        T: FromStr,
    {
        let text = self.option_text(name)?;
        let value = text.parse().ok();
        if value.is_none() {
            self.trace(
                Severity::Error,
                "WorkloadOptionInvalid",
                details![
                    "Option" => name,
                    "Value" => text,
                    "Expected" => type_name::<T>(),
                ],
            );
        }
        value
    }

    /// Like [`get_option`](Self::get_option), but returns an error for a text that does not parse
    /// as a `T`.
    ///
    /// ```
    /// # use shaketable::WorkloadContext;
    /// fn accounts(context: &WorkloadContext) -> u32 {
    ///     match context.try_get_option("accounts") {
    ///         Ok(Some(count)) => count,
    ///         Ok(None) => 100,
    ///         Err(wrong) => panic!("{wrong}"),
    ///     }
    /// }
    /// ```
    pub fn try_get_option<T>(&self, name: &str) -> Result<Option<T>, OptionError>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let Some(text) = self.option_text(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(cause) => Err(OptionError {
                name: name.to_owned(),
                expected: type_name::<T>(),
                cause: T::Err::to_string(&cause),
                value: text,
            }),
        }
    }

    pub(crate) fn option_text(&self, name: &str) -> Option<String> {
        let host = self.host("get_option")?;
        let ask = || host.get_option(&c_string(name.as_bytes()));
        let text = self.0.options.take(name, ask);
        (!text.is_empty()).then_some(text)
    }
}
