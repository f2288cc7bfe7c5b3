//! A lead that is handed over: the leader finds somebody who can lead, lets everything that it executed be released, and has
//! that node stand for election. What follows is an ordinary election (Raft calls its message `TimeoutNow`): no promise is
//! skipped, and nothing is safe because of what stands here. It only saves time and clients' doubts: nobody waits for a
//! timeout, and no reply is left whose outcome is unknown.
//!
//! | stage | the leader | ends when |
//! |---|---|---|
//! | asking | serves on; asks who could lead | all have answered, or time is up |
//! | quieting | takes no requests; they wait | everything executed is released |
//! | standing | has told one to stand | it promises that one's ballot; or hears that it cannot, or nothing: then the next one; or that it serves: then it waits on |
//! | moving | follows; requests still wait, for a while | the new leader says that it serves: clients are referred to it |
//!
//! Each stage has an end in time. Who gives up before it follows resumes in its own epoch, as if nothing had been; the one that
//! was told to stand may still do so, and win: then replies may end as unknown, as in any election against a leader at work.
//!
//! This part knows the stages and who comes next. The controller does what follows from them (`controller/handover.rs`).

mod message;

use std::collections::BTreeSet;

use highwater_core::{Epoch, NodeId, StreamId};
use highwater_seam::{Handover, Nanos};
pub use message::{HandOverMessage, Reason, Word};

/// A stage may take so many election timeouts, and requests wait for a new leader as long.
pub const STAGE: u64 = 2;
/// A new leader may take so many to say that it serves. Who asked for the hand-over waits for its word; requests do not.
const MOVE: u64 = 20;
/// A node that is about to end looks for a successor for so many.
const RETIREMENT: u64 = 10;

/// A lead that is handed over, if one is; and what became of the last one.
#[derive(Default)]
pub struct HandOver {
    stage: Option<Stage>,
    last: Handover,
    /// The process is about to end: until when it looks for a successor.
    retires_by: Option<Nanos>,
    /// When a node that retires tries again.
    tries_at: Nanos,
    /// Nobody will take the lead from it.
    hopeless: bool,
    /// This node was told to stand: by whom, and in which epoch that one led.
    heir: Option<Heir>,
}

/// A node that was told to stand.
#[derive(Clone, Copy)]
struct Heir {
    of: NodeId,
    epoch: Epoch,
    /// Requests wait here until then. Whenever it leads, it says so.
    until: Nanos,
}

enum Stage {
    Asking {
        epoch: Epoch,
        silent: BTreeSet<NodeId>,
        able: Vec<(u64, NodeId)>,
        refusals: Vec<(NodeId, Reason)>,
        until: Nanos,
    },
    /// `able`: the best stands last.
    Quieting {
        epoch: Epoch,
        able: Vec<NodeId>,
        quiet: BTreeSet<StreamId>,
        since: Nanos,
        until: Nanos,
    },
    Standing {
        epoch: Epoch,
        target: NodeId,
        able: Vec<NodeId>,
        /// Who says already that it serves: a majority without this node elected it.
        serves: Option<NodeId>,
        since: Nanos,
        until: Nanos,
    },
    Moving {
        epoch: Epoch,
        target: NodeId,
        since: Nanos,
        holds_until: Nanos,
        until: Nanos,
    },
}

/// What the controller has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until then.
    Wait(Nanos),
    /// Have all workers let everything be released.
    Quiet,
    /// Have this node stand.
    Stand(NodeId),
    /// Take requests again; why.
    Resume(String),
    /// It never came so far that requests waited; why.
    GiveUp(String),
    /// Refer those who wait to whoever leads.
    Refer,
}

impl HandOver {
    /// Whether one is under way.
    pub fn is_under_way(&self) -> bool {
        self.stage.is_some()
    }

    /// Asks these nodes whether they could lead in the place of the leader of `epoch`.
    pub fn ask(&mut self, now: Nanos, epoch: Epoch, nodes: &[NodeId], timeout: Nanos) {
        let silent = nodes.iter().copied().collect();
        let until = now + STAGE * timeout;
        self.stage = Some(Stage::Asking { epoch, silent, able: Vec::new(), refusals: Vec::new(), until });
    }

