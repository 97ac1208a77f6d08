//! Workload libraries: loading one, creating its workloads, calling their phases.
//!
//! A workload is machine code from outside. What can be checked before it is called is checked
//! here: that the file is a library, that it has the factory, that what the factory returns can be
//! a workload. Everything it hands over is copied before the call returns. What cannot be checked,
//! a wild pointer or an endless loop, ends the process; that is why a seed runs in a process of its
//! own ([`isolation`](crate::isolation)).
//!
//! * [`Library`] is a factory: loaded from a file as fdbserver does, or given by a program that is
//!   its own host.
//! * `instance::Workload` is one workload on one client.
//! * `context` and `promise` are what the workload is given.
//!
//! A library is never unloaded: code of it may still be referred to, for example by thread-local
//! destructors.

pub(crate) mod context;
pub(crate) mod instance;
mod lines;
pub(crate) mod promise;
mod stand_in;

pub use lines::{Lines, LinesError};

use crate::hermetic;
use shaketable_abi::v1::Factory;
use shaketable_abi::{CPP_FACTORY_SYMBOL, FACTORY_SYMBOL};
use std::path::{Path, PathBuf};

/// Something that creates workloads by name.
#[derive(Debug, Clone)]
pub struct Library {
    /// Where it came from, for messages.
    pub path: PathBuf,
    factory: Factory,
}

/// Why a library cannot be used.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum LoadError {
    /// There is no such file.
    #[error("there is no workload library at {}\n  help: {help}", path.display())]
    Missing {
        /// Where it was expected.
        path: PathBuf,
        /// What to do.
        help: String,
    },
    /// The loader refuses the file.
    #[error("cannot load the workload library {}: {reason}\n  help: {help}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The loader's message.
        reason: String,
        /// What to do.
        help: &'static str,
    },
    /// It is a library, but has no factory.
    #[error("the library {} does not export `{FACTORY_SYMBOL}`\n  help: {help}", path.display())]
    NoFactory {
        /// The file.
        path: PathBuf,
        /// What to do.
        help: &'static str,
    },
}

impl Library {
    /// Loads a library as fdbserver does: lazily bound, its symbols its own.
    pub fn load(path: &Path) -> Result<Library, LoadError> {
        if !path.is_file() {
            return Err(LoadError::Missing {
                path: path.to_owned(),
                help: "build it first (`cargo build --release`), or correct `libraryName` and `libraryPath` in the test file"
                    .to_owned(),
            });
        }
        let refused = |reason: String| LoadError::Refused {
            path: path.to_owned(),
            help: help_for(&reason),
            reason,
        };
        stand_in::load().map_err(|error| refused(error.to_string()))?;
        hermetic::know_program();
        // A name without a slash would be searched for in the system's folders.
        let absolute = std::path::absolute(path).map_err(|error| refused(error.to_string()))?;
        // Constructors of the library may look at the clock or draw random numbers.
        let quiet = hermetic::Guard::enter(hermetic::LOADING_SEED);
        // SAFETY: loading runs the library's constructors, which is what the user asked for by
        // naming it; like all of its code they are trusted no further than the process in which the
        // seeds run.
        let library = unsafe {
            libloading::os::unix::Library::open(
                Some(&absolute),
                libloading::os::unix::RTLD_LAZY | libloading::os::unix::RTLD_LOCAL,
            )
        };
        drop(quiet);
        let library = library.map_err(|error| refused(loader_words(&error)))?;
        // SAFETY: the symbol's type is fixed by the External-workload ABI; which generation of it
        // the library speaks is examined when it has returned its first workload.
        let factory = unsafe { library.get::<Factory>(FACTORY_SYMBOL) }.map(|symbol| *symbol);
        let factory = factory.map_err(|_| {
            // SAFETY: the symbol is not used, only its presence counts.
            let speaks_cpp = unsafe { library.get::<*const ()>(CPP_FACTORY_SYMBOL) }.is_ok();
            LoadError::NoFactory {
                path: path.to_owned(),
                help: if speaks_cpp {
                    "it exports `workloadFactory` alone, the C++ interface, which only the fdbserver it was built for can call: \
                     export the C interface as well (`register_workload!` does)"
                } else {
                    "is it a workload library? In Rust: `crate-type = [\"cdylib\"]` and one `register_workload!`"
                },
            }
        })?;
        std::mem::forget(library);
        Ok(Library {
            path: path.to_owned(),
            factory,
        })
    }

    /// A factory in this program itself.
    ///
    /// # Safety
    ///
    /// The function keeps to the External-workload ABI of `shaketable_abi::v1`.
    pub unsafe fn in_process(name: &str, factory: Factory) -> Library {
        Library {
            path: PathBuf::from(name),
            factory,
        }
    }
}

/// The loader's reason without the path, which the message names already.
fn loader_words(error: &libloading::Error) -> String {
    let text = match error {
        libloading::Error::DlOpen { source } => source.to_string(),
        other => other.to_string(),
    };
    match text.split_once(": ") {
        Some((path, reason)) if path.contains('/') => reason.to_owned(),
        _ => text,
    }
}

fn help_for(reason: &str) -> &'static str {
    if reason.contains("invalid ELF header") || reason.contains("file too short") {
        "the file is not a shared library for this system: build the workload as a `cdylib` on this machine"
    } else if reason.contains("undefined symbol: fdb_") {
        "it uses a function of libfdb_c that is not implemented here: run this test file with fdbserver"
    } else if reason.contains("undefined symbol") {
        "the library is not complete: link it with whatever defines the symbol"
    } else if reason.contains("cannot open shared object file") {
        "a library that it needs is not installed: `ldd` on the file shows which"
    } else {
        "`ldd` on the file shows what the loader sees"
    }
}
