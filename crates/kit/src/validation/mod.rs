//! Transactions that replicas validate by timestamps, each by itself: what Meerkat's paper calls its storage layer and its coordinators, for
//! Meerkat, its strict form and what its paper compares it with. Who has to agree with whom is the engines'.
//!
//! | module | what |
//! |---|---|
//! | [`stamps`], [`quorum`], [`payload`] | timestamps; how many; what a transaction read and writes |
//! | [`tx`] | execution |
//! | [`marks`], [`mod@validate`] | readers and writers under way; whether a transaction can stand |
//! | [`record`], [`own`], [`outcomes`] | what a worker knows of transactions: anybody's, its own, decided ones |
//! | [`lanes`] | requests that are put off |
//! | [`message`], [`post`] | what workers say to each other, and how it leaves |

pub mod lanes;
pub mod marks;
pub mod message;
pub mod outcomes;
pub mod own;
pub mod payload;
#[cfg(feature = "planted")]
pub mod planted;
pub mod post;
pub mod quorum;
pub mod record;
pub mod stamps;
pub mod tx;
pub mod validate;

use std::sync::Arc;

use bytes::Bytes;
use highwater_core::codec::Reader;
use highwater_core::{NodeId, Schema};
use highwater_seam::engine::whole;
use highwater_seam::{Options, Service, Status};

use marks::Marks;
use message::{Head, Message, TAG};

/// Fresh marks, in a share of the memory.
pub fn marks_of(schema: &Schema, options: &Options) -> Arc<Marks> {
    let bytes = if options.memory_bytes == u64::MAX { 4 << 20 } else { options.memory_bytes / 256 };
    Arc::new(Marks::new(schema, bytes))
}

/// One of those that serve, of the latest epoch.
fn serving(statuses: &[Option<Status>]) -> Option<NodeId> {
    let serving = statuses.iter().flatten().filter(|status| status.serves());
    serving.max_by_key(|status| status.epoch).map(|status| status.node)
}

/// The node to ask, if more than half serve, and all that serve do so alike.
pub fn agreed(statuses: &[Option<Status>]) -> Option<NodeId> {
    let serving = serving(statuses)?;
    let epoch = statuses.iter().flatten().find(|status| status.node == serving)?.epoch;
    let agree = |status: &&Status| status.serves() && status.epoch == epoch;
    (statuses.iter().flatten().filter(agree).count() > statuses.len() / 2).then_some(serving)
}

/// A node that serves a cluster in which every replica does, and nobody complains; else what is missing.
pub fn healthy(statuses: &[Option<Status>]) -> Result<NodeId, String> {
    let (all, serving) = whole(statuses, serving(statuses))?;
    for status in all {
        if let Some(trouble) = &status.trouble {
            return Err(format!("replica {} ({}): {trouble}", status.node.0, status.role));
        }
        if status.service != Service::Serving {
            return Err(format!("replica {} is a {}, and does not serve", status.node.0, status.role));
        }
    }
    Ok(serving.node)
}

/// A frame between workers in words, for people: by its head.
pub fn words(head: &[u8]) -> String {
    let mut reader = Reader::new(head);
    let Ok(TAG) = reader.u8() else { return "a part of a copy".into() };
    let Ok((head, _)) = Head::decode(&mut reader) else { return "nonsense".into() };
    let mut rest = Bytes::copy_from_slice(reader.rest());
    let mut words = format!("{} heard {}", head.epoch, head.heard);
    while !rest.is_empty()
        && let Ok(Message { ts, about }) = Message::decode(&mut rest)
    {
        words += &format!(", {ts} {about:?}");
    }
    words
}