    /// An answer of `from`.
    pub fn answered(&mut self, now: Nanos, from: NodeId, message: HandOverMessage) {
        let HandOverMessage { epoch, word } = message;
        match (&mut self.stage, word) {
            (Some(Stage::Asking { epoch: asked, silent, able, refusals, .. }), word) if *asked == epoch => {
                if !silent.remove(&from) {
                    return;
                }
                match word {
                    Word::ICould { held } => able.push((held, from)),
                    Word::ICannot(why) => refusals.push((from, why)),
                    Word::CouldYou | Word::Stand | Word::IServe => {}
                }
            }
            (Some(Stage::Standing { epoch: ended, target, serves: None, until, .. }), Word::ICannot(_))
                if *ended == epoch && *target == from =>
            {
                *until = now;
            }
            (Some(Stage::Standing { epoch: ended, serves, .. }), Word::IServe) if *ended == epoch => {
                *serves = Some(from);
            }
            (Some(Stage::Moving { epoch: ended, since, .. }), Word::IServe) if *ended == epoch => {
                let pause = now.saturating_sub(*since);
                self.end(Handover::Done { to: from, pause });
            }
            _ => {}
        }
    }

    /// This node's process has ended. If it was told to stand it does not any more, unless it said already that it serves; if it has won, its word is
    /// waited for only as long as requests wait.
    pub fn ended(&mut self, now: Nanos, node: NodeId) {
        match &mut self.stage {
            Some(Stage::Standing { target, serves: None, until, .. }) if *target == node => *until = now,
            Some(Stage::Moving { target, holds_until, until, .. }) if *target == node => {
                *until = *holds_until
            }
            _ => {}
        }
    }

    /// A stream is quiet.
    pub fn quiesced(&mut self, stream: StreamId) {
        if let Some(Stage::Quieting { quiet, .. }) = &mut self.stage {
            quiet.insert(stream);
        }
    }

    /// What comes next, of a leader with so many streams.
    pub fn step(&mut self, now: Nanos, streams: usize, timeout: Nanos) -> Option<Step> {
        Some(match self.stage.take()? {
            Stage::Asking { epoch, silent, mut able, refusals, until } => {
                if !silent.is_empty() && now < until {
                    self.stage = Some(Stage::Asking { epoch, silent, able, refusals, until });
                    return Some(Step::Wait(until));
                }
                if able.is_empty() {
                    let why = in_words(&silent, &refusals);
                    self.hopeless = silent.is_empty() && refusals.iter().all(|(_, why)| *why == Reason::Ends);
                    self.last = Handover::Failed(why.clone());
                    return Some(Step::GiveUp(why));
                }
                able.sort_unstable();
                let able = able.into_iter().map(|(_, node)| node).collect();
                let (quiet, until) = (BTreeSet::new(), now + STAGE * timeout);
                self.stage = Some(Stage::Quieting { epoch, able, quiet, since: now, until });
                Step::Quiet
            }
            Stage::Quieting { epoch, able, quiet, since, until } => {
                if quiet.len() == streams {
                    return Some(self.next(now, epoch, able, since, timeout));
                }
                if now >= until {
                    return Some(self.resume("what was executed is not released in time".into()));
                }
                self.stage = Some(Stage::Quieting { epoch, able, quiet, since, until });
                Step::Wait(until)
            }
            Stage::Standing { epoch, target, able, serves, since, until } => {
                // A node that says that it serves was elected: word of its ballot is on the way.
                let patience = if serves.is_some() { STAGE * timeout } else { 0 };
                if now >= until + patience {
                    return Some(self.next(now, epoch, able, since, timeout));
                }
                self.stage = Some(Stage::Standing { epoch, target, able, serves, since, until });
                Step::Wait(until + patience)
            }
            Stage::Moving { epoch, target, since, holds_until, until } => {
                if now >= until {
                    self.last = Handover::Failed(
                        "the lead went to another node, which does not say that it serves".into(),
                    );
                    return Some(Step::Refer);
                }
                self.stage = Some(Stage::Moving { epoch, target, since, holds_until, until });
                Step::Wait(if now < holds_until { holds_until } else { until })
            }
        })
    }

    /// The next one that could lead is told to stand.
    fn next(
        &mut self,
        now: Nanos,
        epoch: Epoch,
        mut able: Vec<NodeId>,
        since: Nanos,
        timeout: Nanos,
    ) -> Step {
        let Some(target) = able.pop() else {
            return self.resume("none of those who could lead stands".into());
        };
        self.stage = Some(Stage::Standing { epoch, target, able, serves: None, since, until: now + timeout });
        Step::Stand(target)
    }

