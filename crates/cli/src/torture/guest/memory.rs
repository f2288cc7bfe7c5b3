//! Fills the cluster until it refuses; then reads, deletes and shrinks, which must go on; a restart while it is full; and fills
//! it again, with what the deleted values left.

use std::thread;
use std::time::{Duration, Instant};

use super::caller::{Caller, Said};
use super::expected::Expected;
use super::job::{Job, log_uniform};
use crate::failure::Result;

/// Bytes of one pipeline, about.
const PIPELINE_BYTES: usize = 2 << 20;
/// A node takes values of this part of its memory.
const NODE_OVER_VALUE: u64 = 64;
/// Values that are read again at a time.
const SAMPLE: usize = 200;
/// How soon what was deleted must be room for something else, on a starved machine, too.
const ROOM_AGAIN: Duration = Duration::from_secs(10);

/// Fills, deletes, fills again.
pub fn run(job: &mut Job) -> Result<()> {
    let mut caller = job.caller();
    let mut expected = Expected::default();
    // By the run: small values, whose overhead counts; large ones; or any. Small ones one after the other would take minutes.
    let largest = [1 << 10, 32 << 10, 1 << 20, 8 << 20][job.rng.below(4) as usize];
    let largest = if job.pipelines_overlap() { largest } else { largest.max(1 << 20) };
    // A small node takes no transaction as large as that.
    let largest = largest.min((job.args.memory_mb << 20) / NODE_OVER_VALUE);
    let filled = fill(job, &mut caller, &mut expected, largest, 0);
    job.count("bytes filled in", filled);
    while_full(job, &mut caller, &mut expected);
    job.wait_for_restart()?;
    let sample = sample(job, &expected);
    expected.verify_all(job, &mut caller, &sample);
    let half: Vec<_> = expected.keys().into_iter().step_by(2).collect();
    if !expected.delete(job, &mut caller, &half) {
        job.complain("DEL is refused for ever while memory is full".into());
        return Ok(());
    }
    job.count("values deleted", half.len() as u64);
    let deleted = Instant::now();
    let (mut again, mut round) = (0, 1);
    loop {
        again += fill(job, &mut caller, &mut expected, largest, round);
        if again >= filled / 8 {
            break;
        }
        // What was deleted counts until every replica has installed that, and has said so.
        if deleted.elapsed() > ROOM_AGAIN {
            job.complain(format!(
                "half of {filled} bytes were deleted, and only {again} fit in again within {ROOM_AGAIN:?}"
            ));
            break;
        }
        round += 1;
        thread::sleep(Duration::from_millis(20));
    }
    job.count("bytes filled in again", again);
    job.count("times that room was looked for in vain", round - 1);
    let sample = self::sample(job, &expected);
    expected.verify_all(job, &mut caller, &sample);
    let keys = expected.keys();
    if !expected.delete(job, &mut caller, &keys) {
        job.complain("DEL is refused for ever while memory is full".into());
    }
    Ok(())
}

/// Writes until there is no memory; how many bytes were taken.
fn fill(job: &mut Job, caller: &mut Caller, expected: &mut Expected, largest: u64, round: u64) -> u64 {
    let most = job.args.memory_mb << 20;
    let (mut bytes, mut at) = (0, 0);
    loop {
        let (mut writes, mut room) = (Vec::new(), PIPELINE_BYTES);
        while room > 0 && writes.len() < 256 {
            let len = log_uniform(&mut job.rng, 1, largest) as usize;
            writes.push((job.key(format!("{round}.{at}")), len));
            (at, room) = (at + 1, room.saturating_sub(len));
        }
        let (mut full, mut met) = (0, 0);
        for (said, (key, len)) in expected.set(caller, &writes).iter().zip(&writes) {
            match said {
                Said::Done(_) => bytes += (key.len() + len) as u64,
                Said::Full => full += 1,
                Said::Refused | Said::Unknown => met += 1,
                Said::Wrong(text) => {
                    job.complain(format!("a value of {len} bytes: {text}"));
                    return bytes;
                }
            }
        }
        if met > 0 {
            job.count("writes that met a failover", met);
            // Nobody leads at the moment.
            thread::sleep(Duration::from_millis(10));
        } else {
            job.goes_on();
        }
        if full > 0 {
            job.count("writes refused for want of memory", full);
            return bytes;
        }
        if bytes > most {
            job.complain(format!(
                "{} MiB were taken of replicas that may have {} MiB each",
                bytes >> 20,
                job.args.memory_mb
            ));
            return bytes;
        }
    }
}

/// What a full cluster still does.
fn while_full(job: &mut Job, caller: &mut Caller, expected: &mut Expected) {
    let sample: Vec<_> = sample(job, expected).into_iter().take(20).collect();
    expected.verify_all(job, caller, &sample);
    job.count("reads while memory was full", sample.len() as u64);
    for (at, key) in sample.iter().enumerate() {
        if at % 2 == 0 {
            let said = expected.set(caller, &[(key.clone(), 1)]);
            match &said[0] {
                Said::Done(_) => job.count("values shrunk while memory was full", 1),
                Said::Full => {
                    job.complain("a write that shrinks a value is refused for want of memory".into())
                }
                _ => {}
            }
        } else if expected.delete(job, caller, std::slice::from_ref(key)) {
            job.count("values deleted while memory was full", 1);
        } else {
            job.complain("DEL is refused for ever while memory is full".into());
        }
    }
}

/// Some keys that hold something, from all over.
fn sample(job: &mut Job, expected: &Expected) -> Vec<Vec<u8>> {
    let mut keys = expected.present();
    (0..SAMPLE.min(keys.len())).map(|_| keys.swap_remove(job.rng.below(keys.len() as u64) as usize)).collect()
}
