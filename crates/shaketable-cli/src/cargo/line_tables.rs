//! Line tables for libraries that are built here.
//!
//! A record names the author's line of every call, and for that a library needs to know its lines.
//! Cargo's release profile leaves them out. They cost no speed, so a build of this program asks for
//! them, through the environment: the manifest stays as it is, and a profile that says anything
//! about `debug` itself is left alone.

use cargo_metadata::Metadata;
use std::process::Command;
use toml_edit::DocumentMut;

/// Has cargo put line tables into what it builds with this profile.
pub(super) fn ask_for(command: &mut Command, metadata: &Metadata, profile: &str) {
    let manifest = metadata.workspace_root.join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap_or_default();
    let variable = variable(profile);
    if std::env::var_os(&variable).is_none() && needs_them(&manifest, profile) {
        command.env(variable, "line-tables-only");
    }
}

/// The variable that sets `debug` of a profile.
fn variable(profile: &str) -> String {
    let profile = profile.to_uppercase().replace('-', "_");
    format!("CARGO_PROFILE_{profile}_DEBUG")
}

/// Whether a profile of a manifest has no debug information because nothing is said about it.
fn needs_them(manifest: &str, profile: &str) -> bool {
    let manifest: DocumentMut = manifest.parse().unwrap_or_default();
    let mut profile = profile.to_owned();
    // A profile inherits from another one, in the end from a built-in one.
    for _ in 0..INHERITED_MAX {
        let table = manifest
            .get("profile")
            .and_then(|profiles| profiles.get(&profile));
        if table.is_some_and(|table| table.get("debug").is_some()) {
            return false;
        }
        let inherits = table.and_then(|table| table.get("inherits")?.as_str());
        match (inherits, profile.as_str()) {
            (Some(other), _) => profile = other.to_owned(),
            (None, "dev" | "test") => return false,
            (None, _) => return true,
        }
    }
    false
}

/// More links than any chain of profiles has.
const INHERITED_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_profile_that_says_nothing_gets_line_tables() {
        assert!(needs_them("", "release"));
        assert!(needs_them("[profile.release]\nlto = true", "release"));
        assert!(!needs_them("", "dev"), "it has debug information already");
        assert!(!needs_them("[profile.release]\ndebug = false", "release"));
        let inherits = "[profile.release]\ndebug = 1\n[profile.sim]\ninherits = \"release\"";
        assert!(!needs_them(inherits, "sim"));
        let circle = "[profile.a]\ninherits = \"b\"\n[profile.b]\ninherits = \"a\"";
        assert!(!needs_them(circle, "a"));
        assert_eq!(variable("my-sim"), "CARGO_PROFILE_MY_SIM_DEBUG");
    }
}
