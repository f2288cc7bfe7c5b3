//! What peers send: the handshake, then frames, then what is in them.

use bytes::Bytes;
use highwater_core::log::EntryHeader;
use highwater_log_host::control::ControlMessage;
use highwater_log_host::wire::{Head, carried_entry};
use highwater_node::transport::Channel;
use highwater_node::transport::accounts;
use highwater_node::transport::frame::{Decoder, FrameError, prefix};
use highwater_node::transport::handshake::{HELLO_BYTES, Hello, WELCOME_BYTES, Welcome};
use highwater_seam::Frame;

use crate::cut::cut;

/// A connection's first bytes, from either side.
pub fn handshake(bytes: &[u8]) -> bool {
    let padded = |len: usize| {
        let mut padded = bytes[..bytes.len().min(len)].to_vec();
        padded.resize(len, 0);
        // The checksum is the last 4 bytes; made right, so that what it covers is read.
        let crc = crc32fast::hash(&padded[..len - 4]);
        padded[len - 4..].copy_from_slice(&crc.to_le_bytes());
        padded
    };
    let hello: [u8; HELLO_BYTES] = padded(HELLO_BYTES).try_into().expect("so long");
    let hello = Hello::decode(&hello);
    if let Ok(hello) = hello {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    let welcome: [u8; WELCOME_BYTES] = padded(WELCOME_BYTES).try_into().expect("so long");
    let welcome = Welcome::decode(&welcome);
    if let Ok(welcome) = &welcome {
        // The reason is text for people: what is no UTF-8 is replaced when it is read, and may be longer then.
        let again = Welcome::decode(&welcome.encode()).expect("what was read can be sent");
        let told = |welcome: &Welcome| (welcome.node, welcome.incarnation, welcome.refusal.is_some());
        assert_eq!(told(&again), told(welcome));
    }
    hello.is_ok() || welcome.is_ok()
}

/// Frames as they come from a socket, whatever they are.
pub fn frames(bytes: &[u8]) -> bool {
    let pieces = cut(bytes);
    let whole = decode(&[&pieces.concat()[..]]);
    assert_eq!(whole, decode(&pieces), "the frames depend on how the bytes were cut");
    whole.0.iter().filter(|(_, head, body)| message(head, body)).count() > 0
}

/// Frames that are sound, of whatever content: lengths of head and body, then both, again and again.
pub fn messages(bytes: &[u8]) -> bool {
    let (mut rest, mut wire, mut sent) = (bytes, Vec::new(), Vec::new());
    while let [head, body, behind @ ..] = rest {
        let (head, behind) = behind.split_at((*head as usize).min(behind.len()));
        let (body, behind) = behind.split_at((*body as usize * 4).min(behind.len()));
        let frame = Frame { head: Bytes::copy_from_slice(head), body: Bytes::copy_from_slice(body) };
        let to = Channel::of(head.len() as u16);
        wire.extend_from_slice(&prefix(to, &frame));
        wire.extend_from_slice(&[head, body].concat());
        sent.push((to, head.to_vec(), body.to_vec()));
        rest = behind;
    }
    assert_eq!(decode(&[&wire]), (sent.clone(), None), "sound frames arrive as they were sent");
    sent.iter().filter(|(_, head, body)| message(head, body)).count() > 0
}

type Decoded = (Vec<(Channel, Vec<u8>, Vec<u8>)>, Option<FrameError>);

fn decode(pieces: &[&[u8]]) -> Decoded {
    let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
    for mut piece in pieces.iter().copied() {
        while !piece.is_empty() {
            let filled = decoder.fill(|room| {
                let n = room.len().min(piece.len());
                for (to, from) in room.iter_mut().zip(piece) {
                    to.write(*from);
                }
                Ok::<_, ()>(n)
            });
            piece = &piece[filled.expect("nothing fails here")..];
            loop {
                match decoder.next_frame() {
                    Ok(Some((to, frame))) => frames.push((to, frame.head.to_vec(), frame.body.to_vec())),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error)),
                }
            }
        }
    }
    (frames, None)
}

/// What a worker or a controller reads out of a frame: what is read can be written, and is the same then.
fn message(head: &[u8], body: &[u8]) -> bool {
    let worker = Head::decode(head);
    if let Ok(decoded) = &worker {
        assert_eq!(Head::decode(&decoded.encode()).as_ref(), Ok(decoded));
        if let Head::Stream(message) = decoded
            && carried_entry(message).is_some()
            && let Ok(entry) = EntryHeader::open(body, true)
        {
            entry.claims().for_each(drop);
        }
    }
    let control = ControlMessage::read(head);
    if let Ok(decoded) = &control {
        assert_eq!(ControlMessage::read(&decoded.bytes()).as_ref(), Ok(decoded));
    }
    let told = accounts::decode(head);
    if let Ok(told) = &told {
        assert_eq!(accounts::decode(&accounts::encode(told)).as_ref(), Ok(told));
    }
    worker.is_ok() || control.is_ok() || told.is_ok()
}
