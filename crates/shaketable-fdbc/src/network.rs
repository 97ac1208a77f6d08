//! The network of an ordinary program: one thread of the program's own that runs everything, on the
//! machine's clock.
//!
//! The program selects an API version, sets the network up, lends a thread to [`run`], and stops it
//! at its end; each step once and in that order, with FoundationDB's code for every other order.
//! Databases may be opened as soon as the network is set up. There is no server and no cluster file
//! to read: a database is a cluster inside this process, made when it is first opened. The name of
//! the cluster file selects which one ([`ClusterName`]): the same name is the same cluster for all
//! databases of the process, and nothing is ever read from the file.
//!
//! This is the only global state of the library. Handles know their universe and never look here.

use crate::database::FDBDatabase;
use crate::options;
use crate::program_clusters::{self, Opening};
use crate::universe::Universe;
use crate::version;
use parking_lot::Mutex;
use shaketable_cluster::error::Error;
use shaketable_kernel::{Inbox, Kernel};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Names a cluster inside this process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClusterName {
    /// No cluster file was named, and `FDB_CLUSTER_FILE` is not set.
    Default,
    /// A cluster file, as the program spelled it.
    File(Vec<u8>),
    /// A connection string.
    ConnectionString(Vec<u8>),
}

impl ClusterName {
    /// The cluster that the argument of `fdb_create_database` names: no name means the one in
    /// `FDB_CLUSTER_FILE`, and without that the default cluster.
    pub(crate) fn of_file(path: &[u8]) -> ClusterName {
        use std::os::unix::ffi::OsStringExt;
        if !path.is_empty() {
            return ClusterName::File(path.to_vec());
        }
        match std::env::var_os("FDB_CLUSTER_FILE") {
            Some(path) if !path.is_empty() => ClusterName::File(path.into_vec()),
            _ => ClusterName::Default,
        }
    }
}

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
    let mut network = NETWORK.lock();
    if network.shared.is_some() {
        return Err(Error::NETWORK_ALREADY_SETUP);
    }
    options::load_environment()?;
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
    let shared = {
        let mut network = NETWORK.lock();
        let shared = network.shared.clone().ok_or(Error::NETWORK_NOT_SETUP)?;
        if network.was_run {
            return Err(Error::NETWORK_CANNOT_BE_RESTARTED);
        }
        network.was_run = true;
        shared
    };
    let kernel = Kernel::real_with(SEED, shared.inbox.clone());
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
    let mut network = NETWORK.lock();
    if network.shared.is_none() {
        return Err(Error::NETWORK_NOT_SETUP);
    }
    network.hooks.push(hook);
    Ok(())
}

/// Whether the network is set up.
pub(crate) fn is_set_up() -> bool {
    NETWORK.lock().shared.is_some()
}

/// Opens a database. Its cluster is made, if need be, when the network's thread comes to it.
pub(crate) fn open_database(cluster: ClusterName) -> Result<Arc<FDBDatabase>, Error> {
    let shared = shared()?;
    let api_version = version::selected().ok_or(Error::API_VERSION_UNSET)?;
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

fn shared() -> Result<Arc<Shared>, Error> {
    NETWORK
        .lock()
        .shared
        .clone()
        .ok_or(Error::NETWORK_NOT_SETUP)
}

/// An ordinary program is not reproducible, whatever its library draws; one fixed seed keeps the
/// draws the same at least.
const SEED: u64 = 0x5ea5_4a6e;
