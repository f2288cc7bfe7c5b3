//! Every kind of anomaly that the checker can report: a history as short as can be, and beside it one that differs in a
//! detail and is fine.

mod common;

use common::{at, fine};
use highwater_checker::AnomalyKind::{self, *};
use highwater_checker::Level::{self, Serializable, Session, Strict};

const ALL: [AnomalyKind; 21] = [
    BrokenHistory,
    DuplicateWrite,
    GarbageRead,
    DuplicateElements,
    IncompatibleOrder,
    Internal,
    G1a,
    G1b,
    LostUpdate,
    G0,
    G0Process,
    G0Realtime,
    G1c,
    G1cProcess,
    G1cRealtime,
    GSingle,
    GSingleProcess,
    GSingleRealtime,
    G2,
    G2Process,
    G2Realtime,
];

/// The lowest level that forbids it, a history with it, and one without. A new kind does not compile without them.
fn story(kind: AnomalyKind) -> (Level, &'static str, &'static str) {
    match kind {
        BrokenHistory => (Serializable, "0 0-10 x+1\n 0 5-15 x+2", "0 0-10 x+1\n 0 10-15 x+2"),
        DuplicateWrite => (Serializable, "0 0-10 x+1\n 1 0-10 x+1", "0 0-10 x+1\n 1 0-10 y+1"),
        GarbageRead => (Serializable, "0 0-10 x+1\n 1 20-30 x=[1 7]", "0 0-10 x+1 x+7\n 1 20-30 x=[1 7]"),
        DuplicateElements => (Serializable, "0 0-10 x+1\n 1 20-30 x=[1 1]", "0 0-10 x+1\n 1 20-30 x=[1]"),
        IncompatibleOrder => (
            Serializable,
            "0 0-10 x+1\n 1 0-10 x+2\n 2 20-30 x=[1 2]\n 3 20-30 x=[2 1]",
            "0 0-10 x+1\n 1 0-10 x+2\n 2 20-30 x=[2 1]\n 3 20-30 x=[2 1]",
        ),
        Internal => (Serializable, "0 0-10 x+1 x=[]", "0 0-10 x=[] x+1"),
        G1a => (Serializable, "0 0-10 fail x+1\n 1 20-30 x=[1]", "0 0-? x+1\n 1 20-30 x=[1]"),
        G1b => (
            Serializable,
            "0 0-10 x+1 x+2\n 1 0-10 x=[1]\n 2 20-30 x=[1 2]",
            "0 0-10 x+1 x+2\n 1 0-10 x=[1 2]\n 2 20-30 x=[1 2]",
        ),
        LostUpdate => {
            (Serializable, "0 0-10 x=[] x+1\n 1 0-10 x=[] x+2", "0 0-10 x=[] x+1\n 1 0-10 x=[1] x+2")
        }
        G0 => (
            Serializable,
            "0 0-10 x+1 y+1\n 1 0-10 x+2 y+2\n 2 20-30 x=[1 2]\n 3 20-30 y=[2 1]",
            "0 0-10 x+1 y+1\n 1 0-10 x+2 y+2\n 2 20-30 x=[1 2]\n 3 20-30 y=[1 2]",
        ),
        G0Process => (
            Session,
            "0 0-10 x+1\n 0 10-20 x+2\n 2 40-50 x=[2 1]",
            "0 0-10 x+1\n 1 10-20 x+2\n 2 40-50 x=[2 1]",
        ),
        G0Realtime => (
            Strict,
            "0 0-10 x+1\n 1 11-20 x+2\n 2 40-50 x=[2 1]",
            "0 0-12 x+1\n 1 11-20 x+2\n 2 40-50 x=[2 1]",
        ),
        G1c => (Serializable, "0 0-10 x+1 y=[1]\n 1 0-10 y+1 x=[1]", "0 0-10 x+1 y=[]\n 1 0-10 y+1 x=[1]"),
        G1cProcess => (Session, "0 0-10 x=[1]\n 0 10-20 x+1", "0 0-10 x=[1]\n 1 10-20 x+1"),
        G1cRealtime => (Strict, "0 0-10 x=[1]\n 1 20-30 x+1", "0 0-20 x=[1]\n 1 20-30 x+1"),
        GSingle => {
            (Serializable, "0 0-10 x+1 y+1\n 1 0-10 x=[] y=[1]", "0 0-10 x+1 y+1\n 1 0-10 x=[1] y=[1]")
        }
        GSingleProcess => (Session, "0 0-10 x+1\n 0 10-20 x=[]", "0 0-10 x+1\n 1 10-20 x=[]"),
        GSingleRealtime => (Strict, "0 0-10 x+1\n 1 20-30 x=[]", "0 0-20 x+1\n 1 20-30 x=[]"),
        G2 => (Serializable, "0 0-10 x=[] y+1\n 1 0-10 y=[] x+1", "0 0-10 x=[] y+1\n 1 0-10 y=[1] x+1"),
        // Client 0 writes y and then misses x, which client 1 wrote while it missed y.
        G2Process => (
            Session,
            "0 0-10 y+1\n 0 10-20 x=[]\n 1 0-40 y=[] x+1",
            "0 0-10 y+1\n 2 10-20 x=[]\n 1 0-40 y=[] x+1",
        ),
        G2Realtime => (
            Strict,
            "0 0-10 y+1\n 2 20-30 x=[]\n 1 0-40 y=[] x+1",
            "0 0-10 y+1\n 2 20-30 x=[]\n 1 0-40 y=[1] x+1",
        ),
    }
}

#[test]
fn every_kind_is_told_by_hand_beside_a_history_that_is_fine() {
    assert!(ALL.windows(2).all(|pair| pair[0] < pair[1]), "each once");
    assert_eq!(ALL.len(), ALL[ALL.len() - 1] as usize + 1, "none left out");
    for kind in ALL {
        let (level, with, without) = story(kind);
        let verdict = at(level, with);
        assert!(verdict.has(kind), "{kind} is not found in\n{with}\nbut {:?}", verdict.found);
        for lower in [Serializable, Session].into_iter().filter(|lower| *lower < level) {
            assert!(at(lower, with).passed(), "{kind} needs level {}:\n{with}", level.name());
        }
        let beside: Vec<_> = verdict.found.keys().filter(|other| **other != kind).collect();
        // Who goes on from a version that another one replaced has also missed that write.
        let expected: &[AnomalyKind] = if kind == LostUpdate { &[G2] } else { &[] };
        assert_eq!(beside, expected.iter().collect::<Vec<_>>(), "{kind}:\n{with}");
        fine(without);
    }
}

#[test]
fn each_kind_has_a_name_and_a_meaning_of_its_own() {
    let names: std::collections::BTreeSet<_> = ALL.iter().map(|kind| kind.name()).collect();
    let meanings: std::collections::BTreeSet<_> = ALL.iter().map(|kind| kind.meaning()).collect();
    assert_eq!((names.len(), meanings.len()), (ALL.len(), ALL.len()));
}
