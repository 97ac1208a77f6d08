//! The network of an ordinary program: one thread of the program's own that runs everything, on the
//! machine's clock.
//!
//! The program selects an API version, sets the network up, lends a thread to [`run`], and stops it
//! at its end; each step once and in that order, with FoundationDB's code for every other order.
//! Databases may be opened as soon as the network is set up. A database is a cluster inside this
//! process, made when it is first opened. The name of the cluster file selects which one
//! ([`ClusterName`]): the same name is the same cluster for all databases of the process. The file
//! is read only to see whether `shaketable serve` has written it; then the database is the
//! server's. A program can ask for more (`cluster_file`).
//!
//! This is the only global state of the library. Handles know their universe and never look here.

use crate::database::FDBDatabase;
use crate::fork;
use crate::options;
use crate::program_clusters::{self, Opening};
use crate::universe::Universe;
use crate::version;
use parking_lot::Mutex;
use shaketable_cluster::error::Error;
use shaketable_kernel::{Inbox, Kernel};
use shaketable_serve::{NoServer, Place};
use std::ffi::{OsStr, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Names a cluster inside this process, or a server's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClusterName {
    /// No cluster file was named, and `FDB_CLUSTER_FILE` is not set.
    Default,
    /// A cluster file, as the program spelled it.
    File(Vec<u8>),
    /// A connection string.
    ConnectionString(Vec<u8>),
    /// A server's.
    Served {
        /// Where the server listens.
        place: Place,
        /// The cluster file that says so, as the program spelled it.
        file: Vec<u8>,
    },
}

impl ClusterName {
    /// The cluster that the argument of `fdb_create_database` names: no name means the one in
    /// `FDB_CLUSTER_FILE`, and without that the default cluster. Like FoundationDB's client, a
    /// program without either looks for `fdb.cluster` in its folder, in case a server wrote it.
    pub(crate) fn of_file(path: &[u8]) -> ClusterName {
        let named = match path {
            [] => std::env::var_os("FDB_CLUSTER_FILE").map(OsStringExt::into_vec),
            path => Some(path.to_vec()),
        };
        let named = named.filter(|path| !path.is_empty());
        let file = named.clone().unwrap_or_else(|| b"fdb.cluster".to_vec());
        match (
            Place::of_existing_file(Path::new(OsStr::from_bytes(&file))),
            named,
        ) {
            (Some(place), _) => ClusterName::Served { place, file },
            (None, Some(path)) => ClusterName::File(path),
            (None, None) => ClusterName::Default,
        }
    }

    /// The cluster that a connection string names.
    pub(crate) fn of_connection_string(text: &[u8]) -> ClusterName {
        let place = std::str::from_utf8(text)
            .ok()
            .and_then(Place::of_connection_string);
        match place {
            Some(place) => {
                let file = Vec::new();
                ClusterName::Served { place, file }
            }
            None => ClusterName::ConnectionString(text.to_vec()),
        }
    }

    /// Looks whether the server of a shared database can be trusted and understood. If not, says
    /// why: a code alone would leave the reader guessing.
    fn check(&self) -> Result<(), Error> {
        let ClusterName::Served { place, .. } = self else {
            return Ok(());
        };
        match shaketable_serve::probe(place) {
            Ok(true) => Ok(()),
            Ok(false) => {
                eprintln!("shaketable: nothing listens at {place}; waiting for `shaketable serve`");
                Ok(())
            }
            Err(error) => {
                eprintln!("shaketable: {error}");
                Err(match error {
                    NoServer::Refused(_) => Error::PLATFORM_ERROR,
                    NoServer::OtherVersion { .. } | NoServer::NotOurs(_) => {
                        INCOMPATIBLE_PROTOCOL_VERSION
                    }
                })
            }
        }
    }
}

const INCOMPATIBLE_PROTOCOL_VERSION: Error = Error(2100);

/// A function of the program that runs on the network's thread when the network has ended.
pub(crate) struct CompletionHook {
    pub(crate) function: unsafe extern "C" fn(*mut c_void),
    pub(crate) parameter: *mut c_void,
}

// SAFETY: the parameter is an opaque word to us; registering a hook allows it to be called with
// that word on the network's thread.
unsafe impl Send for CompletionHook {}

static NETWORK: Mutex<Network> = Mutex::new(Network {
    shared: None,
    was_run: false,
    hooks: Vec::new(),
});

struct Network {
    /// Present once the network is set up.
    shared: Option<Arc<Shared>>,
    was_run: bool,
    hooks: Vec<CompletionHook>,
}

