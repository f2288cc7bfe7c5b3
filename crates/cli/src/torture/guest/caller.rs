//! A connection of a guest: finds whoever leads, and says what came of a command.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use highwater_workloads::random::Rng;

use crate::wire::{Refusal, Reply, Wire};

/// How long a reply may take: a restart, an election and a copy of the state under load.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long a cluster may refuse what must be possible.
const STUBBORN: Duration = Duration::from_secs(60);

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It was done.
    Done(Reply),
    /// Nothing was done: ask again.
    Refused,
    /// Nothing was done: there is no memory for it.
    Full,
    /// It may have been done.
    Unknown,
    /// The command is wrong, it says.
    Wrong(String),
}

/// Asks whoever leads.
pub struct Caller {
    doors: Vec<SocketAddr>,
    rng: Rng,
    leader: Option<SocketAddr>,
    wire: Option<Wire>,
}

impl Caller {
    /// Not connected yet.
    pub fn new(doors: Vec<SocketAddr>, seed: u64) -> Caller {
        Caller { doors, rng: Rng::new(seed), leader: None, wire: None }
    }

    /// One command.
    pub fn ask(&mut self, words: &[&[u8]]) -> Said {
        self.ask_all(&[words]).pop().expect("as many answers as commands")
    }

    /// Commands in one pipeline: what came of each.
    pub fn ask_all(&mut self, commands: &[&[&[u8]]]) -> Vec<Said> {
        let Some(mut wire) = self.connection() else { return vec![Said::Refused; commands.len()] };
        commands.iter().for_each(|words| wire.words(words));
        let mut answers = Vec::with_capacity(commands.len());
        // Even if not all of it could be sent, something may have been done.
        let mut exchange = || -> io::Result<()> {
            wire.send()?;
            for _ in commands {
                answers.push(wire.reply()?);
            }
            Ok(())
        };
        let whole = exchange().is_ok();
        let mut said: Vec<Said> = answers.into_iter().map(|reply| self.read(reply)).collect();
        said.resize(commands.len(), Said::Unknown);
        let stays = |said: &Said| matches!(said, Said::Done(_) | Said::Full);
        self.wire = (whole && said.iter().all(stays)).then_some(wire);
        said
    }

    /// A command that may be repeated: until it is answered. `None`: for too long nobody does it.
    pub fn insist(&mut self, words: &[&[u8]]) -> Option<Reply> {
        let began = Instant::now();
        loop {
            if let Said::Done(reply) = self.ask(words) {
                return Some(reply);
            }
            if began.elapsed() > STUBBORN {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// A connection to whoever leads, for what this type cannot do; `None` if nobody leads for too long.
    pub fn leader(&mut self) -> Option<Wire> {
        // Writes nothing, and is refused by all others.
        self.insist(&[b"EXISTS", b"g"])?;
        self.wire.take()
    }

    fn connection(&mut self) -> Option<Wire> {
        self.wire.take().or_else(|| {
            let door = self.leader.take();
            let door = door.unwrap_or_else(|| self.doors[self.rng.below(self.doors.len() as u64) as usize]);
            Wire::connect(door, PATIENCE).ok()
        })
    }

    fn read(&mut self, reply: Reply) -> Said {
        let Reply::Error(text) = reply else { return Said::Done(reply) };
        match Refusal::of(&text) {
            Refusal::NotLeader(leader) => {
                self.leader = leader;
                Said::Refused
            }
            Refusal::Retry | Refusal::NotFresh => Said::Refused,
            Refusal::Full => Said::Full,
            Refusal::Unknown => Said::Unknown,
            Refusal::Strange(text) => Said::Wrong(text),
        }
    }
}
