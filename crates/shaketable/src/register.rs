//! How a library is entered: the factory functions, and the macros that export them.

use crate::context::WorkloadContext;
use crate::details;
use crate::executor::{attach, poll_pending_tasks};
use crate::host::{HostContext, text_from_host};
use crate::instance::{WrappedWorkload, failed, guard};
use crate::phase::{Client, Phase};
use crate::stderr::complain;
use crate::workload::SingleRustWorkload;
use foundationdb::api::FdbApiBuilder;
use foundationdb::future::CUSTOM_EXECUTOR_HOOK;
use shaketable_abi::looks_like_v1;
use shaketable_abi::v1::FDBWorkloadContext;
use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

/// The type of `workloadCFactory`.
#[doc(hidden)]
pub type Factory = extern "C" fn(*const c_char, FDBWorkloadContext) -> WrappedWorkload;

/// Serves `workloadCFactory`.
///
/// # Safety
///
/// Called by a host, with what a host passes.
#[doc(hidden)]
pub unsafe fn create(
    raw_name: *const c_char,
    raw_context: FDBWorkloadContext,
    api_version: u32,
    make: fn(String, WorkloadContext) -> WrappedWorkload,
) -> WrappedWorkload {
    // The other generation has the address of a function there, which is never null.
    let table = raw_context.vt.addr();
    if table != 0 && !looks_like_v1(raw_context.api_version, table) {
        refuse_host();
    }
    attach();
    #[cfg(feature = "tracing")]
    crate::bridge::install();
    // SAFETY: by the caller's promise, and the check above.
    let host = match unsafe { HostContext::new(raw_context) } {
        Ok(host) => host,
        Err(why) => {
            complain!("the host passed a broken context: {why}");
            return failed(Client::new(None));
        }
    };
    // SAFETY: by the caller's promise.
    let name = unsafe { text_from_host(raw_name) };
    let context = WorkloadContext::new(host, name.clone().unwrap_or_default());
    let client = Client::new(Some(context.clone()));
    client.set_factory(make);
    let Some(name) = name else {
        let complaint = details!["Message" => "the host passed a null workload name"];
        client.error("WorkloadHostError", Phase::Factory, complaint);
        return failed(client);
    };
    if let Err(why) = prepare_foundationdb(api_version) {
        let complaint = details!["Message" => why];
        client.error("WorkloadLibraryUnusable", Phase::Factory, complaint);
        return failed(client);
    }
    guard(&client, Phase::Factory, || make(name, context)).unwrap_or_else(|| failed(client))
}

