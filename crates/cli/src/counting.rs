//! Clients that count: each increments a key of its own under a session (`HW.ONCE`), and repeats what was not answered, on whichever
//! replica, until it knows what became of it. So in the end it knows exactly what its key holds, whatever befell the cluster.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use highwater_workloads::random::{Rng, mix};
use serde::{Deserialize, Serialize};

use crate::wire::{Refusal, Reply, Wire};

/// How long a reply may take before the same is asked again; some clients are patient, some are not.
const PATIENCE: [Duration; 3] =
    [Duration::from_millis(60), Duration::from_millis(300), Duration::from_millis(1500)];
/// Between two increments.
const PAUSE: Duration = Duration::from_millis(5);
/// Before asking again where nobody serves.
const NOBODY_SERVES: Duration = Duration::from_millis(10);
/// Once no more is to be done, what is open is resolved within this.
const RESOLVED_WITHIN: Duration = Duration::from_secs(15);
/// One of so many repetitions asks for the outcome instead, in percent.
const ASK_PERCENT: u64 = 25;

/// What a client knows of its counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The key.
    pub key: String,
    /// What it must hold.
    pub sum: u64,
    /// How often a request was sent again because its outcome was not known.
    pub repeated: u64,
    /// How often an outcome was asked for, and found.
    pub asked: u64,
}

/// What all of them did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Counters.
    pub counters: u64,
    /// Increments that were done, each exactly once.
    pub increments: u64,
    /// See [`Counted::repeated`].
    pub repeated: u64,
    /// See [`Counted::asked`].
    pub asked: u64,
}

impl Counts {
    /// Of these.
    pub fn of(all: &[Counted]) -> Counts {
        let sum = |of: fn(&Counted) -> u64| all.iter().map(of).sum();
        Counts {
            counters: all.len() as u64,
            increments: sum(|counted| counted.sum),
            repeated: sum(|counted| counted.repeated),
            asked: sum(|counted| counted.asked),
        }
    }
}

/// What one exchange taught.
enum Heard {
    /// The reply.
    Reply(Reply),
    /// Nothing was done by this try.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// A client.
pub struct Counter {
    doors: Vec<SocketAddr>,
    patience: Duration,
    rng: Rng,
    wire: Option<Wire>,
    leader: Option<SocketAddr>,
    counted: Counted,
}

impl Counter {
    /// Number `number`, on replicas whose RESP doors are these.
    pub fn new(number: u64, doors: &[SocketAddr], seed: u64) -> Counter {
        Counter {
            doors: doors.to_vec(),
            patience: PATIENCE[number as usize % PATIENCE.len()],
            rng: Rng::new(mix(seed ^ mix(number ^ 0x0c04_1700))),
            wire: None,
            leader: None,
            counted: Counted { key: format!("counter:{number}"), ..Counted::default() },
        }
    }

    /// Counts until it is over, and then until it knows all.
    ///
    /// # Errors
    /// In words, what must not happen.
    pub fn run(mut self, over: impl Fn() -> bool) -> Result<Counted, String> {
        let Some(session) = self.open(&over)? else { return Ok(self.counted) };
        let mut number = 0;
        while !over() {
            number += 1;
            if let Some(sum) = self.increment(session, number, &over)? {
                self.counted.sum += 1;
                let Counted { key, sum: wanted, .. } = &self.counted;
                if u64::try_from(sum) != Ok(*wanted) {
                    return Err(format!(
                        "{key} came to {sum}, and should be {wanted}: number {number} of session {session}"
                    ));
                }
            }
            thread::sleep(PAUSE);
        }
        Ok(self.counted)
    }

    /// A session; none if it is over before there is one.
    fn open(&mut self, over: &impl Fn() -> bool) -> Result<Option<i64>, String> {
        while !over() {
            match self.exchange(&["HW.SESSION", "NEW"]) {
                Heard::Reply(Reply::Integer(id)) => return Ok(Some(id)),
                Heard::Reply(strange) => return Err(format!("HW.SESSION NEW answered {strange:?}")),
                // One whose id got lost is never used.
                Heard::Refused | Heard::Unknown => {}
            }
        }
        Ok(None)
    }

    /// One increment, repeated until its outcome is known: the sum that it came to, or none if it never happened.
    fn increment(
        &mut self,
        session: i64,
        number: u64,
        over: &impl Fn() -> bool,
    ) -> Result<Option<i64>, String> {
        let (id, number, key) = (session.to_string(), number.to_string(), self.counted.key.clone());
        let (mut unknown, mut deadline) = (false, None::<Instant>);
        loop {
            let asks = unknown && self.rng.percent(ASK_PERCENT);
            let heard = match asks {
                true => self.exchange(&["HW.OUTCOME", &id, &number]),
                false => self.exchange(&["HW.ONCE", &id, &number, "INCR", &key]),
            };
            match heard {
                Heard::Reply(reply) => {
                    self.counted.asked += u64::from(asks);
                    return end(&reply).ok_or_else(|| {
                        format!("number {number} of session {id}, {key}: answered {reply:?}")
                    });
                }
                Heard::Refused => {}
                Heard::Unknown => {
                    unknown = true;
                    self.counted.repeated += 1;
                }
            }
            deadline = deadline.or_else(|| over().then(|| Instant::now() + RESOLVED_WITHIN));
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                let seconds = RESOLVED_WITHIN.as_secs();
                return Err(format!("{key}: nobody said for {seconds} s what became of number {number}"));
            }
        }
    }

