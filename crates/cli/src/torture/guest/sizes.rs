//! Keys and values from one byte to the limit, and transactions of thousands of operations; a replica is restarted while
//! they are there, so that they are copied.

use highwater_core::limits::{MAX_REDIS_KEY_BYTES, MAX_VALUE_BYTES};

use super::caller::{Caller, Said};
use super::expected::Expected;
use super::job::{Job, log_uniform};
use crate::failure::Result;
use crate::wire::Reply;

/// Values of the largest size, at most.
const LARGE: u64 = 20;
/// Values of other sizes.
const MIXED: u64 = 300;
/// And how much they may be together.
const MIXED_BYTES: usize = 64 << 20;
/// Operations of one transaction, at most.
const MANY: u64 = 20_000;

/// Writes, waits for a restart, reads again, deletes.
pub fn run(job: &mut Job) -> Result<()> {
    let mut caller = job.caller();
    let mut expected = Expected::default();
    edges(job, &mut caller, &mut expected);
    mixed(job, &mut caller, &mut expected);
    if job.rng.percent(60) {
        large(job, &mut caller, &mut expected);
    }
    many(job, &mut caller);
    job.wait_for_restart()?;
    let keys = expected.keys();
    expected.verify_all(job, &mut caller, &keys);
    if !expected.delete(job, &mut caller, &keys) {
        job.complain("DEL is refused for ever".into());
    }
    Ok(())
}

/// A transaction of so many bytes is taken by nodes with the memory that the kind `memory` leaves them.
const SMALL_NODES_TAKE: usize = 8 << 20;

/// The smallest, the largest, and one more than that.
fn edges(job: &mut Job, caller: &mut Caller, expected: &mut Expected) {
    let key = |job: &Job, len: usize| {
        let mut key = job.key("edge");
        key.resize(len.max(key.len()), b'k');
        key
    };
    // One byte is no guest's own: so a key for all, of which nothing is expected.
    let _ = caller.ask(&[b"SET", b"k", b"v"]);
    for (len, value) in
        [(0, 0), (1, 1), (MAX_REDIS_KEY_BYTES, 1), (MAX_REDIS_KEY_BYTES, 0), (0, MAX_VALUE_BYTES)]
    {
        let key = key(job, len);
        let said = expected.set(caller, &[(key, value)]);
        note(job, "values at the limits", &said[0], value);
    }
    for (len, value) in [(MAX_REDIS_KEY_BYTES + 1, 1), (0, MAX_VALUE_BYTES + 1)] {
        let (key, value) = (key(job, len), vec![0; value]);
        match caller.ask(&[b"SET", &key, &value]) {
            Said::Done(reply) => job.complain(format!("more than the limit was taken: {reply:?}")),
            Said::Wrong(_) => job.count("refused beyond the limits", 1),
            // As Redis does: the answer is lost if the connection is closed while we still send.
            Said::Unknown => job.count("cut off beyond the limits", 1),
            Said::Refused | Said::Full => job.count("writes that met a failover", 1),
        }
    }
}

/// Any sizes.
fn mixed(job: &mut Job, caller: &mut Caller, expected: &mut Expected) {
    let (mut bytes, mut at) = (0, 0);
    while at < MIXED && bytes < MIXED_BYTES {
        let count = job.rng.within(1, 16);
        let writes: Vec<(Vec<u8>, usize)> = (at..at + count)
            .map(|at| {
                // Now and then the same key again, longer or shorter.
                let name = if job.rng.percent(20) { at / 2 } else { at };
                let mut key = job.key(name);
                let len = log_uniform(&mut job.rng, 1, MAX_REDIS_KEY_BYTES as u64) as usize;
                if job.rng.percent(20) {
                    key.resize(len.max(key.len()), b'.');
                }
                (key, log_uniform(&mut job.rng, 1, 1 << 20) as usize - 1)
            })
            .collect();
        for (said, (_, len)) in expected.set(caller, &writes).iter().zip(&writes) {
            note(job, "values of any size", said, *len);
            bytes += len;
        }
        at += count;
    }
}

/// The largest there are, until there is no memory for more.
fn large(job: &mut Job, caller: &mut Caller, expected: &mut Expected) {
    for at in 0..LARGE {
        let write = (job.key(format!("large{at}")), MAX_VALUE_BYTES);
        let said = expected.set(caller, &[write]);
        note(job, "values of 16 MB", &said[0], MAX_VALUE_BYTES);
        if said[0] == Said::Full {
            return;
        }
    }
}

fn note(job: &mut Job, what: &str, said: &Said, len: usize) {
    match said {
        Said::Done(_) => job.count(what, 1),
        Said::Full => job.count("writes refused for want of memory", 1),
        Said::Refused | Said::Unknown => job.count("writes that met a failover", 1),
        // Where `memory` has made the nodes small, so is what one transaction may write.
        Said::Wrong(text) if text.starts_with("ERR too large") && len > SMALL_NODES_TAKE => {
            job.count("values too large for small nodes", 1);
        }
        Said::Wrong(text) => job.complain(format!("a value of {len} bytes: {text}")),
    }
}

/// One transaction of many counters, twice: all of them say 1, then all say 2.
fn many(job: &mut Job, caller: &mut Caller) {
    let count = log_uniform(&mut job.rng, 100, MANY);
    let keys: Vec<Vec<u8>> = (0..count).map(|at| job.key(format!("n{at}"))).collect();
    for round in 1..=2 {
        let increments = keys.iter().map(|key| vec![&b"INCR"[..], &key[..]]);
        let block: Vec<Vec<&[u8]>> =
            [vec![&b"MULTI"[..]]].into_iter().chain(increments).chain([vec![&b"EXEC"[..]]]).collect();
        let commands: Vec<&[&[u8]]> = block.iter().map(|words| &words[..]).collect();
        match caller.ask_all(&commands).pop() {
            Some(Said::Done(Reply::Array(Some(replies)))) => {
                if replies.len() as u64 != count
                    || replies.iter().any(|reply| *reply != Reply::Integer(round))
                {
                    job.complain(format!("a transaction of {count} INCR answered otherwise than {round}"));
                }
                job.count("transactions of up to 20,000 operations", 1);
                job.count("operations of these", count);
            }
            Some(Said::Wrong(text)) => return job.complain(format!("EXEC of {count} INCR: {text}")),
            // Whether it happened is not known, and so not what comes next.
            _ => return job.count("transactions that met a failover", 1),
        }
    }
    for keys in keys.chunks(1000) {
        let words: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(keys.iter().map(|key| &key[..])).collect();
        if caller.insist(&words).is_none() {
            return job.complain("DEL is refused for ever".into());
        }
    }
}
