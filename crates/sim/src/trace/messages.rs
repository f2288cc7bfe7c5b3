//! What a message says, in its engine's words.

use highwater_engines::EngineKind;
use highwater_engines::rolis::control::Control;
use highwater_engines::rolis::wire::Head;

use crate::network::Channel;

/// The head of a message, for people.
pub(super) fn words(engine: EngineKind, channel: Channel, head: &[u8]) -> String {
    match engine {
        EngineKind::Rolis | EngineKind::Strawman => rolis(channel, head),
        EngineKind::Silo | EngineKind::Backup => format!("a message of {} bytes", head.len()),
    }
}

fn rolis(channel: Channel, head: &[u8]) -> String {
    let known = match channel {
        Channel::Control => Control::decode(head).map(|message| format!("{message:?}")).ok(),
        Channel::Worker(_) => Head::decode(head).map(|head| format!("{head:?}")).ok(),
    };
    known.unwrap_or_else(|| "garbage".into())
}
