//! A smaller case as it is told: in JSON, and from a test program to the program that asked for it.

use super::search::{Found, Need};
use crate::verdict::Failure;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What is told of the smallest case that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// What the failure needs.
    pub needs: Vec<Needed>,
    /// How many clients are left.
    pub clients: Option<u32>,
    /// Whether each of the pieces is known to be needed.
    pub is_minimal: bool,
    /// How the case fails.
    pub failure: Failure,
}

/// A piece of a case that is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needed {
    /// As a case lists it.
    pub name: String,
    /// The same as a clause.
    pub words: String,
    /// What happens without it, if that was run.
    pub without: Option<String>,
}

impl Told {
    /// What is told of a case that was found for a failure.
    pub fn new(found: &Found, wanted: &Failure) -> Told {
        let needed = |need: &Need| Needed {
            name: need.name.clone(),
            words: need.words.clone(),
            without: need.without(),
        };
        Told {
            needs: found.needs.iter().map(needed).collect(),
            clients: found.case.clients,
            is_minimal: found.is_minimal,
            failure: found.failure(wanted).clone(),
        }
    }

    /// Writes all of it to a file.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, serde_json::to_vec(self)?)
    }

    /// Reads what [`write`](Self::write) wrote.
    pub fn read(path: &Path) -> std::io::Result<Told> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }
}
