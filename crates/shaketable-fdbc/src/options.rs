//! Options of the network, set by calls or by the environment.
//!
//! They are fully checked at once; a valid one is then forgotten, because nothing in this library
//! is tuned by it, with two exceptions: a program that disables the bypass of the multi-version
//! client gets databases with shared state, without which the read version cache is refused; and
//! one that enables client buggify gets the faults of `SHAKETABLE_FAULTS=some`, at the odds of the
//! two options that belong to it. When the network is set up, every variable
//! `FDB_NETWORK_OPTION_<NAME>` counts as calls with its values, which are separated by colons; a
//! backslash stands before a colon or a backslash that belongs to a value. If one is refused,
//! setting up the network fails.

use crate::version;
use bytes::Bytes;
use once_cell::race::OnceBox;
use shaketable_cluster::client::options::{
    OptionInfo, Parameter, Scope, check_network_option, find,
};
use shaketable_cluster::error::Error;
use shaketable_serve::Faults;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Sets an option of the network.
pub(crate) fn set(code: i32, value: Option<Bytes>) -> Result<(), Error> {
    check_network_option(version::release(), code, &value)?;
    match code {
        DISABLE_CLIENT_BYPASS => CLIENT_BYPASS_DISABLED.store(true, Ordering::Release),
        CLIENT_BUGGIFY_ENABLE => CLIENT_BUGGIFY.store(true, Ordering::Release),
        CLIENT_BUGGIFY_DISABLE => CLIENT_BUGGIFY.store(false, Ordering::Release),
        SECTION_ACTIVATED_PROBABILITY => set_percent(&SECTION_ACTIVATED_PERCENT, value),
        SECTION_FIRED_PROBABILITY => set_percent(&SECTION_FIRED_PERCENT, value),
        _ => {}
    }
    Ok(())
}

/// The faults of this program, which are chosen when the network is set up.
pub(crate) fn faults() -> &'static Faults {
    FAULTS.get_or_init(Box::default)
}

static FAULTS: OnceBox<Faults> = OnceBox::new();

/// Chooses the faults: those that the environment asks for, or `some` if the program has switched
/// client buggify on. Fails if the environment asks for something that is not understood: a test
/// that believes in faults must not run without them.
pub(crate) fn choose_faults() -> Result<(), Error> {
    let enabled = CLIENT_BUGGIFY.load(Ordering::Acquire);
    let variable = |name: &str| match std::env::var(name) {
        Err(_) if enabled && name == "SHAKETABLE_FAULTS" => Some("some".to_owned()),
        value => value.ok(),
    };
    let mut faults = Faults::read(variable, draw_seed).map_err(|error| {
        let source = std::error::Error::source(&error);
        let source = source.map_or_else(String::new, |source| format!(": {source}"));
        eprintln!("shaketable: {error}{source}");
        Error::ENVIRONMENT_VARIABLE_NETWORK_OPTION_FAILED
    })?;
    if enabled {
        let ratio = |percent: &AtomicU8| f64::from(percent.load(Ordering::Acquire)) / 25.0;
        faults.odds_factor = ratio(&SECTION_ACTIVATED_PERCENT) * ratio(&SECTION_FIRED_PERCENT);
    }
    if faults.are_on() {
        eprintln!("shaketable: {faults}");
    }
    // The network is set up once.
    let _ = FAULTS.set(Box::new(faults));
    Ok(())
}

/// Whether a cluster file must be one, as the environment says when the network is set up.
pub(crate) fn are_cluster_files_strict() -> bool {
    CLUSTER_FILES_STRICT.load(Ordering::Acquire)
}

static CLUSTER_FILES_STRICT: AtomicBool = AtomicBool::new(false);

/// Reads whether cluster files must be such.
pub(crate) fn choose_strictness() -> Result<(), Error> {
    const NAME: &str = "SHAKETABLE_STRICT_CLUSTER_FILES";
    let value = std::env::var_os(NAME).unwrap_or_default();
    let is_strict = match value.to_str() {
        Some("" | "off" | "0") => false,
        Some("on" | "1") => true,
        _ => {
            eprintln!("shaketable: {NAME}={}: expected off or on", value.display());
            return Err(Error::ENVIRONMENT_VARIABLE_NETWORK_OPTION_FAILED);
        }
    };
    CLUSTER_FILES_STRICT.store(is_strict, Ordering::Release);
    Ok(())
}

