//! How many bytes went through one end of a connection.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Written by the thread that owns the connection, read by the control thread. Handshakes do not count, so both ends count
/// the same bytes. Relaxed: a count that is read late is only told late, and never too large, for it is written behind the
/// system call that moved the bytes. Under TLS it counts what is said, not how it is encrypted; what the socket has not taken yet counts
/// as sent, as it does in the kernel's buffer.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Gauge {
    sent: AtomicU64,
    received: AtomicU64,
    /// The owner was asked to look whether something came, and has not looked yet.
    asked: AtomicBool,
}

impl Gauge {
    /// The system took so many bytes more.
    pub fn sends(&self, bytes: usize) {
        self.sent.store(self.sent() + bytes as u64, Ordering::Relaxed);
    }

    /// So many bytes more came.
    pub fn receives(&self, bytes: usize) {
        self.received.store(self.received() + bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that the system took.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes that came.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Whether to ask the owner to look: not while it has yet to look.
    pub fn ask(&self) -> bool {
        !self.asked.swap(true, Ordering::Relaxed)
    }

    /// The owner looks.
    pub fn looks(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }
}
