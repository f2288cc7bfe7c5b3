//! The bytes of every message, as they were recorded: builds of different age speak to each other.

use std::sync::Arc;

use highwater_consensus::{ElectionMessage, Members, Voter};
use highwater_core::evidence::{Start, Starts};
use highwater_core::wire::Kind;
use highwater_core::wire::testing::{check, described, golden};
use highwater_core::{Ballot, EntryIndex, Epoch, Incarnation, Level, NodeId, Timestamp};
use highwater_kit::copy::CopyMessage;
use highwater_kit::witness::DiskWord;
use highwater_seam::memory::Told;

use crate::control::ControlMessage;
use crate::members::handover::{HandOverMessage, Reason, Word};
use crate::probes::ProbeMessage;
use crate::wire::Head;

const BALLOT: Ballot = Ballot { epoch: Epoch(0x0102), node: NodeId(3) };

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/messages.md");

/// The heads of frames that are no stream's.
fn heads() -> Vec<Kind> {
    [CopyMessage::kinds(), ProbeMessage::kinds()].concat()
}

fn name(text: String) -> String {
    text.split([' ', '(', '{']).next().unwrap_or_default().to_string()
}

fn control() -> Vec<ControlMessage> {
    let voter = |node| Voter { node: NodeId(node), incarnation: Incarnation(0x1000 + u64::from(node)) };
    let members = Members::new(Epoch(0x0405), vec![voter(0), voter(2), voter(5)]);
    let start = |number| Start { number, had: number + 0x100 };
    let word = |starts| DiskWord { starts: Arc::new(starts), synced: 0x31 };
    let told = Told { number: 0x41, budget: 0x42, used: 0x43, transaction: 0x44, disk_low: true };
    let starts = vec![EntryIndex(0x24), EntryIndex(0x25)];
    vec![
        ControlMessage::Election(ElectionMessage::Stale { promised: BALLOT }),
        ControlMessage::Hello { born: true },
        ControlMessage::Genesis(members.clone()),
        ControlMessage::CopyRequest { copy: 0x21 },
        ControlMessage::CopyGrant {
            copy: 0x22,
            epoch: Epoch(0x23),
            members: members.clone(),
            floor: Timestamp(0x26),
            starts,
        },
        ControlMessage::CopyRefuse { copy: 0x27 },
        ControlMessage::CopyFinished { copy: 0x28 },
        ControlMessage::LearnerReady,
        ControlMessage::Memory(told),
        ControlMessage::HandOver(HandOverMessage { epoch: Epoch(0x51), word: Word::Stand }),
        ControlMessage::Membership(members),
        ControlMessage::Store { complete: true },
        ControlMessage::Level(Level(2)),
        ControlMessage::DiskInShort(word(Starts::new(2, vec![start(0x61)]))),
        ControlMessage::DiskJudged { start: 0x71, stale: true },
        ControlMessage::Disk(word(Starts::new(3, vec![start(0x62), start(0x63)]))),
    ]
}

#[test]
fn messages_of_controllers_are_as_they_were() {
    let bytes = control().into_iter().map(|message| (name(format!("{message:?}")), message.bytes().to_vec()));
    golden(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/control.txt"), &ControlMessage::kinds(), bytes);
}

#[test]
fn words_about_a_lead_are_as_they_were() {
    let words = [
        Word::CouldYou,
        Word::ICould { held: 0x11 },
        Word::ICannot(Reason::Ends),
        Word::ICannot(Reason::FollowsNot),
        Word::Stand,
        Word::IServe,
    ];
    let bytes = words.map(|word| {
        let mut bytes = Vec::new();
        HandOverMessage { epoch: Epoch(0x0102), word }.encode(&mut bytes);
        (name(format!("{word:?}")), bytes)
    });
    golden(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/handover.txt"), &HandOverMessage::kinds(), bytes);
}

#[test]
fn heads_of_frames_are_as_they_were() {
    let copies = [
        CopyMessage::CopyStart { copy: 0x11 },
        CopyMessage::CopyChunk { copy: 0x12, seq: 0x13, complete_at: None },
        CopyMessage::CopyChunk { copy: 0x12, seq: 0x14, complete_at: Some(Timestamp(0x15)) },
        CopyMessage::CopyAck { copy: 0x16, seq: 0x17 },
    ];
    let probes = [
        ProbeMessage::Probe { asked: 0x21 },
        ProbeMessage::Vouch { asked: 0x22, upto: Timestamp(0x23), log: EntryIndex(0x24) },
    ];
    let copies = copies.map(|message| (name(format!("{message:?}")), Head::Copy(message).encode().to_vec()));
    let probes = probes.map(|message| (name(format!("{message:?}")), Head::Probe(message).encode().to_vec()));
    let all = copies.into_iter().chain(probes);
    golden(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/heads.txt"), &heads(), all);
}

#[test]
fn every_message_reads_what_it_wrote_and_none_that_is_cut_off() {
    check::<ControlMessage>(2000);
    check::<HandOverMessage>(500);
    check::<CopyMessage>(500);
    check::<ProbeMessage>(500);
    let two = [ControlMessage::LearnerReady.bytes(), ControlMessage::LearnerReady.bytes()].concat();
    assert!(ControlMessage::read(&two).is_err(), "a message is alone");
}

#[test]
fn the_document_describes_them() {
    described(DOCUMENT, "control message", &ControlMessage::kinds());
    described(DOCUMENT, "about a lead", &[HandOverMessage::kinds(), Reason::kinds()].concat());
    described(DOCUMENT, "told of memory", &Told::kinds());
    described(DOCUMENT, "heads of frames", &heads());
}
