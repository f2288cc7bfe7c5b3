//! Mailboxes between threads, over all executions that the memory model allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p highwater-seam --release --test loom`
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use mailbox::Mailbox;

// The crate itself stands on a store, of which loom has little. This file does not, and is compiled here.
#[path = "../src/mailbox.rs"]
mod mailbox;

/// Nothing that is put in gets lost, and it comes out in order.
#[test]
fn every_message_is_taken_once_and_in_order() {
    loom::model(|| {
        let mailbox: Arc<Mailbox<u8>> = Arc::default();
        let sender = {
            let mailbox = mailbox.clone();
            thread::spawn(move || {
                mailbox.put(1);
                mailbox.put(2);
            })
        };
        let mut taken: Vec<u8> = mailbox.take().into();
        taken.extend(mailbox.take());
        sender.join().unwrap();
        // The sender has woken us.
        taken.extend(mailbox.take());
        assert_eq!(taken, [1, 2]);
        assert_eq!(mailbox.take(), []);
    });
}

/// A reader that is told by other means that a message was sent finds it, though nothing but the wake-up tells him.
#[test]
fn a_wake_up_finds_the_message() {
    loom::model(|| {
        let mailbox: Arc<Mailbox<u8>> = Arc::default();
        let woken = Arc::new(AtomicU64::new(0));
        let senders: Vec<_> = [1, 2]
            .map(|message| {
                let (mailbox, woken) = (mailbox.clone(), woken.clone());
                thread::spawn(move || {
                    mailbox.put(message);
                    // The host's wake-up: a write to an eventfd.
                    woken.fetch_or(1 << message, Ordering::Release);
                })
            })
            .into();
        let before = woken.load(Ordering::Acquire);
        let taken: Vec<u8> = mailbox.take().into();
        for message in [1, 2] {
            assert!(before & 1 << message == 0 || taken.contains(&message), "{message} was announced");
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}
