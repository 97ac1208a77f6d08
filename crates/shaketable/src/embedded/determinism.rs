//! Is a seed the same run twice?
//!
//! Every event and every random draw goes into a fingerprint, so comparing two runs costs no more
//! than the second run. Only where they differ are both run again, with traces, to name the first
//! event that is not the same. The runs share a process, so what survives in a `static` is found
//! too; `shaketable check-determinism` compares processes with other memory layouts.

use shaketable_host::isolation::InProcess;
use shaketable_host::plan::Recording;
use shaketable_host::trace::Format;
use shaketable_host::verdict::Outcome;
use std::fs;
use std::path::Path;

/// Runs a seed that passed once more. Returns what is different, if anything is.
pub(super) fn difference(
    process: &InProcess,
    (name, replay): (&str, &str),
    first: &Outcome,
    folder: &Path,
) -> Option<String> {
    let name = format!("{name}, once more");
    let run = |recording: &Recording| process.try_seed(&name, replay, first.seed, recording);
    let Some(second) = run(&Recording::Faults) else {
        return Some("the second run did not end in time".to_owned());
    };
    let is_same = first.fingerprint == second.fingerprint
        && first.unseed == second.unseed
        && first.failures == second.failures
        && first.metrics == second.metrics;
    if is_same {
        return None;
    }
    // If it cannot be made, there are no traces, and that is said.
    let _ = fs::create_dir_all(folder);
    let paths = ["first.json", "second.json"].map(|name| folder.join(name));
    for path in &paths {
        run(&Recording::Trace {
            path: path.clone(),
            format: Format::Json,
            record: None,
        });
    }
    let [first, second] = paths
        .each_ref()
        .map(|path| fs::read_to_string(path).unwrap_or_default());
    Some(match first_difference(&first, &second) {
        Some([one, other]) => format!(
            "the first event that differs:\n    {one}\n    {other}\n  both traces: {}",
            folder.display()
        ),
        None => "two more runs have the same trace: look for what the process remembers, such as \
                 a `static`"
            .to_owned(),
    })
}

/// The first lines that differ.
fn first_difference(first: &str, second: &str) -> Option<[String; 2]> {
    let (mut first, mut second) = (first.lines(), second.lines());
    loop {
        let (one, other) = (first.next(), second.next());
        if one != other {
            let shown = |line: Option<&str>| line.unwrap_or("(the trace has ended)").to_owned();
            return Some([shown(one), shown(other)]);
        }
        one?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let found = first_difference("a\nb\nc\n", "a\nx\nc\n");
        assert_eq!(found, Some(["b".to_owned(), "x".to_owned()]));
        let found = first_difference("a\n", "a\nb\n");
        assert_eq!(
            found,
            Some(["(the trace has ended)".to_owned(), "b".to_owned()])
        );
    }
}
