//! Every engine, by name: the one place that lists them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use highwater_core::hooks::Site;
#[cfg(feature = "planted")]
use highwater_core::planted::Bug;
use highwater_core::{Clock, NodeId};

use highwater_kit::code::{Builds, Code};
use highwater_seam::engine::{Abilities, Engine};
use highwater_seam::observer::Rules;
use highwater_seam::options::Options;
use highwater_seam::settings::Setting;
use highwater_seam::{Replica, Status};

macro_rules! engines {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $code:literal, $feature:tt: $engine:ty, $about:literal;)*) => {
        /// Which engine runs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EngineKind {
            $($(#[$doc])* $kind,)*
        }

        impl EngineKind {
            /// Every engine that this build has.
            pub const ALL: &[EngineKind] = &[$(#[cfg(feature = $feature)] EngineKind::$kind),*];

            /// Every engine that there is: those that this build does not have are [refused](EngineKind::built) when they are named.
            pub const KNOWN: &[EngineKind] = &[$(EngineKind::$kind),*];

            /// Its name on the command line and in configurations.
            pub fn name(self) -> &'static str {
                match self { $(EngineKind::$kind => $name,)* }
            }

            /// Its number on the wire between nodes. Never given to another one.
            pub fn code(self) -> u8 {
                match self { $(EngineKind::$kind => $code,)* }
            }

            /// What it is, in a line.
            pub fn about(self) -> &'static str {
                match self { $(EngineKind::$kind => $about,)* }
            }

            /// The feature of a build that has it.
            pub fn feature(self) -> &'static str {
                match self { $(EngineKind::$kind => $feature,)* }
            }

            /// See [`Engine::ABILITIES`].
            pub fn abilities(self) -> Abilities {
                of_engine!(self; $($kind $feature $engine),*; ABILITIES)
            }

            /// See [`Engine::SETTINGS`].
            pub fn settings(self) -> &'static [Setting] {
                of_engine!(self; $($kind $feature $engine),*; SETTINGS)
            }

            /// See [`Engine::SITES`].
            pub fn sites(self) -> &'static [Site] {
                of_engine!(self; $($kind $feature $engine),*; SITES)
            }

            /// See [`Engine::BUGS`]: all of its lists, one after the other.
            #[cfg(feature = "planted")]
            pub fn bugs(self) -> impl Iterator<Item = &'static Bug> {
                let lists = of_engine!(self; $($kind $feature $engine),*; BUGS);
                lists.iter().copied().flatten().copied()
            }

            /// See [`Engine::serving`].
            pub fn serving(self, statuses: &[Option<Status>]) -> Option<NodeId> {
                of_engine!(self; $($kind $feature $engine),*; serving(statuses))
            }

            /// See [`Engine::agreed`].
            pub fn agreed(self, statuses: &[Option<Status>]) -> Option<NodeId> {
                of_engine!(self; $($kind $feature $engine),*; agreed(statuses))
            }

            /// See [`Engine::healthy`].
            pub fn healthy(self, statuses: &[Option<Status>]) -> Result<NodeId, String> {
                of_engine!(self; $($kind $feature $engine),*; healthy(statuses))
            }

            /// See [`Engine::converged`].
            pub fn converged(self, statuses: &[Option<Status>]) -> Result<u64, String> {
                of_engine!(self; $($kind $feature $engine),*; converged(statuses))
            }

            /// See [`Engine::lag`].
            pub fn lag(self, own: &Status, serving: &Status) -> Option<u64> {
                of_engine!(self; $($kind $feature $engine),*; lag(own, serving))
            }

            /// See [`Engine::rules`].
            pub fn rules(self) -> Box<dyn Rules> {
                of_engine!(self; $($kind $feature $engine),*; rules())
            }

            /// See [`Engine::wrote`].
            pub fn wrote(self, record: &Bytes) -> bool {
                of_engine!(self; $($kind $feature $engine),*; wrote(record))
            }

            /// See [`Engine::words`].
            pub fn words(self, to_controller: bool, head: &[u8]) -> String {
                of_engine!(self; $($kind $feature $engine),*; words(to_controller, head))
            }
        }

        /// A fresh replica of an engine: the code's tables, empty, and its procedures.
        ///
        /// # Panics
        /// If `options` are not [valid](Options::validate), or this build does not have the engine.
        pub fn build(kind: EngineKind, options: Options, code: &dyn Code, clock: Arc<Clock>) -> Replica {
            options.validate().expect("the host validates the options");
            options.own.check(kind.settings()).expect("the host validates the engine's own settings");
            of_engine!(kind; $($kind $feature $engine),*; build(options, code, clock))
        }
    };
}

