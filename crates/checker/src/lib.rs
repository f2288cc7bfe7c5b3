//! Judges recorded histories of transactions: which isolation anomalies they prove, explained in sentences.
//!
//! A [`History`] comes from JSON lines (`docs/history-format.md` has the format) or is built in memory by a simulator. [`check`]
//! infers what it can of the order of versions, draws the dependencies between transactions, and reports each cycle that
//! the asked level forbids, and every broken read. It knows nothing of Highwater: any database's histories will do.
//!
//! ```
//! use highwater_checker::{History, Options, check};
//!
//! let lines = r#"{"p":0,"t0":10,"t1":20,"st":"ok","ops":[["a","x",1]]}
//! {"p":1,"t0":30,"t1":40,"st":"ok","ops":[["r","x",[]]]}"#;
//! let history = History::parse("example", lines.as_bytes()).unwrap();
//! let verdict = check(&history, &Options::strict());
//! assert!(!verdict.passed(), "a stale read");
//! assert!(check(&history, &Options::serializable()).passed());
//! ```

mod check;
mod explain;
mod findings;
pub mod generate;
mod graph;
pub mod history;
mod infer;
mod verdict;
mod words;

pub use check::{check, check_with};
pub use history::{History, Key, Keys, Op, Place, Status, Txn, Writer};
pub use verdict::{Anomaly, AnomalyKind, Counts, Level, Options, Sessions, Verdict};
