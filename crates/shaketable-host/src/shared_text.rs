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
