//! What can go wrong with a journal, by what can be done about it.

use std::fmt;
use std::io;

use super::format::FORMAT_VERSION;
use crate::disk::{lacks_descriptor, lacks_for_now};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// No room for another segment of so many bytes. Nothing is harmed: what was appended waits in memory, and
    /// [`sync`](super::Journal::sync) works again once there is room.
    Full {
        /// Bytes of the segment.
        segment_bytes: u64,
    },
    /// The process, or the system, has no file descriptor left to open a file with, or no memory for that, or a signal came. Nothing is
    /// harmed: the same call works again once there is one.
    NoDescriptor {
        file: String,
        /// The step that was to be done.
        what: &'static str,
        /// The system's words.
        error: String,
        /// It is descriptors that are missing; else memory, or a signal came.
        descriptor: bool,
    },
    /// The record is longer than a record can be. Nothing was appended.
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The disk failed to write, sync or remove. What it kept of unsynced records is unknown, so the journal does nothing any
    /// more: every later call returns this error again, and the node has to end.
    Failed {
        file: String,
        /// What was to be done.
        what: &'static str,
        /// The system's words.
        error: String,
    },
    /// The disk failed to read. Whether the journal is whole is unknown.
    Unreadable {
        file: String,
        /// The system's words.
        error: String,
    },
    /// What was synced is not there any more, or is not what was written.
    Damaged {
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// Written by another version.
    Format {
        /// Version of the format.
        found: u32,
    },
    /// It has more writers than were expected.
    Writers {
        /// How many it has.
        found: u16,
        /// How many there were to be.
        expected: u16,
    },
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::Full { segment_bytes } => {
                write!(f, "the disk is full: there is no room for a journal segment of {segment_bytes} bytes")
            }
            JournalError::TooLong { bytes } => {
                write!(f, "a record of {bytes} bytes is too long for the journal")
            }
            JournalError::NoDescriptor { file, what, error, descriptor: _ }
            | JournalError::Failed { file, what, error } => {
                write!(f, "cannot {what} {file}: {error}")
            }
            JournalError::Unreadable { file, error } => write!(f, "cannot read {file}: {error}"),
            JournalError::Damaged { file, offset, what } => {
                write!(f, "{file} is damaged at offset {offset}: {what}")
            }
            JournalError::Format { found } => {
                write!(f, "the journal has format {found}, this binary knows {FORMAT_VERSION}")
            }
            JournalError::Writers { found, expected } => {
                write!(f, "the journal has {found} writers, not {expected}: their number cannot shrink")
            }
        }
    }
}

impl std::error::Error for JournalError {}

/// For `map_err`: a file cannot be read.
pub(super) fn unreadable(file: &str) -> impl Fn(io::Error) -> JournalError {
    move |error| JournalError::Unreadable { file: file.into(), error: error.to_string() }
}

/// A step before anything is written: a file is opened, or room is taken. Where that fails it has changed nothing.
const OPENS: [&str; 5] = ["open", "create", "grow", "hold", "measure"];

/// For `map_err`: a file cannot be changed, or not be opened for now.
pub(super) fn failed(file: &str, what: &'static str) -> impl Fn(io::Error) -> JournalError {
    move |error| {
        let (file, words) = (file.into(), error.to_string());
        let descriptor = lacks_descriptor(&error);
        match descriptor || OPENS.contains(&what) && lacks_for_now(&error) {
            true => JournalError::NoDescriptor { file, what, error: words, descriptor },
            false => JournalError::Failed { file, what, error: words },
        }
    }
}
