//! One workload on one client: created by the library's factory, driven through its table.
//!
//! A library of the older ABI (FoundationDB 7.4.0 to 7.4.5) exports the same factory, and the file
//! does not show the difference. So the call is arranged to survive meeting one: the context is
//! passed inside a wider structure whose further words are, to such a library, the functions it
//! will call, and each of them reports what is wrong and ends the process; and there is room for
//! the larger structure it returns.

use super::Library;
use super::context::{ContextState, Host};
use crate::isolation::beacon;
use crate::verdict::Phase;
use shaketable_abi::v1::{
    FDBMetrics, FDBMetricsVt, FDBPromise, FDBWorkload, FDBWorkloadContext, FDBWorkloadVt,
    OpaqueMetrics,
};
use shaketable_abi::{FDBDatabase, FDBMetric, HIGHEST_PLAUSIBLE_API_VERSION};
use shaketable_cluster::client::Database;
use shaketable_fdbc::CApi;
use std::ffi::{CStr, CString, c_char, c_int};
use std::rc::Rc;

/// A workload instance. Dropping it does not free it: [`Workload::free`] does, as a phase of its
/// own.
pub struct Workload {
    raw: FDBWorkload,
    table: FDBWorkloadVt,
    /// What the workload's context points to; must outlive `free`.
    _context: Box<ContextState>,
}

/// Why a factory's workload cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The factory returned nothing.
    #[error(
        "the library's factory created no workload `{0}`: check `workloadName` in the test file against the names the library registers"
    )]
    Nothing(String),
    /// The returned structure is of another ABI.
    #[error(
        "the library speaks the workload interface of FoundationDB 7.4.0 to 7.4.5, which 7.4.6 replaced: build it against the newer CWorkload.h"
    )]
    OlderAbi,
    /// A function of the table is missing.
    #[error("the workload's table has no `{0}`")]
    MissingFunction(&'static str),
    /// The name cannot be passed on.
    #[error("the workload's name contains a NUL character")]
    Name,
}

/// The handle of a database that a workload gets for a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LentDatabase(*mut FDBDatabase);

impl LentDatabase {
    /// A fresh handle. It is valid as long as the [`CApi`], which the host keeps until no code of a
    /// workload can run any more.
    pub fn new(c_api: &mut CApi, database: Database) -> LentDatabase {
        LentDatabase(c_api.lend_database(database).cast())
    }

    /// The phase it was lent for is over.
    pub fn take_back(self, c_api: &CApi) {
        c_api.take_back(self.0.cast());
    }

    /// Whether it is the one of this handle.
    pub fn is(self, handle: *const shaketable_fdbc::FDBDatabase) -> bool {
        std::ptr::addr_eq(self.0, handle)
    }

    /// No database, for a test with `useDB = false`.
    pub fn none() -> LentDatabase {
        LentDatabase(std::ptr::null_mut())
    }
}

/// A metric as the workload reported it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    /// Its name.
    pub name: String,
    /// Its printf format, if the workload chose one.
    pub format: Option<String>,
    /// Its value.
    pub value: f64,
    /// Whether clients are averaged.
    pub averaged: bool,
}

impl Workload {
    /// Calls the factory.
    pub fn create(
        library: &Library,
        name: &str,
        host: Rc<dyn Host>,
    ) -> Result<Workload, CreateError> {
        let c_name = CString::new(name).map_err(|_| CreateError::Name)?;
        let context = ContextState::new(host);
        let wide = WideContext {
            context: context.as_abi(),
            traps: [older_abi; 7],
        };
        // SAFETY: both function types pass and return their structures in memory, by the same
        // rules, and the wider structures begin with the narrower ones; a v1 library sees exactly
        // what its own type says.
        let factory: WideFactory = unsafe { std::mem::transmute(library.factory) };
        // SAFETY: the ABI; the name and the context live through the call, and the context until
        // the workload is freed.
        let returned = unsafe { factory(c_name.as_ptr(), wide) };
        let raw = returned.workload;
        if raw.api_version < 0 || raw.api_version > HIGHEST_PLAUSIBLE_API_VERSION {
            return Err(CreateError::OlderAbi);
        }
        if raw.vt.is_null() {
            return Err(CreateError::Nothing(name.to_owned()));
        }
        if !raw.vt.is_aligned() {
            return Err(CreateError::OlderAbi);
        }
        // SAFETY: not null, aligned, and returned by a library whose first word identifies v1: a
        // table that lives as long as the process.
        let table = unsafe { *raw.vt };
        for (function, present) in [
            ("free", table.free.is_some()),
            ("setup", table.setup.is_some()),
            ("start", table.start.is_some()),
            ("check", table.check.is_some()),
            ("getMetrics", table.get_metrics.is_some()),
            ("getCheckTimeout", table.get_check_timeout.is_some()),
        ] {
            if !present {
                return Err(CreateError::MissingFunction(function));
            }
        }
        Ok(Workload {
            raw,
            table,
            _context: context,
        })
    }

