//! The two procedures behind the door. Both are deterministic and run on any engine.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::limits::MAX_REPLY_BYTES;
use highwater_core::{Abort, Procedure, Timestamp, Transaction, planted};

use super::commands;
use super::endings::{SHORT_REPLY_BYTES, malformed, panicked, stopped};
use super::keyspace::head::Row;
use super::keyspace::{KEYSPACE, Keyspace, Stop};
use super::moment::Moment;
use super::reply::Reply;
use super::request::{Args, Framing, Step, Watch};

/// `redis.exec`: checks what was watched, then runs commands; the reply is finished RESP.
///
/// A command that fails writes its error among the replies and changes nothing; the others stand, as in Redis.
pub struct Exec;

impl Procedure for Exec {
    const NAME: &'static str = "redis.exec";
    /// 2: a moment stands in front.
    const VERSION: u32 = 2;

    /// A request that is sent again comes at another moment.
    fn identity(args: &[u8]) -> &[u8] {
        args.get(Moment::BYTES..).unwrap_or_default()
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let mut reader = Reader::new(args);
        let Ok(moment) = Moment::decode(&mut reader) else { return malformed(reply) };
        let Ok(framing) = Framing::decode(&mut reader) else { return malformed(reply) };
        let most = if Framing::is_short(args[Moment::BYTES]) { SHORT_REPLY_BYTES } else { MAX_REPLY_BYTES };
        match execute(tx, &mut reader, moment, framing, (reply, most)) {
            Ok(()) => Ok(()),
            Err(Stop::Abort(Abort::TooLarge)) if Framing::is_short(args[Moment::BYTES]) => {
                reply.clear();
                Err(Abort::Rollback)
            }
            Err(Stop::Abort(abort)) => Err(stopped(abort, reply)),
            Err(Stop::Malformed) => malformed(reply),
        }
    }

    fn explain_panic(message: &str, _: &[u8], reply: &mut Vec<u8>) {
        panicked(message, reply);
    }
}

fn execute<T: Transaction>(
    tx: &mut T,
    reader: &mut Reader<'_>,
    moment: Moment,
    framing: Framing,
    (out, most): (&mut Vec<u8>, usize),
) -> Result<(), Stop> {
    let mut reply = Reply { most, ..Reply::new(out, framing.protocol) };
    if !watches_hold(tx, reader, moment)? && !planted!(WatchIgnored) {
        reply.null_array();
        return Err(Stop::Abort(Abort::Rollback));
    }
    let count = reader.varint()?;
    if framing.block {
        reply.array(count as usize);
    }
    let mut keyspace = Keyspace::new(tx, moment);
    keyspace.goes_on = framing.again;
    for _ in 0..count {
        keyspace.transaction().goes_on()?;
        match Step::decode(reader)? {
            Step::Literal(known) => reply.out.extend_from_slice(known),
            Step::Command { opcode, args, user } => {
                let start = reply.out.len();
                keyspace.set_user(user);
                let ended = commands::run(opcode.spec(), args, &mut keyspace, &mut reply);
                if ended == Err(Stop::Abort(Abort::Rollback)) {
                    // Of all replies only this one is true.
                    reply.out.drain(..start);
                }
                ended?;
            }
        }
        reply.check_length()?;
    }
    Ok(())
}

/// Set in the version of a key that had expired when it was watched: its row may go without a change that counts.
const WAS_EXPIRED: u64 = 1 << 63;
/// Set in the version of a key that was not there when it was watched: it may have been deleted until then. Its tombstone may go meanwhile, and the key
/// be unlike what it was only if it was written since. (Timestamps leave two bits.)
const WAS_ABSENT: u64 = 1 << 62;

/// Whether every watched key is as it was. Reads them all: each is part of what the commit validates.
fn watches_hold<T: Transaction>(tx: &mut T, reader: &mut Reader<'_>, moment: Moment) -> Result<bool, Stop> {
    let mut hold = true;
    for _ in 0..reader.varint()? {
        let watch = Watch::decode(reader)?;
        let row = tx.get(KEYSPACE, watch.key)?.map(|row| Row::decode(row).head);
        let lives = row.is_some_and(|head| !head.is_expired(moment.unix_ms));
        let version = tx.version(KEYSPACE, watch.key)?;
        hold &= match watch.version.0 & (WAS_EXPIRED | WAS_ABSENT) {
            0 => row.is_some() == lives && version == watch.version,
            WAS_ABSENT => row.is_none() && version.0 <= watch.version.0 & !WAS_ABSENT,
            _ => !lives,
        };
    }
    Ok(hold)
}

/// `redis.watch`: the versions of keys, 8 bytes each, in the order of the arguments.
pub struct ReadVersions;

