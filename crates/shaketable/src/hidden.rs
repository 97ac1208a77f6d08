//! Functions that this program or library answers itself, under the names of others.
//!
//! They are defined under their own names, but *hidden*: the linker binds the calls of this
//! program, or of this workload library, to them, and no other library of the process sees them.
//! That needs no argument of the linker, and works alike in every host.

/// Defines hidden symbols that jump to functions of the same name, and a first one that keeps them
/// in the program: an object that nothing refers to is left out by the linker.
macro_rules! hidden {
    ($keep:ident, $($name:ident),+ $(,)?) => {
        std::arch::global_asm!(
            ".pushsection .text.shaketable_hidden,\"ax\",@progbits",
            concat!(".globl ", stringify!($keep)),
            concat!(".hidden ", stringify!($keep)),
            concat!(stringify!($keep), ":"),
            $(
                concat!(".globl ", stringify!($name)),
                concat!(".hidden ", stringify!($name)),
                concat!(".type ", stringify!($name), ",@function"),
                concat!(stringify!($name), ":"),
                #[cfg(target_arch = "x86_64")]
                concat!("jmp {", stringify!($name), "}"),
                #[cfg(target_arch = "aarch64")]
                concat!("b {", stringify!($name), "}"),
                concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            )+
            ".popsection",
            $($name = sym $name,)+
        );
    };
}
pub(crate) use hidden;

#[cfg(all(feature = "hermetic", not(feature = "embedded")))]
use crate::hermetic::search;
#[cfg(all(not(feature = "hermetic"), not(feature = "embedded")))]
use libc::dlsym as search;

/// The function of that name that the rest of the process uses: the host's, or that of a library.
#[cfg(not(feature = "embedded"))]
pub(crate) fn original(
    name: &std::ffi::CStr,
    known: &std::sync::atomic::AtomicPtr<std::ffi::c_void>,
) -> *mut std::ffi::c_void {
    use std::sync::atomic::Ordering;

    let function = known.load(Ordering::Relaxed);
    if !function.is_null() {
        return function;
    }
    // SAFETY: a NUL-terminated name. This library's own function is hidden from the search.
    let function = unsafe { search(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!function.is_null(), "no library has {name:?}");
    known.store(function, Ordering::Relaxed);
    function
}

/// Functions of libfdb_c: the host's own, or the program's, found by name. Each is looked up at its
/// first call and called through a pointer from then on.
#[cfg(all(feature = "measure", not(feature = "embedded")))]
macro_rules! real {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)+) => {$(
        /// # Safety
        ///
        /// As the C function.
        #[allow(clippy::too_many_arguments, reason = "the C function has them")]
        pub(super) unsafe fn $name($($argument: $type),*) $(-> $result)? {
            static KNOWN: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
                std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
            const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => panic!("a name without NUL"),
            };
            type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
            // SAFETY: libfdb_c's function of that name has this type.
            let function: Function =
                unsafe { std::mem::transmute($crate::hidden::original(NAME, &KNOWN)) };
            // SAFETY: the caller's promise.
            unsafe { function($($argument),*) }
        }
    )+};
}
#[cfg(all(feature = "measure", not(feature = "embedded")))]
pub(crate) use real;
