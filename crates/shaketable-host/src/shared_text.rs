//! A text of bounded length in plain memory: written without allocating, wherever code was
//! interrupted, and readable by another process.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Bytes that one process writes and another reads.
#[repr(C)]
pub(crate) struct SharedText<const ROOM: usize> {
    length: AtomicU32,
    bytes: [AtomicU8; ROOM],
}

impl<const ROOM: usize> SharedText<ROOM> {
    pub(crate) const fn empty() -> Self {
        SharedText {
            length: AtomicU32::new(0),
            bytes: [const { AtomicU8::new(0) }; ROOM],
        }
    }

    pub(crate) fn clear(&self) {
        self.length.store(0, Ordering::Relaxed);
    }

    /// Appends bytes if there is room for all of them.
    pub(crate) fn append(&self, more: &[u8]) {
        let length = self.length.load(Ordering::Relaxed) as usize;
        if let Some(room) = self.bytes.get(length..length + more.len()) {
            for (cell, byte) in room.iter().zip(more) {
                cell.store(*byte, Ordering::Relaxed);
            }
            self.length
                .store((length + more.len()) as u32, Ordering::Release);
        }
    }

    /// Where the bytes begin.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr().cast()
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        (self.length.load(Ordering::Acquire) as usize).min(ROOM)
    }

    pub(crate) fn read(&self) -> Vec<u8> {
        let written = self.bytes[..self.len()].iter();
        written.map(|cell| cell.load(Ordering::Relaxed)).collect()
    }
}

/// The end of a text of any length, in plain memory.
#[repr(C)]
pub(crate) struct SharedTail<const ROOM: usize> {
    /// How many bytes were ever written.
    written: AtomicU32,
    bytes: [AtomicU8; ROOM],
}

impl<const ROOM: usize> SharedTail<ROOM> {
    pub(crate) const fn empty() -> Self {
        SharedTail {
            written: AtomicU32::new(0),
            bytes: [const { AtomicU8::new(0) }; ROOM],
        }
    }

    pub(crate) fn clear(&self) {
        self.written.store(0, Ordering::Relaxed);
    }

    /// Appends bytes; the oldest make room.
    pub(crate) fn append(&self, more: &[u8]) {
        let mut written = self.written.load(Ordering::Relaxed);
        for byte in more {
            self.bytes[written as usize % ROOM].store(*byte, Ordering::Relaxed);
            // Once it is full, it stays so.
            written = match written.checked_add(1) {
                Some(more) => more,
                None => ROOM as u32 + (written % ROOM as u32) + 1,
            };
        }
        self.written.store(written, Ordering::Release);
    }

    /// Whether there is anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.written.load(Ordering::Acquire) == 0
    }

    /// Whether more was written than there is.
    pub(crate) fn is_cut(&self) -> bool {
        self.written.load(Ordering::Acquire) as usize > ROOM
    }

    /// The bytes, in two pieces, oldest first.
    pub(crate) fn pieces(&self) -> [&[AtomicU8]; 2] {
        let written = self.written.load(Ordering::Acquire) as usize;
        if written <= ROOM {
            return [&self.bytes[..written], &[]];
        }
        let (newer, older) = self.bytes.split_at(written % ROOM);
        [older, newer]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<const ROOM: usize>(tail: &SharedTail<ROOM>) -> Vec<u8> {
        let bytes = tail.pieces().into_iter().flatten();
        bytes.map(|byte| byte.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn a_tail_keeps_the_last_bytes() {
        let tail = SharedTail::<4>::empty();
        assert!(tail.is_empty());
        tail.append(b"ab");
        assert_eq!((read(&tail), tail.is_cut()), (b"ab".to_vec(), false));
        tail.append(b"cd");
        assert_eq!((read(&tail), tail.is_cut()), (b"abcd".to_vec(), false));
        tail.append(b"efghij");
        assert_eq!((read(&tail), tail.is_cut()), (b"ghij".to_vec(), true));
        tail.append(b"k");
        assert_eq!(read(&tail), b"hijk");
        tail.clear();
        assert!(tail.is_empty());
    }

    #[test]
    fn a_tail_takes_any_length() {
        let tail = SharedTail::<4>::empty();
        tail.written.store(u32::MAX - 1, Ordering::Relaxed);
        tail.append(b"abcdef");
        assert_eq!((read(&tail), tail.is_cut()), (b"cdef".to_vec(), true));
    }
}
