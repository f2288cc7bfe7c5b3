//! What the watch counted.

use super::limits::Limits;

/// What was seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Distinct entries decided, over all streams.
    pub entries: u64,
    /// Takeovers that were begun.
    pub takeovers: u64,
    /// Epochs that were opened.
    pub epochs: u64,
    /// Epochs whose final mark is known.
    pub finals: u64,
    /// The most that anybody held.
    pub most: Limits,
}
