//! What clients send.

use std::sync::Arc;

use highwater_core::{Abort, Clock, Library, Registry, Schema, Transaction};
use highwater_redis::KEYSPACE;
use highwater_redis::Product;
use highwater_redis::exec::{Exec, ReadVersions};
use highwater_redis::frame::{Parser, ProtocolError};
use highwater_redis::interactive::Interact;
use highwater_redis::moment::Moment;
use highwater_store::{Occ, Store};

use crate::cut::cut;

type Command = Vec<Vec<u8>>;

/// A stream of commands: cut anywhere, it is the same stream; and what was read can be sent again.
pub fn stream(bytes: &[u8]) -> bool {
    let pieces = cut(bytes);
    let whole = parse(&pieces.concat(), &[]);
    let cut = parse(&[], &pieces);
    assert_eq!(whole, cut, "the commands depend on how the bytes were cut");
    let again: Vec<u8> = whole.0.iter().flat_map(multibulk).collect();
    assert_eq!(parse(&again, &[]), (whole.0, None), "a command that was read cannot be sent again");
    !again.is_empty()
}

/// Reads `bytes`, then as they come, `pieces`.
fn parse(bytes: &[u8], pieces: &[&[u8]]) -> (Vec<Command>, Option<ProtocolError>) {
    let (mut parser, mut input, mut taken) = (Parser::default(), Vec::new(), 0);
    let mut commands = Vec::new();
    for piece in std::iter::once(&bytes).chain(pieces) {
        input.extend_from_slice(piece);
        loop {
            match parser.parse(&input[taken..]) {
                Ok(None) => break,
                Err(error) => return (commands, Some(error)),
                Ok(Some(frame)) => {
                    assert!(
                        frame.len > 0 && frame.len <= input.len() - taken,
                        "a command of {} bytes",
                        frame.len
                    );
                    commands.push(frame.parts().map(<[u8]>::to_vec).collect());
                    taken += frame.len;
                }
            }
        }
    }
    (commands, None)
}

fn multibulk(words: &Command) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Arguments of `redis.exec`, `redis.watch` and `redis.interact`, on a real store: an outcome, and the same one again.
pub fn exec(bytes: &[u8]) -> bool {
    let Some((&which, args)) = bytes.split_first() else { return false };
    let tables = Product.tables();
    let args = [&Moment { unix_ms: 1 << 40, seed: 1 }.bytes()[..], args].concat();
    let run = || {
        let mut registry: Registry<Occ> = Registry::new();
        let exec = registry.register::<Exec>();
        let procedure = match which & 3 {
            1 => registry.register::<ReadVersions>(),
            2 => registry.register::<Interact>(),
            _ => exec,
        };
        let mut occ = Occ::new(Store::new(Schema::new(tables.clone())), Arc::new(Clock::counter()));
        occ.begin();
        occ.put(KEYSPACE, b"a", b"12").expect("nobody else is here");
        occ.commit().expect("nobody else is here");
        occ.begin();
        let mut reply = Vec::new();
        let ran = registry.run(procedure, &mut occ, &args, &mut reply);
        let ended = match ran {
            Ok(()) => occ.commit().map(|_| ()),
            Err(Abort::Conflict) => unreachable!("nobody else is here"),
            Err(abort) => occ.commit_rollback().and(Err(abort)),
        };
        (ended, reply, occ.store().digest())
    };
    let first = run();
    assert_eq!(first, run(), "a procedure is deterministic");
    first.0.is_ok()
}
