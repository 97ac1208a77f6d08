//! Options as they appear in a test file: text by name.

/// Reads options by their names. Reading an option consumes it.
pub struct Options<'a>(pub &'a mut dyn FnMut(&str) -> Option<String>);

/// An option whose text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the option {name} wants {expected}, not {text:?}")]
pub struct BadOption {
    /// The option.
    pub name: &'static str,
    /// What it should be.
    pub expected: &'static str,
    /// What it was.
    pub text: String,
}

impl Options<'_> {
    /// A number.
    pub fn number(&mut self, name: &'static str, default: f64) -> Result<f64, BadOption> {
        let Some(text) = (self.0)(name) else {
            return Ok(default);
        };
        let expected = "a number";
        text.trim().parse().map_err(|_| BadOption {
            name,
            expected,
            text,
        })
    }

    /// A whole number that is not negative.
    pub fn count(&mut self, name: &'static str, default: usize) -> Result<usize, BadOption> {
        let Some(text) = (self.0)(name) else {
            return Ok(default);
        };
        let expected = "a whole number";
        let number = text
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|number| *number >= 0.0);
        number.map(|number| number as usize).ok_or(BadOption {
            name,
            expected,
            text,
        })
    }

    /// `true` or `false`.
    pub fn flag(&mut self, name: &'static str, default: bool) -> Result<bool, BadOption> {
        let Some(text) = (self.0)(name) else {
            return Ok(default);
        };
        match text.trim() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(BadOption {
                name,
                expected: "true or false",
                text,
            }),
        }
    }

    /// A text.
    pub fn text(&mut self, name: &str, default: &str) -> String {
        (self.0)(name).unwrap_or_else(|| default.to_owned())
    }
}
