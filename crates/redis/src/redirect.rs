//! What a client is told that asks something of the data where it cannot be answered: in the words that its kind of library
//! understands.

use highwater_core::codec::{Malformed, Reader};
use highwater_seam::Refusal;
use serde::{Deserialize, Serialize};

use super::Door;
use super::acl::keys;
use super::errors::RequestError;
use super::moment::Moment;
use super::request::{Args, Framing, Step, Watch};
use super::slots::slot;
use super::topology::bare;

/// In whose words; `server.redirect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redirect {
    /// Redis Cluster's: `MOVED slot address`, and `CLUSTERDOWN` where nobody is known to serve.
    Moved,
    /// A replica's under Sentinel: `READONLY`, at which libraries connect anew.
    Readonly,
    /// Ours, for people: `NOTLEADER`, `NOQUORUM`.
    Text,
}

impl Door {
    /// The error for a request that was refused; `asked` gives the slot of its first key.
    pub fn referral(&self, refusal: Refusal, asked: impl FnOnce() -> u16) -> RequestError<'static> {
        let ask = match refusal {
            Refusal::NotServing { ask } => ask,
            Refusal::NoQuorum => None,
            Refusal::Busy | Refusal::Unsupported => return RequestError::Refused(refusal, None),
        };
        let address = ask.and_then(|node| self.address(node));
        match (self.redirect, address) {
            (Redirect::Moved, Some(address)) => {
                RequestError::Moved { slot: asked(), address: bare(&address) }
            }
            (Redirect::Moved, None) => RequestError::Down(refusal),
            (Redirect::Readonly, address) => RequestError::ReadOnly(address),
            (Redirect::Text, address) => match refusal {
                Refusal::NotServing { ask } if self.leaderless => RequestError::Elsewhere(ask, address),
                _ => RequestError::Refused(refusal, address),
            },
        }
    }
}

/// The slot of the first key that the arguments of `redis.exec` name, 0 if they name none.
pub fn slot_of_request(args: &[u8]) -> u16 {
    first_key(args).ok().flatten().map_or(0, slot)
}

/// The same of `redis.watch`.
pub fn slot_of_watch(args: &[u8]) -> u16 {
    let keys = args.get(Moment::BYTES..).map(|args| Args::decode(&mut Reader::new(args)));
    keys.and_then(|keys| keys.ok()?.next()).map_or(0, slot)
}

fn first_key(args: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    let mut reader = Reader::new(args);
    Moment::decode(&mut reader)?;
    Framing::decode(&mut reader)?;
    let mut first = None;
    for _ in 0..reader.varint()? {
        let watch = Watch::decode(&mut reader)?;
        first = first.or(Some(watch.key));
    }
    for _ in 0..reader.varint()? {
        if first.is_some() {
            break;
        }
        if let Step::Command { opcode, args, .. } = Step::decode(&mut reader)? {
            keys::visit(opcode, args, |key, _| {
                first = Some(key);
                false
            });
        }
    }
    Ok(first)
}