/// Selects the API version and hands FoundationDB the executor, once per library.
fn prepare_foundationdb(api_version: u32) -> Result<(), &'static str> {
    static PREPARED: OnceLock<Result<(), String>> = OnceLock::new();
    let prepared = PREPARED.get_or_init(|| {
        let version = i32::try_from(api_version).unwrap_or(i32::MAX);
        // Panics when a version is selected in this process already, which is just as good.
        let selected = std::panic::catch_unwind(|| {
            FdbApiBuilder::default()
                .set_runtime_version(version)
                .build()
                .map(drop)
        });
        match selected {
            Ok(Err(error)) if error.code() != API_VERSION_ALREADY_SET => {
                return Err(format!(
                    "libfdb_c refused API version {api_version}: {} ({}). The library was built for \
                     another FoundationDB than the one that runs it; rebuild it with the matching \
                     feature fdb-7_1, fdb-7_3 or fdb-7_4",
                    error.message(),
                    error.code(),
                ));
            }
            _ => {}
        }
        let hook: fn() = poll_pending_tasks;
        match CUSTOM_EXECUTOR_HOOK.set(hook) {
            Err(_) if !is_registered(hook) => Err(
                "another executor is registered as foundationdb::future::CUSTOM_EXECUTOR_HOOK; \
                 a workload library can have one executor only"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    });
    match prepared {
        Ok(()) => Ok(()),
        Err(why) => Err(why),
    }
}

fn is_registered(hook: fn()) -> bool {
    CUSTOM_EXECUTOR_HOOK
        .get()
        .is_some_and(|registered| std::ptr::fn_addr_eq(*registered, hook))
}

const API_VERSION_ALREADY_SET: i32 = 2201;

/// Reports that the host speaks another ABI, and ends the process: the host could make no sense of
/// anything it reads from us, and would crash next.
fn refuse_host() -> ! {
    complain!(
        "this workload library speaks the C ABI of FoundationDB 7.4.6 and later, but the \
         host speaks the older one of FoundationDB 7.4.0 to 7.4.5: run it with fdbserver 7.4.6 or \
         later"
    );
    std::process::exit(1);
}

/// The `make` of a library with one workload.
#[doc(hidden)]
pub fn make_single<W>(name: String, context: WorkloadContext) -> WrappedWorkload
where
    W: SingleRustWorkload,
{
    W::new(name, context).wrap()
}

/// Serves `workloadFactory`, the C++ ABI.
///
/// # Safety
///
/// Called by a host, with what a host passes.
#[doc(hidden)]
pub unsafe fn create_cpp(logger: *mut c_void, make: Factory) -> *mut c_void {
    #[cfg(feature = "cpp-abi")]
    {
        unsafe extern "C" {
            fn shaketable_cpp_factory(logger: *mut c_void, make: Factory) -> *mut c_void;
        }
        // SAFETY: the shim is compiled with this crate; `logger` is what the host passed.
        unsafe { shaketable_cpp_factory(logger, make) }
    }
    #[cfg(not(feature = "cpp-abi"))]
    {
        let _ = (logger, make);
        complain!(
            "this workload library speaks the C ABI only, but the host asked for the C++ \
             one: say `useCAPI = true` in the test file (FoundationDB 7.4.6 and later), or build the \
             library with the feature fdb-7_1 or fdb-7_3 for an older host"
        );
        std::process::exit(1);
    }
}

/// Exports a [`RustWorkloadFactory`](crate::RustWorkloadFactory) as the library's entry point.
///
/// Once per library.
///
/// ```standalone_crate
/// use shaketable::{RustWorkloadFactory, WorkloadContext, WrappedWorkload, register_factory};
///
/// struct Factory;
///
/// impl RustWorkloadFactory for Factory {
///     fn create(name: String, _context: WorkloadContext) -> WrappedWorkload {
///         // match name.as_str() { "Transfer" => WrappedWorkload::new(Transfer::new(context)), ...
///         WrappedWorkload::unknown(&name)
///     }
/// }
///
/// register_factory!(Factory);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! register_factory {
    ($name:ty) => {
        $crate::__export_factories!(
            <$name as $crate::RustWorkloadFactory>::FDB_API_VERSION,
            <$name as $crate::RustWorkloadFactory>::create
        );
    };
}

/// Exports a [`SingleRustWorkload`](crate::SingleRustWorkload) as the library's entry point.
///
/// Once per library.
///
/// ```standalone_crate
/// use shaketable::{
///     PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext, register_workload,
/// };
///
/// struct Nothing;
///
/// impl SingleRustWorkload for Nothing {
///     fn new(_name: String, _context: WorkloadContext) -> Self {
///         Nothing
///     }
/// }
///
/// impl Workload for Nothing {
///     async fn start(&mut self, _db: SimDatabase) -> PhaseResult {
///         Ok(())
///     }
/// }
///
/// register_workload!(Nothing);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! register_workload {
    ($name:ty) => {
        $crate::__export_factories!(
            <$name as $crate::SingleRustWorkload>::FDB_API_VERSION,
            $crate::internals::make_single::<$name>
        );
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_factories {
    ($version:expr, $make:expr) => {
        /// Has a name that explains the compiler's complaint about a second registration.
        #[unsafe(no_mangle)]
        extern "C" fn a_workload_library_has_exactly_one_register_macro() {}

        /// The factory of the C ABI.
        #[unsafe(no_mangle)]
        extern "C" fn workloadCFactory(
            name: *const ::std::ffi::c_char,
            context: $crate::internals::FDBWorkloadContext,
        ) -> $crate::WrappedWorkload {
            // SAFETY: a host calls this, with what a host passes.
            unsafe { $crate::internals::create(name, context, $version, $make) }
        }

        /// The factory of the C++ ABI.
        #[unsafe(no_mangle)]
        extern "C" fn workloadFactory(logger: *mut ::std::ffi::c_void) -> *mut ::std::ffi::c_void {
            // SAFETY: a host calls this, with what a host passes.
            unsafe { $crate::internals::create_cpp(logger, workloadCFactory) }
        }
    };
}
