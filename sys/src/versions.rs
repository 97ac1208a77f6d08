//! The selected API version, and the macro with which `foundationdb` and its users choose code by
//! it.

// `build.rs` writes `FDB_API_VERSION`: it alone knows which feature was selected.
include!(concat!(env!("OUT_DIR"), "/api_version.rs"));

/// The newest API version that the header of the selected version knows.
#[cfg(since_730)]
pub const FDB_LATEST_API_VERSION: u32 = FDB_API_VERSION;
/// The newest API version that bindings of the selected version know.
#[cfg(since_730)]
pub const FDB_LATEST_BINDINGS_API_VERSION: u32 = FDB_API_VERSION;
/// The API version that brought the option for temporary copies of client libraries.
#[cfg(since_730)]
pub const FDB_API_VERSION_CLIENT_TMP_DIR: u32 = 720;
/// The API version that brought the option against the client's bypass.
#[cfg(since_730)]
pub const FDB_API_VERSION_DISABLE_CLIENT_BYPASS: u32 = 720;
/// The API version that released tenants.
#[cfg(since_730)]
pub const FDB_API_VERSION_TENANT_API_RELEASED: u32 = 720;

/// Keeps code only for some API versions, in places where an attribute cannot stand.
///
/// The range is given as `min = 620`, `max = 600` or `min = 510, max = 600`, both ends inclusive;
/// features that should keep the code as well may follow (`min = 620, feature = "extra"`). The
/// features `fdb-5_1` to `fdb-7_4` of the *calling* crate decide.
///
/// ```
/// # use foundationdb_sys::if_cfg_api_versions;
/// if_cfg_api_versions!(min = 510, max = 600 => mod cluster {});
/// let getter = if_cfg_api_versions!(max = 610 => { "version" } else { "int64" });
/// assert_eq!(getter, "int64");
/// ```
///
/// Several statements are kept or dropped together; of several items only the first is.
#[macro_export]
macro_rules! if_cfg_api_versions {
    ($($name:tt = $value:tt),+ => $first:stmt; $($more:stmt)+) => {
        $crate::if_cfg_api_versions! { $($name = $value),+ => { $first; $($more)+ } }
    };
    (min = $min:tt, max = $max:tt $(, feature = $feature:literal)* => $($code:tt)*) => {
        $crate::__api_versions_since! { $min, $max, [$(feature = $feature),*] $($code)* }
    };
    (min = $min:tt $(, feature = $feature:literal)* => $($code:tt)*) => {
        $crate::__api_versions_since! { $min, 740, [$(feature = $feature),*] $($code)* }
    };
    (max = $max:tt $(, feature = $feature:literal)* => $($code:tt)*) => {
        $crate::__api_versions_since! { 510, $max, [$(feature = $feature),*] $($code)* }
    };
}

/// First step of [`if_cfg_api_versions`]: the features from the lower end of the range on.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __api_versions_since {
    (510, $($rest:tt)*) => { $crate::__api_versions_until! { [feature = "fdb-5_1", feature = "fdb-5_2", feature = "fdb-6_0", feature = "fdb-6_1", feature = "fdb-6_2", feature = "fdb-6_3", feature = "fdb-7_0", feature = "fdb-7_1", feature = "fdb-7_3", feature = "fdb-7_4"] $($rest)* } };
    (520, $($rest:tt)*) => { $crate::__api_versions_until! { [feature = "fdb-5_2", feature = "fdb-6_0", feature = "fdb-6_1", feature = "fdb-6_2", feature = "fdb-6_3", feature = "fdb-7_0", feature = "fdb-7_1", feature = "fdb-7_3", feature = "fdb-7_4"] $($rest)* } };
    (600, $($rest:tt)*) => { $crate::__api_versions_until! { [feature = "fdb-6_0", feature = "fdb-6_1", feature = "fdb-6_2", feature = "fdb-6_3", feature = "fdb-7_0", feature = "fdb-7_1", feature = "fdb-7_3", feature = "fdb-7_4"] $($rest)* } };
    (610, $($rest:tt)*) => { $crate::__api_versions_until! { [feature = "fdb-6_1", feature = "fdb-6_2", feature = "fdb-6_3", feature = "fdb-7_0", feature = "fdb-7_1", feature = "fdb-7_3", feature = "fdb-7_4"] $($rest)* } };
    (620, $($rest:tt)*) => { $crate::__api_versions_until! { [feature = "fdb-6_2", feature = "fdb-6_3", feature = "fdb-7_0", feature = "fdb-7_1", feature = "fdb-7_3", feature = "fdb-7_4"] $($rest)* } };
    (630, $($rest:tt)*) => { $crate::__api_versions_until! { [feature = "fdb-6_3", feature = "fdb-7_0", feature = "fdb-7_1", feature = "fdb-7_3", feature = "fdb-7_4"] $($rest)* } };
    (700, $($rest:tt)*) => { $crate::__api_versions_until! { [feature = "fdb-7_0", feature = "fdb-7_1", feature = "fdb-7_3", feature = "fdb-7_4"] $($rest)* } };
    (710, $($rest:tt)*) => { $crate::__api_versions_until! { [feature = "fdb-7_1", feature = "fdb-7_3", feature = "fdb-7_4"] $($rest)* } };
    (730, $($rest:tt)*) => { $crate::__api_versions_until! { [feature = "fdb-7_3", feature = "fdb-7_4"] $($rest)* } };
    (740, $($rest:tt)*) => { $crate::__api_versions_until! { [feature = "fdb-7_4"] $($rest)* } };
    ($other:tt, $($rest:tt)*) => { $crate::__api_versions_unknown! { $other } };
}

