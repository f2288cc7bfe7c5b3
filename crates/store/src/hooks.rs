//! Where a simulator may step into the store: the points and the choice, by name. What they are for:
//! [`highwater_core::hooks`].

use highwater_core::hooks::{Point, Site};

/// A transaction is about to touch a record or scan.
pub(crate) const EXECUTE: Point = Point::new("Execute");
/// A record of the write set is about to be locked; others may be.
pub(crate) const LOCK: Point = Point::new("Lock");
/// The write set is locked.
pub(crate) const ALL_LOCKED: Point = Point::new("Locked");
/// The timestamp is taken.
pub(crate) const STAMPED: Point = Point::new("Stamped");
/// The read set is validated.
pub(crate) const VALIDATED: Point = Point::new("Validated");
/// A record is about to be installed; others may be.
pub(crate) const INSTALL: Point = Point::new("Install");
/// A write from the log is about to be installed.
pub(crate) const APPLY: Point = Point::new("Apply");
/// A before-image is about to be restored.
pub(crate) const ROLL_BACK: Point = Point::new("RollBack");

/// A transaction without a conflict is aborted for one: any may meet one, and is tried again.
pub const CONFLICT: Site = Site::new("Conflict");

/// Every choice of the store.
pub const SITES: &[Site] = &[CONFLICT];
