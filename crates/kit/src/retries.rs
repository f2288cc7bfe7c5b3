//! Requests that met conflicts, and come again in a later turn.
//!
//! A worker that tried one until it committed would do nothing else meanwhile: an audit over a hundred thousand rows that
//! somebody writes to may fail a hundred times, each of them as long as a thousand others' transactions. So a request gets
//! [`ATTEMPTS_IN_A_ROW`], and then waits for the next turn, in which the worker also hears its peers, its clients and its
//! operator.
//!
//! A request that waits here has no place in the order of transactions, and those that wait overtake each other. So whoever put one in is told
//! ([`Taken::PutOff`]), and hands in no later request of the same client before that one is answered.

use std::collections::VecDeque;

use highwater_core::{ProcedureId, planted};
use highwater_seam::{Request, Session, Taken, Token};

use crate::call::Call;

/// Attempts in a row before a request waits for the next turn.
pub const ATTEMPTS_IN_A_ROW: u32 = 4;
/// Requests that may wait for another attempt before new ones are refused.
const MOST_WAITING: usize = 256;
/// Requests that come again in one turn.
const MOST_IN_A_TURN: usize = 64;

/// One of them.
#[derive(Debug)]
pub struct Retry {
    pub token: Token,
    procedure: ProcedureId,
    args: Vec<u8>,
    session: Option<Session>,
    attempts: u32,
}

impl Retry {
    #[inline]
    pub fn call(&self) -> Call<'_> {
        Call { procedure: self.procedure, args: &self.args, session: self.session }
    }
}

/// What became of one that came again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    Done,
    /// It met conflicts in all of its attempts.
    Conflict,
    /// Nothing can run now: it stays where it is.
    Waits,
}

/// Those of one worker, the one that waited longest first.
#[derive(Debug, Default)]
pub struct Retries {
    waiting: VecDeque<Retry>,
    bytes: usize,
}

impl Retries {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether more of them would be too many; their arguments take `most_bytes` at most.
    #[inline]
    pub fn is_full(&self, most_bytes: usize) -> bool {
        self.waiting.len() >= MOST_WAITING || self.bytes >= most_bytes
    }

    /// A request had its attempts in a row.
    pub fn put_off(&mut self, request: &Request<'_>) -> Taken {
        self.bytes += request.args.len();
        self.waiting.push_back(Retry {
            token: request.token,
            procedure: request.procedure,
            args: request.args.to_vec(),
            session: request.session,
            attempts: ATTEMPTS_IN_A_ROW,
        });
        if planted!(PutOffIsPlaced) { Taken::Placed } else { Taken::PutOff }
    }

    /// Gives those that waited longest as many attempts again by `run`, up to the first that meets conflicts once more: however
    /// long an attempt takes, a turn has few that come to nothing. Who had `most` attempts waits no longer, and is returned.
    pub fn round(&mut self, most: u32, mut run: impl FnMut(&Retry) -> Again) -> Option<Token> {
        for _ in 0..self.waiting.len().min(MOST_IN_A_TURN) {
            let mut retry = self.waiting.pop_front()?;
            let again = run(&retry);
            if again == Again::Waits {
                self.waiting.push_front(retry);
                return None;
            }
            retry.attempts += ATTEMPTS_IN_A_ROW;
            if again == Again::Conflict && retry.attempts < most {
                self.waiting.push_back(retry);
                return None;
            }
            self.bytes -= retry.args.len();
            if again == Again::Conflict {
                return Some(retry.token);
            }
        }
        None
    }

    /// Nobody waits any longer: never committed, not even speculatively.
    pub fn give_up(&mut self) -> impl Iterator<Item = Token> {
        self.bytes = 0;
        self.waiting.drain(..).map(|retry| retry.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(count: u64) -> Retries {
        let mut retries = Retries::default();
        for number in 0..count {
            let taken = retries.put_off(&Request::new(Token(number), ProcedureId(0), b"args"));
            assert_eq!(taken, Taken::PutOff);
        }
        retries
    }

    #[test]
    fn a_turn_has_one_that_comes_to_nothing_at_most() {
        let mut retries = waiting(3);
        let mut ran = Vec::new();
        for _ in 0..4 {
            let gave_up = retries.round(100, |retry| {
                ran.push(retry.token.0);
                Again::Conflict
            });
            assert_eq!(gave_up, None);
        }
        assert_eq!(ran, [0, 1, 2, 0], "in turns, one a turn");
    }

    #[test]
    fn who_cannot_run_now_keeps_its_place() {
        let mut retries = waiting(2);
        assert_eq!(retries.round(1, |_| Again::Waits), None);
        let mut ran = Vec::new();
        retries.round(1, |retry| {
            ran.push(retry.token.0);
            Again::Done
        });
        assert_eq!(ran, [0, 1]);
    }

    #[test]
    fn those_that_succeed_make_room_for_the_next() {
        let mut retries = waiting(200);
        let mut ran = 0;
        while !retries.is_empty() {
            let before = ran;
            assert_eq!(
                retries.round(100, |_| {
                    ran += 1;
                    Again::Done
                }),
                None
            );
            assert!(ran - before <= MOST_IN_A_TURN);
        }
        assert_eq!(ran, 200);
        assert!(!retries.is_full(1), "their arguments are given back");
    }

    #[test]
    fn who_had_all_its_attempts_is_told_once() {
        let mut retries = waiting(2);
        let most = 3 * ATTEMPTS_IN_A_ROW;
        let told: Vec<Option<Token>> = (0..4).map(|_| retries.round(most, |_| Again::Conflict)).collect();
        assert_eq!(told, [None, None, Some(Token(0)), Some(Token(1))]);
        assert!(retries.is_empty());
        assert_eq!(retries.round(most, |_| unreachable!("nobody waits")), None);
    }

    #[test]
    fn many_of_them_or_their_arguments_are_too_many() {
        assert!(!waiting(MOST_WAITING as u64 - 1).is_full(usize::MAX));
        assert!(waiting(MOST_WAITING as u64).is_full(usize::MAX));
        assert!(waiting(2).is_full(8) && !waiting(2).is_full(9));
        let mut retries = waiting(5);
        assert_eq!(retries.give_up().count(), 5);
        assert!(retries.is_empty() && !retries.is_full(1));
    }
}