/// Second step of [`if_cfg_api_versions`]: the features up to the upper end of the range.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __api_versions_until {
    ([$($since:tt)*] 510, $($rest:tt)*) => { $crate::__api_versions_keep! { [$($since)*] [feature = "fdb-5_1"] $($rest)* } };
    ([$($since:tt)*] 520, $($rest:tt)*) => { $crate::__api_versions_keep! { [$($since)*] [feature = "fdb-5_1", feature = "fdb-5_2"] $($rest)* } };
    ([$($since:tt)*] 600, $($rest:tt)*) => { $crate::__api_versions_keep! { [$($since)*] [feature = "fdb-5_1", feature = "fdb-5_2", feature = "fdb-6_0"] $($rest)* } };
    ([$($since:tt)*] 610, $($rest:tt)*) => { $crate::__api_versions_keep! { [$($since)*] [feature = "fdb-5_1", feature = "fdb-5_2", feature = "fdb-6_0", feature = "fdb-6_1"] $($rest)* } };
    ([$($since:tt)*] 620, $($rest:tt)*) => { $crate::__api_versions_keep! { [$($since)*] [feature = "fdb-5_1", feature = "fdb-5_2", feature = "fdb-6_0", feature = "fdb-6_1", feature = "fdb-6_2"] $($rest)* } };
    ([$($since:tt)*] 630, $($rest:tt)*) => { $crate::__api_versions_keep! { [$($since)*] [feature = "fdb-5_1", feature = "fdb-5_2", feature = "fdb-6_0", feature = "fdb-6_1", feature = "fdb-6_2", feature = "fdb-6_3"] $($rest)* } };
    ([$($since:tt)*] 700, $($rest:tt)*) => { $crate::__api_versions_keep! { [$($since)*] [feature = "fdb-5_1", feature = "fdb-5_2", feature = "fdb-6_0", feature = "fdb-6_1", feature = "fdb-6_2", feature = "fdb-6_3", feature = "fdb-7_0"] $($rest)* } };
    ([$($since:tt)*] 710, $($rest:tt)*) => { $crate::__api_versions_keep! { [$($since)*] [feature = "fdb-5_1", feature = "fdb-5_2", feature = "fdb-6_0", feature = "fdb-6_1", feature = "fdb-6_2", feature = "fdb-6_3", feature = "fdb-7_0", feature = "fdb-7_1"] $($rest)* } };
    ([$($since:tt)*] 730, $($rest:tt)*) => { $crate::__api_versions_keep! { [$($since)*] [feature = "fdb-5_1", feature = "fdb-5_2", feature = "fdb-6_0", feature = "fdb-6_1", feature = "fdb-6_2", feature = "fdb-6_3", feature = "fdb-7_0", feature = "fdb-7_1", feature = "fdb-7_3"] $($rest)* } };
    ([$($since:tt)*] 740, $($rest:tt)*) => { $crate::__api_versions_keep! { [$($since)*] [feature = "fdb-5_1", feature = "fdb-5_2", feature = "fdb-6_0", feature = "fdb-6_1", feature = "fdb-6_2", feature = "fdb-6_3", feature = "fdb-7_0", feature = "fdb-7_1", feature = "fdb-7_3", feature = "fdb-7_4"] $($rest)* } };
    ([$($since:tt)*] $other:tt, $($rest:tt)*) => { $crate::__api_versions_unknown! { $other } };
}

/// Last step of [`if_cfg_api_versions`]: the code under its condition.
#[doc(hidden)]
#[macro_export]
macro_rules! __api_versions_keep {
    (
        [$($since:tt)*] [$($until:tt)*] [$($feature:tt)*]
        { $($then:tt)* } else { $($otherwise:tt)* }
    ) => {{
        #[cfg(any(all(any($($since)*), any($($until)*)), $($feature)*))]
        { $($then)* }
        #[cfg(not(any(all(any($($since)*), any($($until)*)), $($feature)*)))]
        { $($otherwise)* }
    }};
    ([$($since:tt)*] [$($until:tt)*] [$($feature:tt)*] $($code:tt)*) => {
        #[cfg(any(all(any($($since)*), any($($until)*)), $($feature)*))]
        $($code)*
    };
}

/// The error of [`if_cfg_api_versions`] for a version that never existed.
#[doc(hidden)]
#[macro_export]
macro_rules! __api_versions_unknown {
    ($version:tt) => {
        compile_error!(concat!(
            "expected one of the API versions 510, 520, 600, 610, 620, 630, 700, 710, 730, 740, found ",
            stringify!($version)
        ));
    };
}
