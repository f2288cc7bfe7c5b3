//! Users of Redis whose rights come and go, and the judgement: what a change took away, and its client was told so, nobody uses afterwards.
//!
//! A user `ruled:N` writes to keys `acl:ruled:N:..`, and nobody else does, so a request tells whose it is. One client changes what it may, by `ACL
//! SETUSER` and `ACL DELUSER`; there may be earlier changes of that client under way of which it never heard.
//!
//! Judged is what the promises say (docs/guarantees.md, *Users*). Once a change that takes the right to write is released:
//!
//! - the node that ran it hands none of that user's writes to its engine, over whatever connection they come, and whenever they came;
//! - nor does a worker of any node that begins to serve after that.
//!
//! That ends as soon as an engine takes a change that lets the user write. While one of these is under way nothing is judged: nobody knows which
//! of them is the later one.

use std::collections::{BTreeMap, BTreeSet};

use highwater_core::{NodeId, Timestamp};
use highwater_redis::acl::change;
use highwater_seam::Nanos;

/// A life of a node.
pub type Process = (NodeId, u64);

/// In front of a user's number, in its name and in the names of its keys.
pub const NAME: &str = "ruled:";
/// The rule that lets a user write; no change that takes the right has it.
pub const ALLOWED: &str = "+@all";

/// A request that an engine has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A change of what a user may: whether it lets it write.
    Change(u8, bool),
    /// A write of a user.
    Write(u8),
}

/// The user that a request is about; `changes`: it is one of the procedure that changes users.
pub fn about(args: &[u8], changes: bool) -> Option<About> {
    if changes {
        change::asked(args)?;
        return Some(About::Change(number(args)?, find(args, ALLOWED.as_bytes()).is_some()));
    }
    number(args).map(About::Write)
}

