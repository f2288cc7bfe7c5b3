//! Subscriptions to what Redis's sentinels tell without being asked, of which a node tells one thing: that another one leads.
//!
//! This is no publish and subscribe. A node is the only one that tells, and [`SWITCHED`] all that it tells; so only names of sentinels'
//! channels can be subscribed to, and whoever wants others is refused and does not wait in vain.

use std::collections::BTreeSet;

use super::effort::few;
use super::errors::CommandError;
use super::glob::Steps;
use super::reply::{Protocol, Reply};
use super::request::Args;

/// The channel that tells of another leader: `name old-host old-port new-host new-port`.
pub const SWITCHED: &[u8] = b"+switch-master";

/// Bytes of the names that one connection subscribes to.
const MOST_BYTES: usize = 4096;

/// The channels and patterns that are subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel by its name.
    Channels,
    /// All channels that fit.
    Patterns,
}

impl Kind {
    /// Whether sentinels have such channels, whose names all begin with a sign.
    fn offers(self, name: &[u8]) -> bool {
        matches!(name, [b'+' | b'-', ..]) || self == Kind::Patterns && name == b"*"
    }
}

/// A connection's.
#[derive(Debug, Default)]
pub struct Subscriptions {
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
}

impl Subscriptions {
    /// Whether there is one.
    pub fn is_any(&self) -> bool {
        self.counts() != (0, 0)
    }

    /// To how many channels, and to how many patterns.
    pub fn counts(&self) -> (usize, usize) {
        (self.channels.len(), self.patterns.len())
    }

    fn of(&mut self, kind: Kind) -> &mut BTreeSet<Vec<u8>> {
        match kind {
            Kind::Channels => &mut self.channels,
            Kind::Patterns => &mut self.patterns,
        }
    }

    /// `SUBSCRIBE name ..`, `PSUBSCRIBE pattern ..`: an answer for each; all of them, or an error.
    pub fn add(&mut self, kind: Kind, names: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
        if !names.into_iter().all(|name| kind.offers(name)) {
            return Err(CommandError::Text(
                "ERR publish and subscribe are not offered: of channels there are those of Redis's sentinels, and `+switch-master` is all that is told",
            ));
        }
        let held = self.channels.iter().chain(&self.patterns).map(Vec::len).sum::<usize>();
        if held + names.into_iter().map(<[u8]>::len).sum::<usize>() > MOST_BYTES {
            return Err(CommandError::Text("ERR too many subscriptions for one connection"));
        }
        for name in names {
            self.of(kind).insert(name.to_vec());
            self.answer(kind, [&b"subscribe"[..], b"psubscribe"], Some(name), reply);
        }
        Ok(())
    }

    /// `UNSUBSCRIBE [name ..]`, `PUNSUBSCRIBE [pattern ..]`: an answer for each; without names for all, or one for none.
    ///
    /// # Errors
    /// Too many names.
    pub fn remove(&mut self, kind: Kind, names: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
        few(names)?;
        const WORDS: [&[u8]; 2] = [b"unsubscribe", b"punsubscribe"];
        let names: Vec<Vec<u8>> = match names.len() {
            0 => self.of(kind).iter().cloned().collect(),
            _ => names.map(<[u8]>::to_vec).collect(),
        };
        for name in &names {
            self.of(kind).remove(name);
            self.answer(kind, WORDS, Some(name), reply);
        }
        if names.is_empty() {
            self.answer(kind, WORDS, None, reply);
        }
        Ok(())
    }

    fn answer(&self, kind: Kind, words: [&[u8]; 2], name: Option<&[u8]>, reply: &mut Reply<'_>) {
        let (channels, patterns) = self.counts();
        reply.push(3);
        reply.bulk(words[usize::from(kind == Kind::Patterns)]);
        match name {
            Some(name) => reply.bulk(name),
            None => reply.null(),
        }
        reply.integer((channels + patterns) as i64);
    }

    /// Writes what its client hears of an event.
    pub fn tell(&self, channel: &[u8], message: &[u8], protocol: Protocol, out: &mut Vec<u8>) {
        let mut reply = Reply::new(out, protocol);
        if self.channels.contains(channel) {
            reply.push(3);
            [&b"message"[..], channel, message].into_iter().for_each(|word| reply.bulk(word));
        }
        let steps = Steps::default();
        for pattern in self.patterns.iter().filter(|pattern| steps.fit(pattern, channel)) {
            reply.push(4);
            [&b"pmessage"[..], pattern, channel, message].into_iter().for_each(|word| reply.bulk(word));
        }
    }
}
