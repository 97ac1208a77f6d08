//! Where seeds are run: in the embedded host, or under a real fdbserver.

use clap::{Args, ValueEnum};
use shaketable_fdbserver::Find;
use std::path::PathBuf;

/// Which host.
#[derive(Debug, Args, Clone, Default)]
#[command(next_help_heading = "Host")]
pub struct HostArgs {
    /// Where seeds are run: in this program, or by a real fdbserver, which takes seconds for each
    /// [default: embedded].
    #[arg(long, value_name = "HOST")]
    pub host: Option<HostName>,
    /// The fdbserver to use, of version 7.4.6 or later [default: FDBSERVER, else the one in the
    /// PATH].
    #[arg(long, value_name = "PATH")]
    pub fdbserver: Option<PathBuf>,
    /// The libfdb_c.so of the same build [default: FDB_LIBRARY, else the one beside the server].
    #[arg(long, value_name = "PATH")]
    pub fdb_library: Option<PathBuf>,
}

/// A host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HostName {
    /// FoundationDB in miniature, in this program.
    Embedded,
    /// A real server.
    Fdbserver,
}

impl HostArgs {
    /// The same, for a command that always needs a server.
    pub fn of_server(&self) -> HostArgs {
        HostArgs {
            host: Some(HostName::Fdbserver),
            ..self.clone()
        }
    }

    /// The server to look for, if seeds are run by one.
    pub fn server(&self) -> Option<Find> {
        let is_asked = self.host == Some(HostName::Fdbserver)
            || (self.host.is_none() && self.fdbserver.is_some());
        is_asked.then(|| Find {
            program: self.fdbserver.clone(),
            client_library: self.fdb_library.clone(),
        })
    }
}
