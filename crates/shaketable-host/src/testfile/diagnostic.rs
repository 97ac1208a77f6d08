//! What is wrong with a test file, where, and what was probably meant.
//!
//! A sweep of ten thousand seeds over a misspelt key is ten thousand seeds of something else. So
//! every finding is an error, all of them are reported at once, and each names the file, the line
//! and the nearest name that would have been right.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A test file that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFileError {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The file's text; empty when it could not be read.
    source: String,
    /// Everything found, in the order of the file.
    pub findings: Vec<Finding>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong, as a lower-case fragment.
    pub message: String,
    /// The place in the text, where there is one.
    pub span: Option<Range<usize>>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Finding {
    /// A finding about a place in the file.
    pub fn at(span: Option<Range<usize>>, message: impl Into<String>) -> Self {
        Finding {
            message: message.into(),
            span,
            help: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds the nearest of the known names, if one is near.
    #[must_use]
    pub fn did_you_mean<'a>(self, written: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(written, known) {
            Some(name) => self.help(format!("did you mean `{name}`?")),
            None => self,
        }
    }
}

impl TestFileError {
    pub(crate) fn new(path: &Path, source: &str, mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| finding.span.as_ref().map_or(0, |span| span.start));
        TestFileError {
            path: path.to_owned(),
            source: source.to_owned(),
            findings,
        }
    }
}

impl fmt::Display for TestFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display().to_string();
        for (index, finding) in self.findings.iter().enumerate() {
            if index > 0 {
                writeln!(f, "\n")?;
            }
            let title = Level::ERROR.primary_title(&finding.message);
            let mut group = match &finding.span {
                Some(span) => title.element(
                    Snippet::source(&self.source)
                        .path(&path)
                        .annotation(AnnotationKind::Primary.span(span.clone())),
                ),
                None => title.element(annotate_snippets::Origin::path(&path)),
            };
            if let Some(help) = &finding.help {
                group = group.element(Level::HELP.message(help));
            }
            write!(f, "{}", Renderer::plain().render(&[group]))?;
        }
        Ok(())
    }
}

impl std::error::Error for TestFileError {}

/// The known name that was probably meant: a few keystrokes away, in any capitals.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let allowed = (written.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| {
            (
                strsim::damerau_levenshtein(&lower, &name.to_lowercase()),
                name,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_another_word_is_not() {
        let known = ["testTitle", "timeout", "useDB", "runSetup"];
        assert_eq!(nearest("testTitel", known), Some("testTitle"));
        assert_eq!(nearest("usedb", known), Some("useDB"));
        assert_eq!(nearest("timeouts", known), Some("timeout"));
        assert_eq!(nearest("replication", known), None);
    }
}