/// A seed for a program that has not chosen one.
#[expect(
    clippy::disallowed_methods,
    reason = "each run of a program that asks for faults has others"
)]
fn draw_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| u64::from(now.subsec_nanos()) ^ now.as_secs());
    (now ^ (u64::from(std::process::id()) << 20)) % 1_000_000_000
}

const CLIENT_BUGGIFY_ENABLE: i32 = 80;
const CLIENT_BUGGIFY_DISABLE: i32 = 81;
static CLIENT_BUGGIFY: AtomicBool = AtomicBool::new(false);

/// In FoundationDB each place in the client that can fail is active in a quarter of all processes,
/// and then fails a quarter of the times. Here the odds of all faults grow with both.
const SECTION_ACTIVATED_PROBABILITY: i32 = 82;
const SECTION_FIRED_PROBABILITY: i32 = 83;
static SECTION_ACTIVATED_PERCENT: AtomicU8 = AtomicU8::new(25);
static SECTION_FIRED_PERCENT: AtomicU8 = AtomicU8::new(25);

/// Stores a checked option: eight bytes that hold a number from 0 to 100.
fn set_percent(percent: &AtomicU8, value: Option<Bytes>) {
    let first = value.and_then(|value| value.first().copied());
    percent.store(first.unwrap_or(0), Ordering::Release);
}

/// Whether the program has disabled the bypass of the multi-version client.
pub(crate) fn is_client_bypass_disabled() -> bool {
    CLIENT_BYPASS_DISABLED.load(Ordering::Acquire)
}

const DISABLE_CLIENT_BYPASS: i32 = 72;
static CLIENT_BYPASS_DISABLED: AtomicBool = AtomicBool::new(false);

/// Sets the options that the environment names.
pub(crate) fn load_environment() -> Result<(), Error> {
    use std::os::unix::ffi::OsStrExt;
    let exists = |option: &&OptionInfo| {
        let code = option.code;
        find(version::release(), Scope::Network, code).is_ok()
    };
    for option in Scope::Network.options().iter().filter(exists) {
        let name = format!("FDB_NETWORK_OPTION_{}", option.name.to_uppercase());
        if let Some(values) = std::env::var_os(name) {
            load(option, values.as_bytes())
                .map_err(|_| Error::ENVIRONMENT_VARIABLE_NETWORK_OPTION_FAILED)?;
        }
    }
    Ok(())
}

fn load(option: &OptionInfo, values: &[u8]) -> Result<(), Error> {
    for value in split(values)? {
        let value = match option.parameter {
            Parameter::Int => {
                let number: i64 = std::str::from_utf8(&value)
                    .ok()
                    .and_then(|text| text.trim_start().parse().ok())
                    .ok_or(Error::INVALID_OPTION_VALUE)?;
                number.to_le_bytes().to_vec()
            }
            _ => value,
        };
        set(option.code, Some(value.into()))?;
    }
    Ok(())
}

/// The values that a variable holds.
fn split(text: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut values = vec![Vec::new()];
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        let byte = match byte {
            b':' => {
                values.push(Vec::new());
                continue;
            }
            b'\\' => match rest.next() {
                Some(&escaped @ (b':' | b'\\')) => escaped,
                _ => return Err(Error::INVALID_OPTION_VALUE),
            },
            byte => byte,
        };
        if let Some(value) = values.last_mut() {
            value.push(byte);
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_separated_by_colons_and_a_backslash_quotes() {
        let parts = |text: &[u8]| split(text).map(|values| values.join(&b'|'));
        assert_eq!(parts(b""), Ok(b"".to_vec()));
        assert_eq!(parts(b"a:b:c"), Ok(b"a|b|c".to_vec()));
        assert_eq!(parts(br"\\a\::\:b:\\"), Ok(br"\a:|:b|\".to_vec()));
        assert_eq!(parts(b"abcd:"), Ok(b"abcd|".to_vec()));
        assert_eq!(parts(br"\x"), Err(Error::INVALID_OPTION_VALUE));
        assert_eq!(parts(br"x\"), Err(Error::INVALID_OPTION_VALUE));
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        let roll_size = find(version::release(), Scope::Network, 31).unwrap();
        assert_eq!(load(roll_size, b"1000"), Ok(()));
        assert_eq!(load(roll_size, b"1000:20"), Ok(()));
        for bad in [&b"ten"[..], b"10x", b"", b"-1"] {
            assert_eq!(load(roll_size, bad), Err(Error::INVALID_OPTION_VALUE));
        }
    }
}
