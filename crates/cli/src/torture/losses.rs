//! What crashes of all replicas took, with `async`: which acknowledged transactions, and whether that is what was promised.
//!
//! # The promise
//!
//! Acknowledged transactions of one window may be lost, and nothing else: what is left is a state that there was. So what is lost is the
//! end of the order before the crash.
//!
//! # How it is held against the history
//!
//! The history falls into *lives* of the cluster, one before each crash and one after the last: whoever began before all replicas
//! were dead was answered by the life before. What became of what a life wrote is told by what later ones showed ([`fates`](super::fates)).
//!
//! | what | is asked |
//! |---|---|
//! | all or nothing | of no lost transaction a part is left |
//! | a suffix | no transaction that is left, and wrote, began after a lost one was acknowledged |
//! | the window | of the lost ones, the last was not begun later than a window after the first was acknowledged |
//! | each life | its history, what was lost at its end still in it, is strictly serializable |
//! | what is left | so is the whole history, for which lost transactions are of unknown outcome |
//!
//! A read is lost if it saw what is lost. The window is said of nodes' disks, and what clients know of it is this: all that a lost
//! transaction needed was accepted by a majority before it was acknowledged, and after it began. Two majorities share a node, and something
//! of both transactions was not on its disk at the crash. So that disk was behind when the first was acknowledged, and a window
//! later the node accepted nothing without it any more.

use std::time::Duration;

use highwater_checker::{History, Op, Status, Txn};
use serde::Serialize;

use super::fates::{Fates, written};

/// What may be lost.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    /// When all replicas were dead, in order, on the clock of the history.
    pub crashes: Vec<u64>,
    /// How much a crash may take.
    pub window: Duration,
}

/// What a crash took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Loss {
    /// Acknowledged transactions.
    pub transactions: usize,
    /// Of these, such as wrote something.
    pub writes: usize,
    /// From the acknowledgement of the first to the begin of the last, in milliseconds; 0 if they overlap.
    pub span_ms: f64,
    /// How long before the crash the first was acknowledged, in milliseconds.
    pub before_ms: f64,
}

/// What all crashes took.
#[derive(Debug, Default)]
pub struct Losses {
    /// One per crash, in order.
    pub each: Vec<Loss>,
    /// What must not be, in words.
    pub trouble: Vec<String>,
    fates: Fates,
}

impl Losses {
    /// Finds what crashes took.
    pub fn find(history: &History, allowance: &Allowance) -> Losses {
        let mut losses = Losses { fates: Fates::of(history, &allowance.crashes), ..Losses::default() };
        for (crash, at) in allowance.crashes.iter().enumerate() {
            let (loss, trouble) = losses.judge(history, (crash, *at), allowance.window);
            losses.each.push(loss);
            losses.trouble.extend(trouble);
        }
        losses
    }

    fn judge(&self, history: &History, (crash, at): (usize, u64), window: Duration) -> (Loss, Vec<String>) {
        let fates = &self.fates;
        let mut trouble = Vec::new();
        for (_, txn) in fates.of_life(history, crash).filter(|(id, _)| fates.is_torn(history, *id)) {
            trouble.push(format!("crash {crash} took a part of a transaction: {}", words(txn, at)));
        }
        let acknowledged = |(id, txn): &(usize, &Txn)| fates.is_lost(*id) && txn.status == Status::Ok;
        let lost: Vec<&Txn> =
            fates.of_life(history, crash).filter(acknowledged).map(|(_, txn)| txn).collect();
        // A follower shows its snapshot for as long as it lives, whatever its disk does.
        let current = || lost.iter().copied().filter(|txn| !txn.snap);
        let Some((first, last)) = current().min_by_key(|txn| txn.t1).zip(current().max_by_key(|txn| txn.t0))
        else {
            return (Loss { transactions: lost.len(), ..Loss::default() }, trouble);
        };
        let told = first.t1.expect("an acknowledged transaction has ended");
        let span = last.t0.saturating_sub(told);
        if u128::from(span) > window.as_nanos() {
            let (window, first, last) = (window.as_millis(), words(first, at), words(last, at));
            trouble
                .push(format!("crash {crash} took more than a window of {window} ms: {first}; and {last}"));
        }
        let later = |(id, txn): &(usize, &Txn)| fates.is_left(history, *id) && !txn.snap && txn.t0 > told;
        if let Some((_, later)) = fates.of_life(history, crash).filter(later).max_by_key(|(_, txn)| txn.t0) {
            let (first, later) = (words(first, at), words(later, at));
            trouble.push(format!("crash {crash} left a hole: lost is {first}; and left {later}"));
        }
        let loss = Loss {
            transactions: lost.len(),
            writes: lost.iter().filter(|txn| written(txn).next().is_some()).count(),
            span_ms: span as f64 / 1e6,
            before_ms: at.saturating_sub(told) as f64 / 1e6,
        };
        (loss, trouble)
    }