    fn end(&mut self, outcome: Handover) {
        self.last = outcome;
        self.stage = None;
    }

    fn resume(&mut self, why: String) -> Step {
        self.last = Handover::Failed(why.clone());
        Step::Resume(why)
    }

    /// This node does not lead any more, or goes on in an epoch of its own. `elected`: because another one stands.
    pub fn deposed(&mut self, now: Nanos, elected: bool, timeout: Nanos) {
        match self.stage.take() {
            Some(Stage::Standing { serves: Some(to), since, .. }) if elected => {
                self.end(Handover::Done { to, pause: now.saturating_sub(since) });
            }
            Some(Stage::Standing { epoch, target, since, .. }) if elected => {
                let (holds_until, until) = (now + STAGE * timeout, now + MOVE * timeout);
                self.stage = Some(Stage::Moving { epoch, target, since, holds_until, until });
            }
            moving @ Some(Stage::Moving { .. }) if elected => self.stage = moving,
            Some(_) => self.end(Handover::Failed("this node lost the lead meanwhile".into())),
            None => {}
        }
        if elected {
            self.heir = None;
        }
    }

    /// Whether requests wait for the new leader.
    pub fn holds_requests(&self, now: Nanos) -> bool {
        match self.stage {
            Some(Stage::Standing { .. }) => true,
            Some(Stage::Moving { holds_until, .. }) => now < holds_until,
            _ => false,
        }
    }

    // ---- the node is about to end ----

    /// It stands no more, and looks for a successor if it leads.
    pub fn retire(&mut self, now: Nanos, timeout: Nanos) {
        self.retires_by.get_or_insert(now + RETIREMENT * timeout);
        self.tries_at = now;
    }

    /// Whether it is about to end.
    pub fn retires(&self) -> bool {
        self.retires_by.is_some()
    }

    /// Whether a leader that retires is to try (again) to hand over, and when it wants to be called else.
    pub fn tries(&mut self, now: Nanos, pause: Nanos) -> (bool, Option<Nanos>) {
        let Some(by) = self.retires_by.filter(|_| self.stage.is_none() && !self.hopeless) else {
            return (false, None);
        };
        if now >= by || now < self.tries_at {
            return (false, (now < by).then_some(self.tries_at.min(by)));
        }
        self.tries_at = now + pause;
        (true, None)
    }

    /// Nobody will ever take the lead.
    pub fn give_hope_up(&mut self, why: String) {
        self.hopeless = true;
        self.last = Handover::Failed(why);
    }

    /// What became of it; `leads`: this node leads.
    pub fn status(&self, now: Nanos, leads: bool) -> Handover {
        let looks = leads && !self.hopeless && self.retires_by.is_some_and(|by| now < by);
        if self.stage.is_some() || looks { Handover::UnderWay } else { self.last.clone() }
    }

    // ---- the other side ----

    /// This node stands, as the leader of `epoch` told it.
    pub fn inherit(&mut self, now: Nanos, of: NodeId, epoch: Epoch, timeout: Nanos) {
        self.heir = Some(Heir { of, epoch, until: now + STAGE * timeout });
    }

    /// It leads: to whom it is to be told, and of which epoch that was. If it had handed the lead over, it got it back.
    pub fn inherited(&mut self) -> Option<(NodeId, Epoch)> {
        if matches!(self.stage, Some(Stage::Moving { .. })) {
            self.end(Handover::Failed("the lead came back to this node".into()));
        }
        self.heir.take().map(|heir| (heir.of, heir.epoch))
    }

    /// Until when this node keeps requests waiting because it was told to stand; `None` if it was not, or time is up.
    pub fn inherits_until(&self, now: Nanos) -> Option<Nanos> {
        self.heir.filter(|heir| now < heir.until).map(|heir| heir.until)
    }
}

fn in_words(silent: &BTreeSet<NodeId>, refusals: &[(NodeId, Reason)]) -> String {
    let silent = silent.iter().map(|node| format!("{node} does not answer"));
    let refusals = refusals.iter().map(|(node, why)| format!("{node} {why}"));
    format!("nobody can take the lead: {}", silent.chain(refusals).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