    /// Begins a phase; `promise` is resolved when it has ended.
    pub fn begin(&self, phase: Phase, database: LentDatabase, promise: FDBPromise) {
        let function = match phase {
            Phase::Setup => self.table.setup,
            Phase::Start => self.table.start,
            Phase::Check => self.table.check,
            _ => None,
        };
        let function = function.expect("setup, start or check, which were seen to be there");
        // SAFETY: the ABI: a live workload, a database that lives until the promise resolves, a
        // promise that lives until the run is over.
        unsafe { function(self.raw.inner, database.0, promise) }
    }

    /// How long `check` may take, in simulated seconds.
    pub fn check_timeout(&self) -> f64 {
        let function = self.table.get_check_timeout.expect("seen to be there");
        // SAFETY: the ABI: a live workload.
        unsafe { function(self.raw.inner) }
    }

    /// Asks for the metrics.
    pub fn metrics(&self) -> Vec<Reported> {
        let mut list: Vec<Reported> = Vec::new();
        let function = self.table.get_metrics.expect("seen to be there");
        let out = FDBMetrics {
            inner: (&raw mut list).cast(),
            vt: &raw const METRICS_TABLE,
        };
        // SAFETY: the ABI: a live workload, and a list that lives through the call.
        unsafe { function(self.raw.inner, out) };
        list
    }

    /// Frees the workload; the context lives on until this value is dropped.
    pub fn free(&mut self) {
        if let Some(function) = self.table.free.take() {
            // SAFETY: the ABI: a live workload, freed once because the function is taken.
            unsafe { function(self.raw.inner) };
        }
    }
}

/// How large the structures of the older ABI are: a context is nine functions and a pointer, a
/// workload six functions and a pointer.
const OLDER_CONTEXT_BYTES: usize = 10 * size_of::<usize>();
const OLDER_WORKLOAD_BYTES: usize = 7 * size_of::<usize>();
const _: () = assert!(size_of::<WideContext>() >= OLDER_CONTEXT_BYTES);
const _: () = assert!(size_of::<WideWorkload>() >= OLDER_WORKLOAD_BYTES);

#[repr(C)]
struct WideContext {
    context: FDBWorkloadContext,
    traps: [extern "C" fn() -> usize; 7],
}

#[repr(C)]
struct WideWorkload {
    workload: FDBWorkload,
    _room: [usize; 5],
}

type WideFactory = unsafe extern "C" fn(*const c_char, WideContext) -> WideWorkload;

extern "C" fn older_abi() -> usize {
    beacon::refuse(&CreateError::OlderAbi.to_string())
}

static METRICS_TABLE: FDBMetricsVt = FDBMetricsVt {
    reserve: Some(reserve),
    push: Some(push),
};

/// The most that a list is grown by what a workload announces.
const RESERVE_MAX: usize = 4096;

unsafe extern "C" fn reserve(inner: *mut OpaqueMetrics, n: c_int) {
    // SAFETY: the ABI: the list of `metrics`, during its call.
    let list = unsafe { &mut *inner.cast::<Vec<Reported>>() };
    list.reserve((n.max(0) as usize).min(RESERVE_MAX));
}

unsafe extern "C" fn push(inner: *mut OpaqueMetrics, metric: FDBMetric) {
    // SAFETY: the ABI: the list of `metrics`, during its call.
    let list = unsafe { &mut *inner.cast::<Vec<Reported>>() };
    if metric.key.is_null() {
        return;
    }
    // SAFETY: not null, hence NUL-terminated by the ABI; copied before the call returns.
    let name = unsafe { CStr::from_ptr(metric.key) };
    let format = (!metric.fmt.is_null()).then(|| {
        // SAFETY: as the name.
        let format = unsafe { CStr::from_ptr(metric.fmt) };
        format.to_string_lossy().into_owned()
    });
    list.push(Reported {
        name: name.to_string_lossy().into_owned(),
        format,
        value: metric.val,
        averaged: metric.avg,
    });
}
