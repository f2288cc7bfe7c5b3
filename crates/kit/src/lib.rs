//! The parts that engines are made of, whatever their protocol is: attempts at a request, sessions, copies of a state, checkpoints, what disks testify.
//!
//! | module | what |
//! |---|---|
//! | [`call`], [`attempt`], [`retries`] | one try of a request, and when it comes again |
//! | [`code`] | what an engine hosts, and how one is built of it |
//! | [`sessions`] | requests that run once, however often they are asked for |
//! | [`copy`] | a store copied from a running replica |
//! | [`checkpointing`] | the steps of a checkpoint |
//! | [`validation`] | transactions that replicas validate by timestamps: Meerkat, and what it is compared with |
//! | [`witness`] | whether a disk is the newest that its node had |
//!
//! It knows no engine, and engines know each other only through it.

#![cfg(not(loom))]

pub mod attempt;
pub mod call;
pub mod checkpointing;
pub mod code;
pub mod copy;
#[cfg(feature = "planted")]
pub mod planted;
pub mod retries;
pub mod sessions;
pub mod validation;
pub mod witness;
