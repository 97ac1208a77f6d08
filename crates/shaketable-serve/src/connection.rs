//! One end of a socket: whole messages in, whole messages out, and never a wait.
//!
//! A message is its length and its bytes. What is sent is collected and written at once when the
//! kernel has nothing else to do, so that a burst of requests costs one call of the system.

use crate::messages::GREETING_BYTES;
use crate::wire::Malformed;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

/// No message is larger. A transaction is 10 MB at most, and an answer about 80 kB.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// How much may wait for a reader that does not read.
const WAITING_BYTES_MAX: usize = 256 << 20;
/// How much is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// The other side has closed it, or it broke.
    #[error("the connection was lost")]
    Lost(#[source] io::Error),
    /// The other side does not speak this protocol.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The other side does not read.
    #[error("the other side has stopped reading")]
    Stuck,
}

impl From<Errno> for Closed {
    fn from(errno: Errno) -> Closed {
        Closed::Lost(errno.into())
    }
}

/// See the module.
pub struct Connection {
    socket: Rc<OwnedFd>,
    /// Where the system puts what has arrived.
    landing: Box<[u8]>,
    incoming: Vec<u8>,
    /// How much of `incoming` has been taken.
    taken: usize,
    outgoing: Vec<u8>,
    /// How much of `outgoing` has been sent.
    sent: usize,
}

impl Connection {
    /// The end of a socket that has just been connected.
    pub fn new(socket: UnixStream) -> io::Result<Connection> {
        socket.set_nonblocking(true)?;
        Ok(Connection {
            socket: Rc::new(socket.into()),
            landing: vec![0; CHUNK_BYTES].into(),
            incoming: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            sent: 0,
        })
    }

    /// The socket.
    pub fn socket(&self) -> Rc<OwnedFd> {
        self.socket.clone()
    }

    /// Whether something waits until the other side reads.
    pub fn wants_to_send(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Adds bytes that are no message, to be sent with the next flush.
    pub fn push_raw(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    /// Adds a message, which `write` appends, to be sent with the next flush.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.outgoing.len();
        self.outgoing.extend_from_slice(&[0; LENGTH_BYTES]);
        write(&mut self.outgoing);
        let length = (self.outgoing.len() - start - LENGTH_BYTES) as u32;
        self.outgoing[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    }

    /// Sends what can be sent now.
    pub fn flush(&mut self) -> Result<(), Closed> {
        while self.wants_to_send() {
            let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
            match send(self.socket.as_raw_fd(), &self.outgoing[self.sent..], flags) {
                Ok(count) => self.sent += count,
                Err(Errno::EAGAIN) => {
                    let waiting = self.outgoing.len() - self.sent;
                    return if waiting > WAITING_BYTES_MAX {
                        Err(Closed::Stuck)
                    } else {
                        Ok(())
                    };
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Takes in what has arrived. Returns whether anything had.
    pub fn receive(&mut self) -> Result<bool, Closed> {
        if self.taken > 0 {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
        let mut any = false;
        loop {
            let flags = MsgFlags::MSG_DONTWAIT;
            let received = recv(self.socket.as_raw_fd(), &mut self.landing, flags);
            let landed = &self.landing[..received.unwrap_or(0)];
            self.incoming.extend_from_slice(landed);
            match received {
                Ok(0) => return Err(Closed::Lost(io::ErrorKind::UnexpectedEof.into())),
                // Less than there was room for: there is no more at the moment.
                Ok(count) if count < CHUNK_BYTES => return Ok(true),
                Ok(_) => any = true,
                Err(Errno::EAGAIN) => return Ok(any),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            // Messages are taken before more is read.
            if self.incoming.len() > MESSAGE_BYTES_MAX + LENGTH_BYTES {
                return Ok(true);
            }
        }
    }

    /// The next whole message that has arrived.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let rest = &self.incoming[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(Malformed("it is too long"));
        }
        let message = rest.get(..length).map(<[u8]>::to_vec);
        if message.is_some() {
            self.taken += LENGTH_BYTES + length;
        }
        Ok(message)
    }

    /// The greeting, once all of it has arrived.
    pub fn greeting(&mut self) -> Option<[u8; GREETING_BYTES]> {
        let rest = &self.incoming[self.taken..];
        let (greeting, _) = rest.split_first_chunk::<GREETING_BYTES>()?;
        self.taken += GREETING_BYTES;
        Some(*greeting)
    }
}

const LENGTH_BYTES: usize = 4;
