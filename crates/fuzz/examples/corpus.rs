//! Writes the corpus anew, with today's formats: `cargo run -p highwater-fuzz --example corpus`.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use highwater_consensus::{
    Beat, ElectionMessage, Members, Message, PendingChange, Promise, Tail, Voice, Voter,
};
use highwater_core::log::{Claim, ENTRY_HEADER_BYTES, EntryHeader, EntryKind, Key, TxWriter};
use highwater_core::{Ballot, EntryIndex, Epoch, Incarnation, Level, NodeId, StreamId, TableId, Timestamp};
use highwater_kit::copy::CopyMessage;
use highwater_log_host::control::ControlMessage;
use highwater_log_host::members::handover::{HandOverMessage, Word};
use highwater_log_host::wire::Head;
use highwater_node::Config;
use highwater_node::transport::Channel;
use highwater_node::transport::accounts::{Account, encode};
use highwater_node::transport::frame::prefix;
use highwater_redis::command::Opcode;
use highwater_seam::Frame;

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), bytes).unwrap();
}

fn body() -> Vec<u8> {
    let mut tx = TxWriter::new(Vec::new());
    for ts in 1..4 {
        tx.begin();
        tx.put(TableId(0), Key::U64(ts), b"integer");
        tx.put(TableId(1), Key::Bytes(b"bytes"), &[7; 40]);
        tx.put(TableId(2), Key::U64(ts << 40), b"");
        let old = tx.put(TableId(3), Key::Bytes(b"long key, longer than its short length"), b"old");
        tx.supersede(old);
        tx.delete(TableId(3), Key::Bytes(b"gone"));
        tx.commit(Timestamp(ts));
    }
    tx.take(Vec::new())
}

fn entry(kind: EntryKind, body: &[u8], claims: &[Claim]) -> Vec<u8> {
    let mut bytes = vec![0; ENTRY_HEADER_BYTES];
    bytes.extend_from_slice(body);
    let (first_ts, last_ts, closed_ts) = (Timestamp(1), Timestamp(3), Timestamp(9));
    let (stream, epoch, index) = (StreamId(0), Epoch(2), EntryIndex(5));
    let header = EntryHeader {
        kind,
        level: Level::FIRST,
        stream,
        epoch,
        index,
        first_ts,
        last_ts,
        closed_ts,
        count: 3,
        body_len: 0,
        claims: 0,
    };
    header.seal(&mut bytes, claims);
    bytes
}

fn heads() -> Vec<Vec<u8>> {
    let (ballot, index) = (Ballot { epoch: Epoch(3), node: NodeId(1) }, EntryIndex);
    let voter = |node| Voter { node: NodeId(node), incarnation: Incarnation(77 + u64::from(node)) };
    let members = Members::new(Epoch(3), vec![voter(0), voter(1), voter(2)]);
    let tail = Tail { accepted: ballot, first: index(1), last: index(9), decided: index(8) };
    let pending = PendingChange { members: members.clone(), decided: vec![Epoch(3), Epoch(0)] };
    let promise = Promise {
        ballot,
        members: members.clone(),
        pending: vec![pending],
        tails: vec![tail, tail],
        above_all: Timestamp(99),
        forgets: false,
    };
    let stream = [
        Message::Adopt { ballot, start: index(4), upto: index(6), index: index(5), decided: index(3) },
        Message::Accept { ballot, index: index(5), decided: index(4), known_by_all: index(2) },
        Message::Accepted { ballot, index: index(5), received: index(5), decided: index(4) },
        Message::Decide { ballot, decided: index(5), last: index(5), known_by_all: index(4), ask: true },
        Message::Pull { promised: ballot, tail, received: index(0) },
        Message::Fetched { ballot, index: index(5), paused: false },
    ];
    let controls = [
        ControlMessage::Election(ElectionMessage::PreVoteReply {
            ballot,
            voice: Voice { granted: true, forgets: false },
            promised: ballot,
        }),
        ControlMessage::Election(ElectionMessage::Promise(promise)),
        ControlMessage::Election(ElectionMessage::Heartbeat {
            ballot,
            beat: Beat::Vouches,
            members: members.clone(),
        }),
        ControlMessage::Hello { born: true },
        ControlMessage::Level(Level(2)),
        ControlMessage::HandOver(HandOverMessage { epoch: ballot.epoch, word: Word::ICould { held: 7 } }),
        ControlMessage::Genesis(members.clone()),
        ControlMessage::CopyGrant {
            copy: 7,
            epoch: Epoch(3),
            members,
            floor: Timestamp(5),
            starts: vec![index(3), index(9)],
        },
    ];
    let copies = [
        CopyMessage::CopyStart { copy: 7 },
        CopyMessage::CopyChunk { copy: 7, seq: 1, complete_at: Some(Timestamp(3)) },
    ];
    let heads =
        stream.into_iter().map(Head::Stream).chain(copies.map(Head::Copy)).map(|head| head.encode().to_vec());
    heads.chain(controls.iter().map(|control| control.bytes().to_vec())).collect()
}