/// What the network's thread shares with the rest of the program.
struct Shared {
    inbox: Inbox,
    universe: Arc<Universe>,
    stop: AtomicBool,
    /// Whether databases share state as those of several clients do.
    has_shared_state: bool,
    /// Bits of an `f64`; see `program_clusters`.
    busyness: AtomicU64,
}

/// Prepares the network, once.
pub(crate) fn setup() -> Result<(), Error> {
    if version::selected().is_none() {
        return Err(Error::API_VERSION_UNSET);
    }
    check_fork()?;
    let mut network = NETWORK.lock();
    if network.shared.is_some() {
        return Err(Error::NETWORK_ALREADY_SETUP);
    }
    options::load_environment()?;
    options::choose_faults()?;
    options::choose_strictness()?;
    fork::watch();
    let inbox = Inbox::new();
    network.shared = Some(Arc::new(Shared {
        universe: Arc::new(Universe::new(inbox.clone())),
        inbox,
        stop: AtomicBool::new(false),
        has_shared_state: options::is_client_bypass_disabled(),
        busyness: AtomicU64::new(0),
    }));
    Ok(())
}

/// Runs the network on the calling thread until it is stopped, then the completion hooks.
pub(crate) fn run() -> Result<(), Error> {
    check_fork()?;
    let shared = {
        let mut network = NETWORK.lock();
        let shared = network.shared.clone().ok_or(Error::NETWORK_NOT_SETUP)?;
        if network.was_run {
            return Err(Error::NETWORK_CANNOT_BE_RESTARTED);
        }
        network.was_run = true;
        shared
    };
    let faults = options::faults();
    let kernel = Kernel::real_at_speed(faults.seed, shared.inbox.clone(), faults.speed);
    shared.universe.open();
    program_clusters::measure_busyness(&kernel, {
        let shared = shared.clone();
        move |busyness| shared.busyness.store(busyness.to_bits(), Ordering::Relaxed)
    });
    kernel.run_real(&shared.stop);
    shared.universe.close();
    kernel.shutdown();
    drop(kernel);
    let hooks = std::mem::take(&mut NETWORK.lock().hooks);
    for hook in hooks {
        // SAFETY: function and parameter were registered together for this call on this thread.
        unsafe { (hook.function)(hook.parameter) }
    }
    Ok(())
}

/// Asks the network to end; returns at once.
pub(crate) fn stop() -> Result<(), Error> {
    let shared = shared()?;
    shared.stop.store(true, Ordering::Release);
    // Ends the wait of a loop that has nothing to do.
    shared.inbox.post(|_| {});
    Ok(())
}

/// Registers a function to run when the network has ended.
pub(crate) fn add_completion_hook(hook: CompletionHook) -> Result<(), Error> {
    check_fork()?;
    let mut network = NETWORK.lock();
    if network.shared.is_none() {
        return Err(Error::NETWORK_NOT_SETUP);
    }
    network.hooks.push(hook);
    Ok(())
}

/// Whether the network is set up.
pub(crate) fn is_set_up() -> bool {
    shared().is_ok()
}

/// Opens a database. Its cluster is made, if need be, when the network's thread comes to it.
pub(crate) fn open_database(cluster: ClusterName) -> Result<Arc<FDBDatabase>, Error> {
    let shared = shared()?;
    let api_version = version::selected().ok_or(Error::API_VERSION_UNSET)?;
    cluster.check()?;
    let has_shared_state = shared.has_shared_state;
    let name = cluster.clone();
    Ok(FDBDatabase::open(
        shared.universe.clone(),
        cluster,
        move |universe, kernel| {
            let opening = Opening {
                api_version,
                has_shared_state,
            };
            program_clusters::open_database(universe, kernel, name, opening)
        },
    ))
}

/// How busy the network's thread was in the last second, from 0 to 1, if `universe` is the
/// network's.
pub(crate) fn busyness(universe: &Arc<Universe>) -> f64 {
    match shared() {
        Ok(shared) if Arc::ptr_eq(&shared.universe, universe) => {
            f64::from_bits(shared.busyness.load(Ordering::Relaxed))
        }
        _ => 0.0,
    }
}

/// Fails in a fork of a process whose network was set up.
fn check_fork() -> Result<(), Error> {
    match fork::is_fork() {
        true => Err(fork::FORKED),
        false => Ok(()),
    }
}

fn shared() -> Result<Arc<Shared>, Error> {
    check_fork()?;
    NETWORK
        .lock()
        .shared
        .clone()
        .ok_or(Error::NETWORK_NOT_SETUP)
}
