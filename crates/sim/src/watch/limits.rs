//! What a worker may hold, whatever the engine.

use highwater_seam::Options;

/// What a worker may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes proposed and not decided, per stream.
    pub undecided_bytes: u64,
    /// Replies that wait, per worker.
    pub replies: usize,
    /// Bytes of log kept, per stream.
    pub log_bytes: u64,
}

/// Requests that wait for another attempt come on top of the limit.
const RETRIES: usize = 256;

impl Limits {
    /// What `options` allow: a limit may be passed by one entry, an entry's by one transaction.
    pub fn of(options: &Options) -> Limits {
        let undecided_bytes = (options.max_in_flight_bytes + options.longest_entry()) as u64;
        let replies = options.max_in_flight_requests + RETRIES;
        Limits { undecided_bytes, replies, log_bytes: options.most_log_bytes() }
    }
}
