//! Where a shared database is found: its socket, and the cluster file that names it.
//!
//! A cluster file holds one connection string, `description:id@addresses`. Ours is a valid one: its
//! description is `shaketable_serve` and its id the path of the socket, in hexadecimal. Programs
//! that read cluster files for other reasons find an address at which no server listens.
//!
//! Only the user who started the server may reach the socket. Its folder must belong to that user
//! and be closed to all others, and both sides check who is at the other end: a stranger could
//! otherwise read the database, or pretend to be it.

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Uid;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

const DESCRIPTION: &str = "shaketable_serve";
/// The discard port: nothing listens there.
const ADDRESS: &str = "127.0.0.1:9";
/// The operating system allows no longer name for a socket.
const PATH_BYTES_MAX: usize = 107;

/// The socket of a shared database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    socket: PathBuf,
}

/// Why a socket is not used.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Its path is longer than the operating system allows.
    #[error("the path of the socket {} is longer than {PATH_BYTES_MAX} bytes", .0.display())]
    TooLong(PathBuf),
    /// It is not in a folder.
    #[error("the socket {} is in no folder", .0.display())]
    NoFolder(PathBuf),
    /// Others may enter its folder.
    #[error(
        "the folder {} has mode {mode:03o}: others could reach the database in it (chmod 700)",
        folder.display()
    )]
    Open {
        /// The folder.
        folder: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Its folder, or it, belongs to another user.
    #[error("{} belongs to user {owner}, not to you (user {user})", path.display())]
    Stranger {
        /// The folder or the socket.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// This process's user.
        user: u32,
    },
    /// The other end of the socket is another user's process.
    #[error("the process at the other end of {} is user {owner}'s, not yours (user {user})", path.display())]
    StrangePeer {
        /// The socket.
        path: PathBuf,
        /// The user at the other end.
        owner: u32,
        /// This process's user.
        user: u32,
    },
    /// It is something else than a socket.
    #[error("{} is not a socket", .0.display())]
    NoSocket(PathBuf),
    /// It cannot be looked at or made.
    #[error("{}", path.display())]
    Io {
        /// The folder or the socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Place {
    /// The socket at a path, which must be absolute: processes in other folders look for it too.
    pub fn new(socket: PathBuf) -> Result<Place, Refused> {
        match socket.as_os_str().len() > PATH_BYTES_MAX {
            true => Err(Refused::TooLong(socket)),
            false => Ok(Place { socket }),
        }
    }

    /// The socket that stands for a cluster file unless another is named: in the user's own folder
    /// for such things, and the same one each time.
    pub fn of_cluster_file(file: &Path) -> Result<Place, Refused> {
        let folder = match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(folder) if Path::new(&folder).is_dir() => PathBuf::from(folder),
            _ => std::env::temp_dir(),
        };
        let folder = folder.join(format!("shaketable-{}", Uid::effective()));
        let digest = file.as_os_str().as_bytes().iter();
        // FNV-1a: two cluster files should not meet, and an accident is noticed when the second
        // server finds the first.
        let digest = digest.fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
            (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Place::new(folder.join(format!("{digest:016x}.socket")))
    }

    /// The socket that a connection string names, if it is one of ours.
    pub fn of_connection_string(text: &str) -> Option<Place> {
        let rest = text.trim().strip_prefix(DESCRIPTION)?.strip_prefix(':')?;
        let (id, _) = rest.split_once('@')?;
        let digits: Vec<u32> = id.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
        let bytes = digits.chunks(2).map(|pair| match pair {
            [high, low] => Some((high * 16 + low) as u8),
            _ => None,
        });
        let path = PathBuf::from(std::ffi::OsString::from_vec(bytes.collect::<Option<_>>()?));
        Place::new(path)
            .ok()
            .filter(|place| place.socket.is_absolute())
    }

    /// The socket that a cluster file names, if the file exists and is one of ours.
    pub fn of_existing_file(file: &Path) -> Option<Place> {
        let text = fs::read_to_string(file).ok()?;
        let mut lines = text.lines().map(str::trim);
        let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
        Place::of_connection_string(line)
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What a cluster file says of it.
    pub fn connection_string(&self) -> String {
        let path = self.socket.as_os_str().as_bytes();
        let id: String = path.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{DESCRIPTION}:{id}@{ADDRESS}")
    }

    /// Makes the folder of the socket if it does not exist, closed to others, and refuses one that
    /// a stranger could enter.
    pub fn prepare_folder(&self) -> Result<(), Refused> {
        let folder = self.folder()?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| Refused::Io {
            path: folder.to_owned(),
            source,
        })?;
        check_folder(folder)
    }

    /// Refuses a socket that a stranger could have put there. Returns whether there is one.
    pub fn check(&self) -> Result<bool, Refused> {
        let metadata = match fs::symlink_metadata(&self.socket) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => {
                return Err(Refused::Io {
                    path: self.socket.clone(),
                    source,
                });
            }
        };
        check_folder(self.folder()?)?;
        check_owner(&self.socket, metadata.uid())?;
        match metadata.file_type().is_socket() {
            true => Ok(true),
            false => Err(Refused::NoSocket(self.socket.clone())),
        }
    }

    /// Refuses another user's process at the other end.
    pub fn check_peer(&self, socket: &UnixStream) -> Result<(), Refused> {
        let io = |errno: nix::errno::Errno| Refused::Io {
            path: self.socket.clone(),
            source: errno.into(),
        };
        let peer = getsockopt(socket, sockopt::PeerCredentials).map_err(io)?;
        match check_owner(&self.socket, peer.uid()) {
            Err(Refused::Stranger { path, owner, user }) => {
                Err(Refused::StrangePeer { path, owner, user })
            }
            checked => checked,
        }
    }

    fn folder(&self) -> Result<&Path, Refused> {
        let folder = self.socket.parent();
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        folder.ok_or_else(|| Refused::NoFolder(self.socket.clone()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.display().fmt(f)
    }
}

fn check_folder(folder: &Path) -> Result<(), Refused> {
    let metadata = fs::metadata(folder).map_err(|source| Refused::Io {
        path: folder.to_owned(),
        source,
    })?;
    check_owner(folder, metadata.uid())?;
    match metadata.mode() & 0o777 {
        mode if mode & 0o077 != 0 => Err(Refused::Open {
            folder: folder.to_owned(),
            mode,
        }),
        _ => Ok(()),
    }
}

fn check_owner(path: &Path, owner: u32) -> Result<(), Refused> {
    let user = Uid::effective().as_raw();
    match owner == user {
        true => Ok(()),
        false => Err(Refused::Stranger {
            path: path.to_owned(),
            owner,
            user,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_names_its_socket() {
        let place = Place::new("/run/user/1/söcket".into()).expect("short");
        let text = place.connection_string();
        assert_eq!(Place::of_connection_string(&text), Some(place));
        let (description, rest) = text.split_once(':').expect("a description");
        let (id, address) = rest.split_once('@').expect("an id");
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(description.chars().all(is_word), "{description}");
        assert!(id.chars().all(|c| c.is_ascii_alphanumeric()), "{id}");
        assert!(address.parse::<std::net::SocketAddr>().is_ok(), "{address}");
    }

    #[test]
    fn other_connection_strings_name_none() {
        for text in [
            "",
            "docker:docker@127.0.0.1:4500",
            "shaketable_serve:2f7@127.0.0.1:9",
            "shaketable_serve:zz@127.0.0.1:9",
            "shaketable_serve:2f",
            "shaketable_serve:72656c6174697665@127.0.0.1:9",
        ] {
            assert_eq!(Place::of_connection_string(text), None, "{text}");
        }
    }
}