fn main() {
    let mut state = 1u64;
    let mut bytes = |count: usize| -> Vec<u8> {
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(count).collect()
    };
    for n in 0..8 {
        write("lua", &format!("calls-{n}"), &bytes(40 << (n / 2)));
        write("scripts", &format!("text-{n}"), &bytes(24));
    }
    for (n, operation) in (0u8..).zip([0, 7, 11, 12, 16, 23, 26, 29, 33, 36, 41, 55]) {
        // The form, the text, 1 MiB, how many, which operation, in a loop or not.
        write("scripts", &format!("references-{n}"), &[15, n % 6, 4, 3 + n % 2, operation, n % 4]);
    }
    write(
        "resp",
        "commands",
        b"\x17*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n12\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n",
    );
    write("resp", "once", b"\x21HW.ONCE 7 1 INCR a\r\nMULTI\r\nHW.ONCE 7 2\r\nEXEC\r\nHW.SESSION NEW\r\n");
    write("resp", "inline", b"\x42SET a \"b\\x41 \\\" c\" 'd e'\r\nPING\r\n\r\n*0\r\nGET a\n");
    write("resp", "huge", b"\x01*1048576\r\n$16777216\r\nabc");
    write("resp", "wrong", b"\x99*2\r\n$3\r\nGET\r\n$-1\r\n*1099511627776\r\n");
    write("exec", "block", &[0, 2, 1, 1, b'a', 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 1, b'a', 1, 1, 1, b'a']);
    for opcode in Opcode::all() {
        let (head, spec) = ([0, 0, 0, 1, opcode.byte()], opcode.spec());
        write("exec", &format!("few-{}", spec.name), &[&head[..], &[2, 1, b'a', 2, b'1', b'5']].concat());
        let more = [5, 1, b'k', 1, b'1', 1, b'2', 1, b'x', 1, b'3'];
        write("exec", &format!("more-{}", spec.name), &[&head[..], &more].concat());
    }
    let opcode = |name: &str| Opcode::find(name.as_bytes()).expect("there is such a command").byte();
    let (session, outcome) = (opcode("hw.session"), opcode("hw.outcome"));
    let new = [4, 3, b'n', b'e', b'w', 1, b'9', 1, b'9', 1, b'9'];
    write("exec", "session-new", &[&[0, 0, 0, 1, session][..], &new].concat());
    write("exec", "outcome", &[0, 0, 0, 1, outcome, 2, 1, b'7', 1, b'1']);
    let collection = |name: &str, then: &str| {
        let add = [0, 2, 0, 2, opcode(name), 5, 1, b'k', 1, b'1', 1, b'2', 1, b'3', 1, b'4'];
        [&add[..], &[opcode(then), 3, 1, b'k', 1, b'0', 1, b'1']].concat()
    };
    for (name, then) in [
        ("rpush", "lrange"),
        ("zadd", "zrange"),
        ("hset", "hmget"),
        ("sadd", "srem"),
        ("zadd", "zremrangebyrank"),
    ] {
        write("exec", &format!("{name}-{then}"), &collection(name, then));
    }
    write("exec", "step", &[2, 0, 0, opcode("get"), 1, 1, b'a']);
    let get = [opcode("get"), 1, 1, b'a', 0, 8, b'$', b'2', b'\r', b'\n', b'1', b'2', b'\r', b'\n'];
    write("exec", "commit", &[&[2, 2, 1][..], &get].concat());
    write("exec", "watch", &[1, 2, 1, b'a', 1, b'b']);
    write("transactions", "two", &[0, 3, 5, 1, 2, 3, 4, 5, 2, 3, 4, 1, 2, 3, 4, 1, 7, 2, 9, 9]);
    let claims = [Claim { stream: StreamId(1), index: EntryIndex(3) }];
    let batch = entry(EntryKind::Batch, &body(), &claims);
    write("entry", "batch", &batch);
    write("entry", "empty", &entry(EntryKind::Batch, &[], &[]));
    let mut chunk = Vec::new();
    for (table, key) in
        [(0, &7u64.to_be_bytes()[..]), (1, b"key"), (2, &9u64.to_be_bytes()), (3, b"another key")]
    {
        for word in [5u64, 7 | 1 << 62] {
            chunk.extend_from_slice(&word.to_le_bytes());
            chunk.extend_from_slice(&[table, key.len() as u8]);
            chunk.extend_from_slice(key);
            // A tombstone has no value.
            let value: &[u8] = if word >> 62 == 0 { &[4, 1, 2, 3, 4] } else { &[0] };
            chunk.extend_from_slice(value);
        }
    }
    write("chunk", "records", &chunk);
    let told = [Account { number: 3, up: true, sent: 1 << 33 }, Account::default()];
    for (at, head) in heads().into_iter().chain([encode(&told).to_vec()]).enumerate() {
        let mut sized = vec![head.len() as u8, (batch.len() / 4) as u8];
        sized.extend_from_slice(&head);
        sized.extend_from_slice(&batch);
        write("peers", &format!("head-{at}"), &sized);
        let frame = Frame { head: head.clone().into(), body: batch.clone().into() };
        write(
            "frames",
            &format!("head-{at}"),
            &[&[at as u8], &prefix(Channel::Worker(at as u16), &frame)[..], &frame.head, &frame.body]
                .concat(),
        );
    }
    write("frames", "large", &[3, 4, 0, 0, 0, 0xff, 0xff, 0xff, 7, 1, 2, 3, 4, 5, 6]);
    write("handshake", "hello", b"HWTR\x03\x00");
    write("handshake", "welcome", b"HWTW\x00\x00\x01\x00");
    for (name, line) in [
        ("status", r#"{"do":"status"}"#),
        ("load", r#"{"do":"load","workload":{"name":"tpcc","options":[["warehouses","2"]]}}"#),
        (
            "run",
            r#"{"do":"run","workload":{"name":"ycsb","options":[]},"in_flight":9,"rate":1.5e3,"seed":1,"audit_every":0,"audit_base":0}"#,
        ),
        ("audit", r#"{"do":"audit_missing","generator":1,"acknowledged":[[0,99],[200,4294967295]]}"#),
        ("done", r#"{"is":"done"}"#),
        ("digest", r#"{"is":"digest","digest":"00ff","rows":3,"bytes":18446744073709551615}"#),
    ] {
        write("admin", name, line.as_bytes());
    }
    write("config", "flags", b"cluster.id=42\nlimits.log_retain_bytes=67108864\nthreads.pin=auto\n");
    write("config", "pins", b"threads.pin=[0,1]\ncluster.workers=2\n");
    write("config", "nonsense", b"timeouts.heartbeat_ms=99999999999999999999\nbatching.batch_delay_us=-1\n");
    write(
        "config",
        "file",
        b"node = 0\n[cluster]\nworkers = 3\n[limits]\nmax_attempts = 7\n[store]\nreserve_mb = 0\n",
    );
    write("config", "whole", Config::default().to_toml().as_bytes());
}
