//! The memory of bugs: a folder with one case for each distinct failure.
//!
//! A case in it is small, says what explains the failure, and at which commit it was first and last
//! seen. Two failures are the same bug if they have the same signature: kind, test, workload, phase
//! and message without its numbers. The folder belongs in version control: after a fix, its cases
//! are the regression tests.

use crate::case::Case;
use crate::minimise::deaths;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where bugs are remembered, from the root of the workspace.
pub const FOLDER: &str = ".shaketable/bugs";

/// The longest name of a case.
const NAME_CHARACTERS_MAX: usize = 60;

/// Keeps a case of the failure with this signature; returns where, and whether the failure was
/// known. A known one keeps the commit at which it was first seen, and its old case if that one is
/// not larger.
pub fn remember(
    folder: &Path,
    words: &str,
    signature: &str,
    mut case: Case,
) -> io::Result<(PathBuf, bool)> {
    let (path, known) = place_of(folder, words, signature);
    let is_known = known.is_some();
    let now = commit();
    case.fails = Some(signature.to_owned());
    case.first_seen.clone_from(&now);
    case.last_seen.clone_from(&now);
    if let Some(mut known) = known {
        if size(&known) <= size(&case) {
            known.last_seen = now.or(known.last_seen);
            known.finding = known.finding.or(case.finding);
            case = known;
        } else {
            case.first_seen = known.first_seen.or(now);
        }
    }
    fs::create_dir_all(folder)?;
    write(&case, &path)?;
    Ok((path, is_known))
}

/// The case of the failure with this signature, and where it is, if the failure is known. It has
/// now been seen again.
pub fn recall(folder: &Path, words: &str, signature: &str) -> io::Result<Option<(PathBuf, Case)>> {
    let (path, Some(mut case)) = place_of(folder, words, signature) else {
        return Ok(None);
    };
    let now = commit();
    if now.is_some() && now != case.last_seen {
        case.last_seen = now;
        write(&case, &path)?;
    }
    Ok(Some((path, case)))
}

/// Writes a case as it is.
pub fn write(case: &Case, path: &Path) -> io::Result<()> {
    fs::write(path, case.to_toml())
}

/// How much there is to understand.
fn size(case: &Case) -> (usize, u32) {
    let deaths = deaths::of(case).len();
    let pieces = case.only.as_ref().map(|only| only.len() + deaths);
    let clients = case.clients.unwrap_or(u32::MAX);
    (pieces.unwrap_or(usize::MAX), clients)
}

/// The file of a failure, and what it holds if the failure is known.
pub fn place_of(folder: &Path, words: &str, signature: &str) -> (PathBuf, Option<Case>) {
    let name = slug(words);
    for number in 1_u32.. {
        let file = match number {
            1 => format!("{name}.toml"),
            _ => format!("{name}-{number}.toml"),
        };
        let path = folder.join(file);
        match Case::read(&path) {
            Ok(case) if case.fails.as_deref() == Some(signature) => return (path, Some(case)),
            Err(_) if !path.exists() => return (path, None),
            _ => {}
        }
    }
    unreachable!("numbers do not end")
}

/// A name for a file: words and hyphens.
fn slug(text: &str) -> String {
    let mut name = String::new();
    for character in text.chars() {
        if character.is_ascii_alphabetic() || character == '_' {
            name.push(character.to_ascii_lowercase());
        } else if !name.ends_with('-') && !name.is_empty() {
            name.push('-');
        }
        if name.len() > NAME_CHARACTERS_MAX {
            // Whole words only, if there is more than one.
            let end = name.rfind('-').unwrap_or(NAME_CHARACTERS_MAX);
            name.truncate(end);
            break;
        }
    }
    name.trim_end_matches('-').to_owned()
}

/// The commit that is checked out, if there is one.
pub fn commit() -> Option<String> {
    let output = Command::new("git")
        .args(["rev-parse", "--short=10", "HEAD"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_fails_without_its_numbers() {
        assert_eq!(
            slug("counter: check failed: 20 increments were made, the counter says 21"),
            "counter-check-failed-increments-were-made-the-counter-says"
        );
        let long = slug(&"word ".repeat(40));
        assert!(long.len() <= NAME_CHARACTERS_MAX && long.ends_with("-word"));
        assert_eq!(slug(&"w".repeat(100)).len(), NAME_CHARACTERS_MAX);
    }

    #[test]
    fn each_bug_has_its_own_file_and_keeps_its_smallest_case() {
        let folder = std::env::temp_dir().join(format!("shaketable-bugs-{}", std::process::id()));
        let sized = |decisions: usize| Case {
            only: Some(vec!["x".to_owned(); decisions]),
            ..Case::default()
        };
        let kept = |decisions| remember(&folder, "check failed", "one", sized(decisions)).unwrap();
        let (first, is_known) = kept(2);
        assert!(!is_known);
        assert_eq!(kept(3), (first.clone(), true));
        assert_eq!(Case::read(&first).unwrap().only.unwrap().len(), 2);
        assert_eq!(kept(1), (first.clone(), true));
        assert_eq!(Case::read(&first).unwrap().only.unwrap().len(), 1);
        let recalled = recall(&folder, "check failed", "one").unwrap().unwrap();
        assert_eq!(recalled.0, first);
        let unknown = recall(&folder, "check failed", "another").unwrap();
        assert!(unknown.is_none(), "{unknown:?}");
        let (second, is_known) =
            remember(&folder, "check failed", "another", Case::default()).unwrap();
        assert!(second != first && !is_known);
        fs::remove_dir_all(&folder).unwrap();
    }
}