/// A word of the engine of a kind, if this build has it: a constant, or a function with its arguments in brackets.
macro_rules! of_engine {
    ($of:expr; $($kind:ident $feature:tt $engine:ty),*; $item:ident) => {
        match $of {
            $(#[cfg(feature = $feature)] EngineKind::$kind => <$engine>::$item,)*
            #[allow(unreachable_patterns, reason = "a build may have all")]
            absent => absent.is_absent(),
        }
    };
    ($of:expr; $($kind:ident $feature:tt $engine:ty),*; $item:ident $arguments:tt) => {
        match $of {
            $(#[cfg(feature = $feature)] EngineKind::$kind => <$engine>::$item $arguments,)*
            #[allow(unreachable_patterns, reason = "a build may have all")]
            absent => absent.is_absent(),
        }
    };
}

engines! {
    /// Speculate, replicate through one stream per worker, release below the watermark.
    Rolis = "rolis", 0, "rolis": highwater_engine_rolis::Rolis, "speculate, replicate through one stream per worker, release below the watermark";
    /// The same store, no replication: the denominator of every ratio.
    Silo = "silo", 1, "laboratory": highwater_engine_baseline::silo::Silo, "the same store without replication: the denominator of every ratio";
    /// One shared stream for all workers: the paper's figure 2.
    Strawman = "strawman", 2, "laboratory": highwater_engine_rolis::Strawman, "the same with one stream for all workers";
    /// Plain primary-backup, as small as an engine can be: an example, and a test of the seam.
    Backup = "backup", 3, "laboratory": highwater_engine_baseline::backup::Backup, "plain primary-backup without takeover: the smallest example";
    /// Leaderless: every replica takes transactions, all validate them.
    Meerkat = "meerkat", 4, "meerkat": highwater_engine_meerkat::Meerkat, "leaderless: every replica takes transactions, all validate them; serializable";
    /// The same, in an order that agrees with real time.
    MeerkatStrict = "meerkat-strict", 5, "meerkat": highwater_engine_meerkat::MeerkatStrict, "the same, in an order that agrees with real time";
    /// A comparison: Meerkat with a primary. Replicas coordinate, cores do not.
    MeerkatPb = "meerkat-pb", 6, "laboratory": highwater_engine_comparisons::meerkat_pb::MeerkatPb, "a comparison: meerkat with a primary that validates alone; no takeover";
    /// A comparison: no leader, and one record for all cores of a replica. Cores coordinate, replicas do not.
    Tapir = "tapir", 7, "laboratory": highwater_engine_comparisons::tapir::Tapir, "a comparison: leaderless, one transaction record for all cores of a replica; no recovery";
    /// A comparison: a primary, a shared counter, a shared log. Both coordinate.
    Kuafu = "kuafu", 8, "laboratory": highwater_engine_comparisons::kuafu::Kuafu, "a comparison: KuaFu++, a primary with a shared counter and a shared log; no takeover";
}

impl EngineKind {
    /// The same, if this build has it.
    ///
    /// # Errors
    /// In words, if not.
    pub fn built(self) -> Result<EngineKind, String> {
        if EngineKind::ALL.contains(&self) {
            return Ok(self);
        }
        let feature = self.feature();
        Err(format!("engine {self} is not in this build; run: cargo build --release --features {feature}"))
    }

    #[allow(dead_code, reason = "a build may have all")]
    fn is_absent(self) -> ! {
        panic!("this build has no engine {self}: whoever names it asks first whether it is built")
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EngineKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let Some(found) = EngineKind::KNOWN.iter().find(|kind| kind.name() == name) else {
            let known: Vec<_> = EngineKind::ALL.iter().map(|kind| kind.name()).collect();
            return Err(format!("unknown engine {name:?}; known are {}", known.join(", ")));
        };
        found.built()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use highwater_core::{
        Abort, Incarnation, Library, Nanos, Outcome, Procedure, ProcedureId, Registry, TableSpec, Timestamp,
        Transaction,
    };

    use super::*;
    use highwater_kit::retries::ATTEMPTS_IN_A_ROW;
    use highwater_seam::{ControlOutbox, Freshness, Outbox, Owner, Refusal, Request, Session, Taken, Token};

    struct Nothing;

    impl Library for Nothing {
        fn tables(&self) -> Vec<TableSpec> {
            Vec::new()
        }

        fn register<T: Transaction>(&self, _: &mut Registry<T>) {}
    }

    /// What an engine cannot do it does not seem to do: by any of its workers, for transactions and for reads.
    #[test]
    fn every_engine_refuses_what_its_abilities_do_not_list() {
        const NOW: Nanos = 1;
        let plain = Request::new(Token(1), ProcedureId(0), &[]);
        let session =
            Request { session: Some(Session { id: 1, sequence: 1, owner: Owner::NOBODY }), ..plain };
        let within = Request { freshness: Some(Freshness::Within(1000)), ..plain };
        let since = Request { freshness: Some(Freshness::Since(Timestamp(1))), ..plain };
        for kind in EngineKind::ALL {
            let options = Options::new(NodeId(0), 3, 2, Incarnation(1));
            let mut replica = build(*kind, options, &Nothing, Arc::new(Clock::counter()));
            let Abilities { sessions, freshness, .. } = kind.abilities();
            for worker in &mut replica.workers {
                for (request, able) in [(session, sessions), (within, freshness), (since, freshness)] {
                    assert_eq!(kind.abilities().admit(&request).is_ok(), able);
                    if !able {
                        assert_eq!(worker.submit(NOW, request), Err(Refusal::Unsupported), "{kind}");
                        assert_eq!(worker.submit_snapshot(NOW, request), Err(Refusal::Unsupported), "{kind}");
                    }
                }
            }
            // What can be promised is not refused by all: somebody is left to be tested.
            assert_eq!(freshness, matches!(kind, EngineKind::Rolis | EngineKind::Strawman), "{kind}");
            assert_eq!(kind.abilities().admit(&plain), Ok(()));
            assert_eq!(kind.abilities().admit(&Request { deadline: Some(1), ..plain }), Ok(()), "a hint");
        }
    }

    /// Meets conflicts as often as it is told to.
    struct Stumbles;

    /// Conflicts to come.
    static STUMBLES: AtomicU32 = AtomicU32::new(0);

    impl Procedure for Stumbles {
        const NAME: &'static str = "stumbles";

        fn run<T: Transaction>(_: &mut T, _: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
            let less = |left: u32| left.checked_sub(1);
            let met = STUMBLES.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
            if met { Err(Abort::Conflict) } else { Ok(()) }
        }
    }

    impl Library for Stumbles {
        fn tables(&self) -> Vec<TableSpec> {
            Vec::new()
        }

        fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
            registry.register::<Stumbles>();
        }
    }

    /// The replica that serves alone, after turns enough.
    fn serving(kind: EngineKind, workers: u16) -> (Replica, Nanos) {
        let options = Options::new(NodeId(0), 1, workers, Incarnation(1));
        let mut replica = build(kind, options, &Stumbles, Arc::new(Clock::counter()));
        for now in (0..).step_by(1_000_000).take(10_000) {
            replica.controller.turn(now, &mut ControlOutbox::default());
            for worker in &mut replica.workers {
                worker.turn(now, &mut Outbox::default());
            }
            if replica.workers.iter().all(|worker| worker.ready().is_ok()) {
                return (replica, now);
            }
        }
        panic!("{kind} does not serve alone");
    }

    /// A host keeps a client's requests in order by that: of an engine that claims an order, each worker says which requests have no
    /// place in it yet, and which overtake those.
    #[test]
    fn a_worker_says_which_requests_it_puts_off() {
        for kind in EngineKind::ALL {
            let (mut replica, now) = serving(*kind, 2);
            let stumbles = replica.procedures.iter().position(|name| *name == Stumbles::NAME);
            let procedure = ProcedureId(stumbles.expect("it is registered") as u16);
            for worker in &mut replica.workers {
                let mut submit = |token| worker.submit(now, Request::new(Token(token), procedure, &[]));
                let orders = kind.abilities().in_order;
                let placed = if orders { Taken::Placed } else { Taken::PutOff };
                assert_eq!(submit(1), Ok(placed), "{kind}");
                if !orders {
                    continue;
                }
                STUMBLES.store(ATTEMPTS_IN_A_ROW, Ordering::SeqCst);
                assert_eq!(submit(2), Ok(Taken::PutOff), "{kind}: it met conflicts");
                assert_eq!(submit(3), Ok(Taken::Placed), "{kind}: another one's goes on");
                let mut out = Outbox::default();
                let mut turn = || {
                    worker.turn(now, &mut out);
                    out.replies
                        .iter()
                        .any(|reply| reply.token == Token(2) && reply.outcome == Outcome::Committed)
                };
                assert!(kind.abilities().replicates || turn(), "{kind}: it comes again");
            }
        }
    }

    /// Saved plans find a choice by its name.
    #[test]
    fn an_engine_has_one_site_of_a_name() {
        for kind in EngineKind::ALL {
            for site in kind.sites() {
                let same = kind.sites().iter().filter(|other| other.name() == site.name());
                assert_eq!(same.count(), 1, "{site:?} of {kind}");
            }
        }
    }

    #[test]
    fn names_and_codes_are_given_once() {
        for (at, kind) in EngineKind::KNOWN.iter().enumerate() {
            let named = kind.name().parse::<EngineKind>();
            match EngineKind::ALL.contains(kind) {
                true => assert_eq!(named, Ok(*kind)),
                false => assert!(named.is_err_and(|words| words.contains(kind.feature()))),
            }
            let others = &EngineKind::KNOWN[at + 1..];
            assert!(others.iter().all(|other| other.code() != kind.code() && other.name() != kind.name()));
        }
        // What nodes of older builds say.
        let codes = [EngineKind::Rolis, EngineKind::Silo, EngineKind::Strawman].map(EngineKind::code);
        assert_eq!(codes, [0, 1, 2]);
        let built: Vec<&str> = EngineKind::ALL.iter().map(|kind| kind.name()).collect();
        assert!("raft".parse::<EngineKind>().unwrap_err().ends_with(&built.join(", ")));
    }
}