    /// The histories to be checked, and what each is.
    pub fn histories(&self, history: &History) -> Vec<(String, History)> {
        let took = |crash: &usize| self.each[*crash].transactions > 0;
        let until = (0..self.each.len()).filter(took);
        let until = until.map(|crash| (format!("up to crash {crash}: "), self.up_to(history, crash)));
        until.chain([(String::new(), self.up_to(history, self.each.len()))]).collect()
    }

    /// All lives up to this one; what earlier crashes took is of unknown outcome.
    fn up_to(&self, history: &History, last: usize) -> History {
        let mut cut = History { keys: history.keys.clone(), txns: Vec::new() };
        // Whose outcome is unknown goes on as another process: nothing of a client's order follows from a lost transaction.
        let mut nobody = history.txns.iter().map(|txn| txn.process).max().unwrap_or(0);
        for life in 0..=last {
            for (id, txn) in self.fates.of_life(history, life) {
                let mut txn = txn.clone();
                if life < last && self.fates.is_lost(id) && txn.status == Status::Ok {
                    nobody += 1;
                    (txn.process, txn.status, txn.t1) = (nobody, Status::Info, None);
                    txn.ops.iter_mut().for_each(forget);
                }
                cut.push(txn);
            }
        }
        cut
    }
}

fn forget(op: &mut Op) {
    match op {
        Op::ReadList { value, .. } => *value = None,
        Op::ReadReg { value, .. } => *value = None,
        Op::Append { .. } | Op::Write { .. } => {}
    }
}

