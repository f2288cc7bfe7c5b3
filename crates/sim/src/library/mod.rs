//! What simulated clients ask for: one procedure that runs a list of small operations, over tables made to be judged.
//!
//! Each operation's result tells exactly what it saw, so that a history of results can be judged from outside:
//!
//! - *lists* grow by unique values, in one record each (`Read`, `Append`);
//! - *rows* are lists again, one record an element, appended behind the last row and read by a scan: a phantom is a lost
//!   element (`Scan`, `AddRow`);
//! - *registers* are written blindly (`Get`, `Set`);
//! - *toggles* are inserted and deleted in turn, and count their turns in a list: presence and count must agree
//!   (`Toggle`, `Peek`), so that a tombstone lost or applied out of order shows; a scan may look at them alone (`Glance`);
//! - a *bank* moves money whose total never changes (`Transfer`, `Total`);
//! - *audit* rows must be there if acknowledged (`Audit`);
//! - *blobs* are registers of any size under keys of any size, whose bytes follow from what was written (`Fill`, `Weigh`;
//!   see [`blobs`]);
//! - *counters* are incremented, each by one client, under its session (`Count`): what they show at the end is exact.

pub mod blobs;
mod op;
mod steps;
mod tables;

use highwater_core::{Library, Registry, TableSpec, Transaction};
use highwater_kit::sessions;

pub use op::{Observed, Op, decode_reply, encode};
pub use steps::STEPS;
pub use tables::{ACCOUNTS, OPENING, SESSIONS, TABLES, TOGGLE_LISTS, audited, counted, total};

/// The tables and the procedures of a simulated run.
#[derive(Clone, Copy, Debug)]
pub struct SimLibrary;

impl Library for SimLibrary {
    fn tables(&self) -> Vec<TableSpec> {
        tables::specs()
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<steps::Steps>();
        sessions::register::<SESSIONS, T>(registry);
    }
}