    fn exchange(&mut self, words: &[&str]) -> Heard {
        let Some(wire) = self.connected() else {
            thread::sleep(NOBODY_SERVES);
            return Heard::Refused;
        };
        wire.command(words);
        let reply = wire.send().and_then(|()| wire.reply());
        let Ok(reply) = reply else {
            self.wire = None;
            return Heard::Unknown;
        };
        let Reply::Error(text) = &reply else { return Heard::Reply(reply) };
        match Refusal::of(text) {
            Refusal::Strange(_) => Heard::Reply(reply),
            Refusal::Unknown => Heard::Unknown,
            refusal => {
                if let Refusal::NotLeader(leader) = refusal {
                    self.leader = leader;
                    self.wire = None;
                } else if self.rng.percent(20) {
                    // An old leader that nobody follows says so, too: look for another one.
                    self.wire = None;
                }
                thread::sleep(NOBODY_SERVES);
                Heard::Refused
            }
        }
    }

    fn connected(&mut self) -> Option<&mut Wire> {
        if self.wire.is_none() {
            let anybody = self.doors[self.rng.below(self.doors.len() as u64) as usize];
            let door = self.leader.take().unwrap_or(anybody);
            self.wire = Wire::connect(door, self.patience).ok();
        }
        self.wire.as_mut()
    }
}

/// What a reply to an increment, or to the question for its outcome, says of it: the sum, or that it never happens. Nothing if it is
/// no such reply.
fn end(reply: &Reply) -> Option<Option<i64>> {
    match reply {
        Reply::Integer(sum) => Some(Some(*sum)),
        // Its outcome was asked for, and the answer got lost.
        Reply::Error(text) if text.starts_with("ABANDONED ") => Some(None),
        Reply::Array(Some(parts)) => match &parts[..] {
            [Reply::Bulk(Some(word)), Reply::Integer(sum)] if word == b"committed" => Some(Some(*sum)),
            [Reply::Bulk(Some(word)), Reply::Bulk(None)] if word == b"never" => Some(None),
            _ => None,
        },
        _ => None,
    }
}

/// Some who count in threads of this process; they end when this is dropped.
pub struct Team {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Counted, String>>>,
}

impl Team {
    /// So many begin to count.
    pub fn start(count: u64, doors: &[SocketAddr], seed: u64) -> Team {
        let over = Arc::new(AtomicBool::new(false));
        let begin = |number| {
            let (counter, over) = (Counter::new(number, doors, seed), over.clone());
            thread::spawn(move || counter.run(|| over.load(Ordering::Relaxed)))
        };
        Team { threads: (0..count).map(begin).collect(), over }
    }

    /// They end; what they know, once nothing is open.
    ///
    /// # Errors
    /// In words, what must not happen.
    pub fn stop(mut self) -> Result<Vec<Counted>, String> {
        self.over.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        threads.into_iter().map(|thread| thread.join().expect("who counts does not panic")).collect()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Holds what the counters hold against what their clients know. `doors`: of a cluster at rest.
///
/// # Errors
/// In words, what is wrong.
pub fn verify(doors: &[SocketAddr], all: &[Counted]) -> Result<(), String> {
    let mut reader = Counter::new(0, doors, 1);
    reader.patience = RESOLVED_WITHIN;
    let deadline = Instant::now() + RESOLVED_WITHIN;
    for Counted { key, sum, .. } in all {
        let shown = loop {
            match reader.exchange(&["GET", key]) {
                Heard::Reply(reply) => break reply,
                _ if Instant::now() > deadline => return Err(format!("{key} cannot be read")),
                Heard::Refused | Heard::Unknown => {}
            }
        };
        let wanted = Reply::Bulk((*sum > 0).then(|| sum.to_string().into_bytes()));
        if shown != wanted {
            return Err(format!("{key} holds {shown:?}, and its client knows of {sum} increments"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart() {
        let bulk = |text: &str| Reply::Bulk(Some(text.as_bytes().to_vec()));
        let pair = |word, reply| Reply::Array(Some(vec![bulk(word), reply]));
        assert_eq!(end(&Reply::Integer(7)), Some(Some(7)));
        assert_eq!(end(&pair("committed", Reply::Integer(7))), Some(Some(7)));
        assert_eq!(end(&pair("never", Reply::Bulk(None))), Some(None));
        assert_eq!(end(&Reply::Error("ABANDONED number 3 of ..".into())), Some(None));
        for strange in [pair("failed", Reply::Bulk(None)), Reply::Error("EXPIRED ..".into()), bulk("7")] {
            assert_eq!(end(&strange), None);
        }
    }
}