/// A transaction, by its client and its times before the crash.
fn words(txn: &Txn, crash: u64) -> String {
    let before = |at: u64| (crash as f64 - at as f64) / 1e6;
    let told =
        txn.t1.map_or("never answered".into(), |at| format!("answered {:.3} ms before it", before(at)));
    format!(
        "a transaction of client {}, begun {:.3} ms before the crash, {told}",
        txn.process,
        before(txn.t0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_checker::Level;

    use crate::torture::judge::judge;

    const MS: u64 = 1_000_000;

    /// An acknowledged transaction of a client, from and to these milliseconds.
    fn ok(client: u64, (from, to): (u64, u64), ops: &str) -> String {
        let (t0, t1) = (from * MS, to * MS);
        format!(r#"{{"p":{client},"t0":{t0},"t1":{t1},"st":"ok","ops":[{ops}]}}"#)
    }

    /// What a crash at 500 ms took that may take a window of 100 ms; what is wrong with it, and with what is left.
    fn losses(lines: &[String]) -> (Loss, Vec<String>, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("client.jsonl"), lines.join("\n")).unwrap();
        let allowance = Allowance { crashes: vec![500 * MS], window: Duration::from_millis(100) };
        let judged = judge(directory.path(), Level::Strict, &allowance).unwrap();
        (judged.losses[0], judged.trouble, judged.anomalies)
    }

    #[test]
    fn the_end_of_a_life_may_be_lost() {
        let (loss, trouble, anomalies) = losses(&[
            ok(0, (390, 400), r#"["a","l",1]"#),
            ok(0, (410, 420), r#"["a","l",2],["a","m",3]"#),
            ok(1, (430, 440), r#"["r","l",[1,2]]"#),
            ok(2, (450, 470), r#"["a","l",4]"#),
            // The next life goes on from what is left.
            ok(3, (600, 610), r#"["a","l",5]"#),
            ok(4, (700, 710), r#"["r","l",[1,5]],["r","m",[]]"#),
        ]);
        assert_eq!((trouble, anomalies), (Vec::new(), Vec::new()));
        assert_eq!(loss, Loss { transactions: 3, writes: 2, span_ms: 30.0, before_ms: 80.0 });
    }

    #[test]
    fn nothing_is_lost_where_nothing_crashed() {
        let lines = [ok(0, (10, 20), r#"["a","l",1]"#), ok(1, (600, 610), r#"["r","l",[]]"#)];
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("client.jsonl"), lines.join("\n")).unwrap();
        let judged = judge(directory.path(), Level::Strict, &Allowance::default()).unwrap();
        assert!(!judged.anomalies.is_empty());
        // Nor in the last life.
        let (loss, _, anomalies) =
            losses(&[ok(0, (510, 520), r#"["a","l",1]"#), ok(1, (600, 610), r#"["r","l",[]]"#)]);
        assert!(loss.transactions == 0 && !anomalies.is_empty());
    }

    #[test]
    fn more_than_a_window_is_too_much() {
        let lost = |from| {
            losses(&[
                ok(0, (300, 310), r#"["a","l",1]"#),
                ok(1, (from, 430), r#"["a","l",2]"#),
                ok(2, (600, 610), r#"["r","l",[]]"#),
            ])
        };
        let (loss, trouble, anomalies) = lost(411);
        assert_eq!((loss.span_ms, anomalies.len()), (101.0, 0));
        assert!(trouble.len() == 1 && trouble[0].contains("more than a window of 100 ms"), "{trouble:?}");
        assert_eq!(lost(410).1, Vec::<String>::new());
    }

    #[test]
    fn a_hole_is_no_suffix() {
        let (_, trouble, _) = losses(&[
            ok(0, (410, 420), r#"["a","l",1]"#),
            ok(1, (430, 440), r#"["a","m",2]"#),
            ok(2, (600, 610), r#"["r","l",[]],["r","m",[2]]"#),
        ]);
        assert!(trouble.len() == 1 && trouble[0].contains("left a hole"), "{trouble:?}");
    }

    #[test]
    fn a_transaction_is_lost_as_a_whole() {
        let (_, trouble, anomalies) = losses(&[
            ok(0, (410, 420), r#"["a","l",1],["a","m",2]"#),
            ok(2, (600, 610), r#"["r","l",[]],["r","m",[2]]"#),
        ]);
        assert!(trouble[0].contains("took a part of a transaction"), "{trouble:?}");
        assert!(!anomalies.is_empty());
    }

    #[test]
    fn what_is_left_saw_nothing_that_is_lost() {
        let (_, _, anomalies) = losses(&[
            ok(0, (410, 440), r#"["a","l",1]"#),
            ok(1, (420, 440), r#"["r","l",[1]],["a","m",2]"#),
            ok(2, (600, 610), r#"["r","l",[]],["r","m",[2]]"#),
        ]);
        assert!(!anomalies.is_empty());
    }

    #[test]
    fn a_life_that_was_shown_is_not_lost_later() {
        let lines = [
            ok(0, (410, 420), r#"["a","l",1]"#),
            ok(1, (600, 610), r#"["r","l",[1]]"#),
            ok(2, (1100, 1110), r#"["r","l",[]]"#),
        ];
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("client.jsonl"), lines.join("\n")).unwrap();
        let allowance = Allowance { crashes: vec![500 * MS, 1000 * MS], window: Duration::from_millis(100) };
        assert!(!judge(directory.path(), Level::Strict, &allowance).unwrap().anomalies.is_empty());
    }

    #[test]
    fn transfers_that_are_lost_are_known_by_what_replaced_them() {
        let opening = ok(0, (0, 10), r#"["w","a",1],["w","b",2]"#);
        let (loss, trouble, anomalies) = losses(&[
            opening.clone(),
            ok(0, (100, 110), r#"["r","a",1],["r","b",2],["w","a",3],["w","b",4]"#),
            ok(0, (410, 420), r#"["r","a",3],["r","b",4],["w","a",5],["w","b",6]"#),
            ok(1, (430, 440), r#"["r","a",5],["r","b",6]"#),
            ok(2, (600, 610), r#"["r","a",3],["r","b",4],["w","a",7],["w","b",8]"#),
            ok(3, (700, 710), r#"["r","a",7],["r","b",8]"#),
        ]);
        assert_eq!((trouble, anomalies), (Vec::new(), Vec::new()));
        assert_eq!((loss.transactions, loss.writes), (2, 1));
        // Of a transfer whose outcome is unknown nobody says what it replaced.
        let unknown = r#"{"p":9,"t0":415000000,"st":"info","ops":[["r","a",null],["r","b",null],["w","a",9],["w","b",10]]}"#;
        let (loss, trouble, anomalies) = losses(&[
            opening,
            ok(0, (100, 110), r#"["r","a",1],["r","b",2],["w","a",3],["w","b",4]"#),
            unknown.into(),
            ok(3, (700, 710), r#"["r","a",9],["r","b",10]"#),
        ]);
        assert_eq!((trouble, anomalies), (Vec::new(), Vec::new()));
        assert_eq!(loss.transactions, 0);
    }
}
