//! What a client knows about its cluster, and the `status/json` document built from it.
//!
//! Tools poll `status/json` to learn whether the database is there. The document has the fields
//! they look at, in the places where FoundationDB puts them, and no numbers that this cluster would
//! have to invent.

use serde_json::json;

/// The cluster, as its client knows it.
#[derive(Clone, Debug)]
pub struct ClusterDescription {
    /// `description:id@address,address…`, as in a cluster file.
    pub connection_string: String,
    /// Where the connection string was read from.
    pub cluster_file_path: String,
    /// The identity that the cluster gave itself when it was created.
    pub cluster_id: u128,
    /// Whether a transaction could start now.
    pub is_available: bool,
    /// Seconds since the kernel started.
    pub now: f64,
}

impl ClusterDescription {
    /// The part of the connection string before the colon.
    pub(super) fn description(&self) -> &str {
        self.connection_string.split(':').next().unwrap_or_default()
    }

    /// The addresses of the coordinators.
    pub(super) fn coordinators(&self) -> Vec<&str> {
        let addresses = self
            .connection_string
            .split_once('@')
            .map_or("", |(_, addresses)| addresses);
        addresses
            .split(',')
            .filter(|address| !address.is_empty())
            .collect()
    }

    /// The status document.
    pub(super) fn status_json(&self) -> String {
        let coordinators: Vec<_> = self
            .coordinators()
            .into_iter()
            .map(|address| json!({ "address": address, "reachable": true }))
            .collect();
        let mut status = json!({
            "client": {
                "cluster_file": { "path": self.cluster_file_path, "up_to_date": true },
                "coordinators": { "coordinators": coordinators, "quorum_reachable": true },
                "database_status": { "available": self.is_available, "healthy": self.is_available },
                "messages": [],
                "timestamp": self.now as u64,
            },
        });
        if self.is_available {
            status["cluster"] = json!({
                "connection_string": self.connection_string,
                "database_available": true,
                "messages": [],
                "recovery_state": { "name": "fully_recovered" },
            });
        }
        status.to_string()
    }
}