impl Procedure for ReadVersions {
    const NAME: &'static str = "redis.watch";
    /// 2: a moment stands in front.
    const VERSION: u32 = 2;

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let mut reader = Reader::new(args);
        let Ok(moment) = Moment::decode(&mut reader) else { return malformed(reply) };
        let Ok(keys) = Args::decode(&mut reader) else { return malformed(reply) };
        for key in keys {
            let row = tx.get(KEYSPACE, key)?.map(|row| Row::decode(row).head);
            let Timestamp(version) = tx.version(KEYSPACE, key)?;
            let version = match row {
                None => version | WAS_ABSENT,
                Some(head) if head.is_expired(moment.unix_ms) => WAS_EXPIRED,
                Some(_) => version,
            };
            reply.extend_from_slice(&version.to_le_bytes());
        }
        Ok(())
    }

    fn explain_panic(message: &str, _: &[u8], reply: &mut Vec<u8>) {
        panicked(message, reply);
    }
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Stop {
        Stop::Malformed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use highwater_core::codec::put_varint;
    use highwater_core::{Clock, Library, Schema};
    use highwater_store::{Occ, Store};

    use super::*;
    use crate::Product;
    use crate::keyspace::head::Head;

    const KEY: &[u8] = b"k";

    fn row(value: &[u8]) -> Vec<u8> {
        let mut row = Vec::new();
        Head { grown: true, ..Head::string() }.encode(value, &mut row);
        row
    }

    /// A store with the door's tables, on which procedures run one after the other.
    struct Alone(Occ);

    impl Alone {
        fn new() -> Alone {
            let schema = Schema::new(Product.tables());
            Alone(Occ::new(Store::new(schema), Arc::new(Clock::counter())))
        }

        fn run<R>(&mut self, work: impl FnOnce(&mut Occ) -> R) -> R {
            self.0.begin();
            let done = work(&mut self.0);
            self.0.commit().expect("nobody else is there");
            done
        }

        fn write(&mut self, value: Option<&[u8]>) {
            self.run(|tx| match value {
                Some(value) => tx.put(KEYSPACE, KEY, &row(value)).expect("it fits"),
                None => assert!(tx.delete(KEYSPACE, KEY).expect("it fits"), "it was there"),
            });
        }

        fn collect(&mut self) {
            while self.0.collect(Timestamp::MAX) {}
            let known = self.run(|tx| tx.get(KEYSPACE, KEY).expect("it is read").map(<[u8]>::to_vec));
            assert_eq!(known, None);
        }

        fn watch(&mut self) -> Timestamp {
            let (mut args, mut reply) = (Vec::new(), Vec::new());
            args.extend_from_slice(&Moment::default().bytes());
            Args::encode([KEY].into_iter(), &mut args);
            self.run(|tx| ReadVersions::run(tx, &args, &mut reply)).expect("it is read");
            Timestamp(u64::from_le_bytes(reply.try_into().expect("one version")))
        }

        fn holds(&mut self, version: Timestamp) -> bool {
            let mut args = Vec::new();
            put_varint(&mut args, 1);
            Watch { key: KEY, version }.encode(&mut args);
            let mut reader = Reader::new(&args);
            let holds = self.run(|tx| watches_hold(tx, &mut reader, Moment::default()));
            holds.is_ok_and(|holds| holds)
        }
    }

    #[test]
    fn a_copied_state_does_not_know_what_was_deleted() {
        let mut alone = Alone::new();
        let version = alone.watch();
        assert!(alone.holds(version));
        let absent = version.0 & !WAS_ABSENT;
        alone.0.store().lacks_deletes_until(Timestamp(absent + 5));
        assert!(!alone.holds(version), "it may have been written and deleted since");
        let later = alone.watch();
        assert!(alone.holds(later));
    }

    /// Its version was the tombstone's, and zero once that was unlinked: `EXEC` answered nil though nobody had touched it.
    #[test]
    fn a_key_that_was_just_deleted_is_as_it_was_when_its_tombstone_is_gone() {
        let mut alone = Alone::new();
        alone.write(Some(b"value"));
        alone.write(None);
        let version = alone.watch();
        assert!(alone.holds(version));
        alone.collect();
        assert!(alone.holds(version));
        let later = alone.watch();
        assert!(alone.holds(later) && alone.holds(version));
    }

    /// It was taken for one that nobody had touched as soon as the tombstone was unlinked.
    #[test]
    fn a_key_that_was_written_and_deleted_since_is_not_as_it_was() {
        for collected in [false, true] {
            let mut alone = Alone::new();
            let version = alone.watch();
            alone.write(Some(b"value"));
            assert!(!alone.holds(version), "it is there");
            alone.write(None);
            assert!(!alone.holds(version), "it was there");
            if collected {
                alone.collect();
            }
            assert!(!alone.holds(version), "it was there, and its tombstone is gone");
        }
    }

    #[test]
    fn a_key_that_is_there_has_the_version_of_its_commit() {
        let mut alone = Alone::new();
        alone.write(Some(b"value"));
        let version = alone.watch();
        assert!(alone.holds(version));
        alone.write(Some(b"value"));
        assert!(!alone.holds(version));
        let version = alone.watch();
        alone.write(None);
        assert!(!alone.holds(version));
        alone.collect();
        assert!(!alone.holds(version));
    }
}
