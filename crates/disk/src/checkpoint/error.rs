//! What goes wrong with checkpoints, by what can be done about it.

use std::{fmt, io};

use crate::disk::is_full;

/// Why a checkpoint was not written, or is not loaded.
#[derive(Debug)]
pub enum Error {
    /// The disk refused. A checkpoint that is being written is given up; the next one may succeed, unless the disk is dying.
    Io {
        /// The file, or the folder's names.
        file: String,
        /// What was tried, as in "cannot write".
        tried: &'static str,
        /// What the disk said.
        source: io::Error,
    },
    /// A file is not what was written. An older checkpoint may be whole.
    Damaged {
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A sound file of a version that this program does not know: an older checkpoint would lose what this one holds.
    NewerFormat { file: String, version: u16 },
    /// The tables are not those of this program.
    OtherSchema {
        /// The manifest.
        file: String,
        /// The first difference.
        what: String,
    },
    /// The state does not fit into the memory that the store may take.
    OutOfMemory {
        /// Where in the checkpoint.
        file: String,
        /// Bytes that the store took by then.
        used: u64,
        /// Bytes of the chunk that came next.
        next: u64,
        /// Bytes that it may take.
        limit: u64,
    },
}

/// The disk could not read a sector. Not one of [`io::ErrorKind`]'s kinds; this number on every system that we know.
const EIO: i32 = 5;

impl Error {
    /// Whether an older checkpoint may be of use: this one can never be read. All other errors are about this program or this
    /// machine (no descriptors, no permission), and going back would only hide them.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Damaged { .. } => true,
            Error::Io { source, .. } => {
                source.kind() == io::ErrorKind::NotFound || source.raw_os_error() == Some(EIO)
            }
            _ => false,
        }
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Io { source, .. } if is_full(source))
    }

    /// Says of an error of the disk what was tried with which file.
    pub(super) fn io(file: &str, tried: &'static str) -> impl FnOnce(io::Error) -> Error {
        let file = file.to_string();
        move |source| Error::Io { file, tried, source }
    }

    pub(super) fn damaged(file: &str, offset: u64, what: impl Into<String>) -> Error {
        Error::Damaged { file: file.to_string(), offset, what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { file, tried, source } => write!(f, "{file}: cannot {tried}: {source}"),
            Error::Damaged { file, offset, what } => write!(f, "{file} is damaged at byte {offset}: {what}"),
            Error::NewerFormat { file, version } => {
                let known = super::format::FORMAT_VERSION;
                write!(f, "{file} has format {version}, which is newer than this program's {known}")
            }
            Error::OtherSchema { file, what } => write!(f, "{file} is of other tables: {what}"),
            Error::OutOfMemory { file, used, next, limit } => write!(
                f,
                "{file} does not fit: the store takes {used} bytes, the next chunk has {next}, and {limit} is all it may take"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
