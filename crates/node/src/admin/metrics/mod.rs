//! `/metrics`: what a node counts, in the text of OpenMetrics.
//!
//! Nothing is registered ahead: each time that somebody asks, a `Sheet` is written of what threads publish and of the node's
//! status, and handed to the encoder as a collector. Names and meanings are in docs/operations/metrics.md, which a test compares.

mod sheet;
mod write;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::http::response::{Answer, Status};
use super::protocol::StatusReport;
use crate::shared::Shared;
use sheet::Sheet;

/// In front of every name.
const PREFIX: &str = "highwater";
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page.
pub fn answer(report: &StatusReport, shared: &Shared) -> Answer {
    let mut sheet = Sheet::default();
    write::node(&mut sheet, report);
    write::memory(&mut sheet, report);
    write::workers(&mut sheet, shared);
    write::streams(&mut sheet, report);
    write::edges(&mut sheet, report, shared);
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(sheet));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to memory does not fail");
    Answer { status: Status::Ok, kind: KIND, extra: String::new(), content: text.into_bytes() }
}
