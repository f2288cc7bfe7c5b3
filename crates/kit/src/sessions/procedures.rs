//! The same calls as procedures, for those who run transactions by name. Integers of arguments and replies have 8 bytes, little
//! endian.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Abort, Procedure, TableId, Transaction};
use highwater_seam::{Owner, Session};

use super::calls::{Answer, Most, ask, end, open, sweep};
use super::record::Kept;

/// [`open`]s a session. Arguments: how many may be open, of all and of each owner, the owner, and what the id is made of;
/// [`arguments`](Open::arguments). Reply: the id. [Rolls back](Abort::Rollback) if there are too many.
pub struct Open<const AT: u8>;

/// [`end`]s a session. Arguments: the id and the owner; [`arguments`](End::arguments). Reply: a byte, 1 if there was one.
pub struct End<const AT: u8>;

/// [`ask`]s what became of a request. Arguments: session, number and owner; [`arguments`](Ask::arguments). Reply: see
/// [`Answer::decode`].
pub struct Ask<const AT: u8>;

/// [`sweep`]s. Arguments: from which id on, and what the keeper saw of the clock. Reply: from which id the next one goes on, 0 if this was the
/// last; how many sessions it ended; and what the clock shows.
pub struct Sweep<const AT: u8>;

impl<const AT: u8> Open<AT> {
    pub fn arguments(most: Most, owner: Owner, nonce: u64) -> Vec<u8> {
        encode(&[most.of_all, most.of_each, owner.0.into(), nonce])
    }
}

impl<const AT: u8> End<AT> {
    pub fn arguments(id: u64, owner: Owner) -> Vec<u8> {
        encode(&[id, owner.0.into()])
    }
}

impl<const AT: u8> Ask<AT> {
    pub fn arguments(of: Session) -> Vec<u8> {
        encode(&[of.id, of.sequence, of.owner.0.into()])
    }
}

fn encode(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The arguments, or the end of a request that has others.
pub(super) fn numbers<const N: usize>(args: &[u8]) -> Result<[u64; N], Abort> {
    let (chunks, rest) = args.as_chunks::<8>();
    let chunks: &[[u8; 8]; N] = chunks.try_into().map_err(|_| Abort::BadRequest)?;
    if rest.is_empty() { Ok(chunks.map(u64::from_le_bytes)) } else { Err(Abort::BadRequest) }
}

fn owner(number: u64) -> Result<Owner, Abort> {
    u32::try_from(number).map(Owner).map_err(|_| Abort::BadRequest)
}

impl<const AT: u8> Procedure for Open<AT> {
    const NAME: &'static str = "sessions.open";
    /// 2: sessions have owners.
    const VERSION: u32 = 2;

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let [of_all, of_each, of, nonce] = numbers(args)?;
        match open(tx, TableId(AT), Most { of_all, of_each }, owner(of)?, nonce)? {
            Ok(id) => reply.extend_from_slice(&id.to_le_bytes()),
            Err(_too_many) => return Err(Abort::Rollback),
        }
        Ok(())
    }
}

impl<const AT: u8> Procedure for End<AT> {
    const NAME: &'static str = "sessions.end";
    /// 2: sessions have owners.
    const VERSION: u32 = 2;

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let [id, of] = numbers(args)?;
        reply.push(u8::from(end(tx, TableId(AT), id, owner(of)?)?));
        Ok(())
    }
}

impl<const AT: u8> Procedure for Ask<AT> {
    const NAME: &'static str = "sessions.ask";
    /// 2: sessions have owners.
    const VERSION: u32 = 2;

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let [id, sequence, of] = numbers(args)?;
        ask(tx, TableId(AT), Session { id, sequence, owner: owner(of)? })?.encode(reply);
        Ok(())
    }
}

impl<const AT: u8> Procedure for Sweep<AT> {
    const NAME: &'static str = "sessions.sweep";
    /// 2: the clock advances from what was seen of it.
    const VERSION: u32 = 2;

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let [from, seen] = numbers(args)?;
        let swept = sweep(tx, TableId(AT), from, seen)?;
        reply.extend_from_slice(&encode(&[swept.next.unwrap_or(0), swept.expired, swept.clock]));
        Ok(())
    }
}

const EXPIRED: u8 = 0x80;
const NEVER: u8 = 0x81;
const STALE: u8 = 0x82;

impl Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Answer::Expired => out.push(EXPIRED),
            Answer::Never => out.push(NEVER),
            Answer::Stale(last) => {
                out.push(STALE);
                out.extend_from_slice(&last.to_le_bytes());
            }
            Answer::Ended(kept, reply) => {
                out.push(kept.byte());
                out.extend_from_slice(reply);
            }
        }
    }

    /// From the reply of [`Ask`].
    ///
    /// # Errors
    /// If it is none.
    pub fn decode(reply: &[u8]) -> Result<Answer, Malformed> {
        let mut reader = Reader::new(reply);
        match reader.u8()? {
            EXPIRED => Ok(Answer::Expired),
            NEVER => Ok(Answer::Never),
            STALE => Ok(Answer::Stale(reader.u64()?)),
            byte => match Kept::decode(byte) {
                Some(kept) if kept.outcome().is_some() => Ok(Answer::Ended(kept, reader.rest().to_vec())),
                _ => Err(Malformed("answer")),
            },
        }
    }
}
