//! The facts of its marks that a replica of Rolis tells an observer of all nodes. Told by `hooks`, compared by `rules`, with what the log host tells.

use highwater_core::{Epoch, StreamId, Timestamp};

/// What happened on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkFact {
    /// The mark of an epoch that has not ended here.
    Mark(Epoch, Timestamp),
    /// The final mark of an epoch that has ended here.
    Final(Epoch, Timestamp),
    /// The marks known here are forgotten: a copied state takes their place.
    Restarted,
    /// The result of the transaction at this timestamp leaves a leader.
    Released(Timestamp),
    /// Everything of a stream's entry up to this timestamp, of this epoch, is installed from the log.
    Applied(Epoch, StreamId, Timestamp),
}
