//! Cluster files as FoundationDB's client reads them, for programs that ask for it.
//!
//! Here a cluster file is a mere name, so that a test needs none. A program that tests how it copes
//! with a missing or broken one, or a suite that breaks them on purpose, sets
//! `SHAKETABLE_STRICT_CLUSTER_FILES=on`. Then a database whose file is missing, or says nothing
//! that could be a cluster, is opened as always, and every operation on it fails: with 1515 or with
//! 2104. Whether anything listens at the addresses is not asked; what the file says is a name
//! still.

use crate::network::ClusterName;
use shaketable_cluster::error::Error;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where FoundationDB's packages put the file that is used if no other is named.
const DEFAULT: &str = "/etc/foundationdb/fdb.cluster";
/// Larger files are not read.
const BYTES_MAX: u64 = 60_000;

const FILE_TOO_LARGE: Error = Error(1516);
const FILE_NOT_READABLE: Error = Error(1513);

/// Why FoundationDB's client could not use this name.
pub(crate) fn check(name: &ClusterName) -> Result<(), Error> {
    match name {
        // A server wrote it.
        ClusterName::Served { .. } => Ok(()),
        ClusterName::Default => check_file(&default_file()),
        ClusterName::File(path) => check_file(Path::new(OsStr::from_bytes(path))),
        ClusterName::ConnectionString(text) => check_text(text),
    }
}

/// The file in the folder of the program, else that of the machine. A variable that is set and
/// empty names no file, and keeps the client from looking elsewhere.
fn default_file() -> PathBuf {
    let here = Path::new("fdb.cluster");
    match std::env::var_os("FDB_CLUSTER_FILE") {
        Some(named) => named.into(),
        None if here.exists() => here.to_owned(),
        None => DEFAULT.into(),
    }
}

fn check_file(path: &Path) -> Result<(), Error> {
    match fs::metadata(path) {
        Ok(file) if file.len() > BYTES_MAX => return Err(FILE_TOO_LARGE),
        Ok(_) => {}
        Err(_) => return Err(Error::NO_CLUSTER_FILE_FOUND),
    }
    match fs::read(path) {
        Ok(text) => check_text(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::NO_CLUSTER_FILE_FOUND),
        Err(_) => Err(FILE_NOT_READABLE),
    }
}

/// `description:id@address,address`, with blanks and comments anywhere.
fn check_text(text: &[u8]) -> Result<(), Error> {
    is_connection_string(text)
        .then_some(())
        .ok_or(Error::CONNECTION_STRING_INVALID)
}

fn is_connection_string(text: &[u8]) -> bool {
    let text = without_comments(text);
    let Some((key, addresses)) = split(&text, b'@') else {
        return false;
    };
    let Some((description, id)) = split(key, b':') else {
        return false;
    };
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut seen = BTreeSet::new();
    description.iter().all(is_word)
        && id.iter().all(u8::is_ascii_alphanumeric)
        && addresses
            .split(|byte| *byte == b',')
            .all(|address| is_address(address) && seen.insert(address))
}

fn without_comments(text: &[u8]) -> Vec<u8> {
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    let said = lines.flat_map(|line| line.split(|byte| *byte == b'#').next().unwrap_or_default());
    said.copied()
        .filter(|byte| !matches!(byte, b' ' | b'\t'))
        .collect()
}

/// What is before the first of these bytes, and after it.
fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|byte| *byte == at)?;
    Some((&text[..place], &text[place + 1..]))
}

/// `1.2.3.4:4500`, `[::1]:4500` or `a-host.name:4500`, each perhaps with `:tls`.
fn is_address(address: &[u8]) -> bool {
    let Ok(address) = std::str::from_utf8(address) else {
        return false;
    };
    let address = address.strip_suffix(":tls").unwrap_or(address);
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(port) {
        return false;
    }
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']');
        return inner.is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_ok());
    }
    let numbers: Vec<&str> = host.split('.').collect();
    if numbers.iter().all(|number| is_number(number)) && numbers.len() >= 4 {
        return numbers.len() == 4;
    }
    let is_part = |part: &str| {
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        !part.is_empty() && part.bytes().all(is_host)
    };
    // A name may end with a dot.
    host.strip_suffix('.')
        .unwrap_or(host)
        .split('.')
        .all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_a_description_an_id_and_addresses() {
        for text in [
            "fdb:0123abc@127.0.0.1:4500",
            "fdb:0123abc@127.0.0.1:4500\n",
            "# a comment\nmy_db : id @ 10.0.0.1:4500:tls, 10.0.0.2:4500 # two\n",
            "a:b@[::1]:4500:tls",
            "a:b@host-1.example.com:4500,localhost:4501:tls",
            "a:b@host.example.com.:4500",
            ":@1.2.3.4:1",
        ] {
            assert_eq!(check_text(text.as_bytes()), Ok(()), "{text}");
        }
        for text in [
            "",
            "# nothing but a comment",
            "letters",
            "a@1.2.3.4:4500",
            "a-b:c@1.2.3.4:4500",
            "a:b_c@1.2.3.4:4500",
            "a:b@",
            "a:b@,",
            "a:b@1.2.3.4:4500,",
            "a:b@1.2.3.4:4500,1.2.3.4:4500",
            "a:b@1.2.3.4",
            "a:b@1.2.3.4:",
            "a:b@1.2.3.4.5:4500",
            "a:b@[::1:4500",
            "a:b@host!:4500",
        ] {
            assert_eq!(
                check_text(text.as_bytes()),
                Err(Error::CONNECTION_STRING_INVALID),
                "{text}"
            );
        }
    }

    #[test]
    fn a_file_must_exist_and_say_something() {
        let folder = std::env::temp_dir().join(format!("cluster-files-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let written = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).expect("a file");
            check_file(&path)
        };
        assert_eq!(written("good", "a:b@127.0.0.1:4500\n"), Ok(()));
        assert_eq!(written("empty", ""), Err(Error::CONNECTION_STRING_INVALID));
        let large = "#".repeat(60_001);
        assert_eq!(written("large", &large), Err(FILE_TOO_LARGE));
        let missing = check_file(&folder.join("missing"));
        assert_eq!(missing, Err(Error::NO_CLUSTER_FILE_FOUND));
        fs::remove_dir_all(&folder).expect("what was written");
    }
}