/// The user that is named in these bytes.
fn number(bytes: &[u8]) -> Option<u8> {
    let at = find(bytes, NAME.as_bytes())? + NAME.len();
    bytes.get(at).filter(|digit| digit.is_ascii_digit()).map(|digit| digit - b'0')
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// The rights of all users, as far as they are known.
#[derive(Default)]
pub struct Rules(BTreeMap<u8, Rule>);

#[derive(Default)]
struct Rule {
    /// The change that was taken last.
    newest: u64,
    /// Changes that let the user write and have not ended, and who runs them.
    open: BTreeMap<u64, Process>,
    /// The last one of those that have, in the one order.
    allowed: Timestamp,
    /// The right to write is gone: since when, and who has said so.
    gone: Option<(Nanos, BTreeSet<Process>)>,
}

impl Rules {
    /// An engine takes a change.
    pub fn taken(&mut self, user: u8, allows: bool, (token, by): (u64, Process)) {
        let rule = self.0.entry(user).or_default();
        rule.newest = token;
        if allows {
            rule.open.insert(token, by);
            rule.gone = None;
        }
    }

    /// A change has ended, `at` its place in the one order if it was made, and its client is told so or is not; whether writes are judged from here on.
    ///
    /// Of two that were under way together, the one that was taken later may be the earlier one in that order.
    pub fn released(
        &mut self,
        (token, by): (u64, Process),
        at: Option<Timestamp>,
        told: bool,
        now: Nanos,
    ) -> bool {
        let mut gone = false;
        for rule in self.0.values_mut() {
            if rule.open.remove(&token).is_some() {
                rule.allowed = rule.allowed.max(at.unwrap_or_default());
                continue;
            }
            let is_last = rule.newest == token && rule.open.is_empty();
            if is_last && told && at.is_some_and(|at| at > rule.allowed) {
                rule.gone = Some((now, BTreeSet::from([by])));
                gone = true;
            }
        }
        gone
    }

    /// A process has ended: what it was running is over before anybody else serves.
    pub fn ended(&mut self, process: Process) {
        self.0.values_mut().for_each(|rule| rule.open.retain(|_, by| *by != process));
    }

    /// A worker that serves since then has its engine take a write of this user.
    ///
    /// # Errors
    /// The user may not write any more.
    pub fn wrote(&self, user: u8, by: Process, serves_since: Option<Nanos>) -> Result<(), String> {
        let Some((since, told)) = self.0.get(&user).and_then(|rule| rule.gone.as_ref()) else {
            return Ok(());
        };
        if told.contains(&by) || serves_since.is_some_and(|began| began > *since) {
            return Err(format!(
                "user {NAME}{user} lost the right to write at {since}, and {} lets it write",
                by.0
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Process = (NodeId(0), 1);
    const THERE: Process = (NodeId(1), 2);

    const AT: fn(u64) -> Option<Timestamp> = |at| Some(Timestamp(at));

    fn revoked() -> Rules {
        let mut rules = Rules::default();
        rules.taken(3, true, (1, HERE));
        assert!(!rules.released((1, HERE), AT(1), true, 10));
        rules.taken(3, false, (2, HERE));
        assert!(rules.wrote(3, HERE, Some(0)).is_ok(), "nobody was told yet");
        assert!(rules.released((2, HERE), AT(2), true, 20));
        rules
    }

    #[test]
    fn whoever_said_that_a_right_is_gone_and_whoever_serves_later_goes_by_it() {
        let mut rules = revoked();
        assert!(rules.wrote(3, HERE, None).is_err() && rules.wrote(2, HERE, None).is_ok());
        assert!(rules.wrote(3, THERE, Some(20)).is_ok(), "it may not have heard of it");
        assert!(rules.wrote(3, THERE, Some(21)).is_err());
        rules.taken(3, true, (3, THERE));
        assert!(rules.wrote(3, HERE, None).is_ok());
    }

    #[test]
    fn while_a_change_that_lets_a_user_write_is_under_way_nothing_is_judged() {
        let mut rules = revoked();
        rules.taken(3, true, (3, THERE));
        rules.taken(3, false, (4, HERE));
        assert!(!rules.released((4, HERE), AT(4), true, 30));
        assert!(rules.wrote(3, HERE, None).is_ok());
        rules.ended(THERE);
        rules.taken(3, false, (5, HERE));
        assert!(rules.released((5, HERE), AT(5), true, 40));
        assert!(rules.wrote(3, HERE, None).is_err());
    }

    /// Simulated seeds 84001614 and 84001947: an engine put one off that gave the right, and ran one first that took it and had come later.
    #[test]
    fn of_two_changes_under_way_together_the_later_one_in_the_order_counts() {
        let mut rules = revoked();
        rules.taken(3, true, (3, HERE));
        rules.taken(3, false, (4, HERE));
        assert!(!rules.released((3, HERE), AT(9), true, 30));
        assert!(!rules.released((4, HERE), AT(8), true, 31), "it was made before, and ended after");
        assert!(rules.wrote(3, HERE, None).is_ok());
        rules.taken(3, false, (5, HERE));
        assert!(rules.released((5, HERE), AT(10), true, 40));
        assert!(rules.wrote(3, HERE, None).is_err());
    }

    #[test]
    fn a_change_of_which_nobody_is_told_takes_no_right() {
        let mut rules = Rules::default();
        rules.taken(0, false, (1, HERE));
        assert!(!rules.released((1, HERE), AT(1), false, 10));
        assert!(rules.wrote(0, HERE, None).is_ok());
    }

    #[test]
    fn requests_tell_whose_they_are() {
        let mut deleted = Vec::new();
        let mut encoded = Vec::new();
        highwater_redis::request::Args::encode([&b"ruled:4"[..]].into_iter(), &mut encoded);
        let mut reader = highwater_core::codec::Reader::new(&encoded);
        change::delete(highwater_redis::request::Args::decode(&mut reader).unwrap(), &mut deleted);
        assert_eq!(about(&deleted, true), Some(About::Change(4, false)));
        let mut read = Vec::new();
        change::read(7, &mut read);
        assert_eq!(about(&read, true), None);
        assert_eq!(about(b"..acl:ruled:2:k..", false), Some(About::Write(2)));
        assert_eq!(about(b"..ruler:2..", false), None);
    }
}
