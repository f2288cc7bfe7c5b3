//! Where workers play: the simulator's end of the product's hooks.
//!
//! With [`Interleaving`] each turn of a worker runs in a coroutine, and each of a controller if that is asked for. At a
//! [`Point`] the coroutine may be suspended, as an operating system may preempt a thread; others have their turns before
//! it goes on. A worker that spins for another one is always suspended. Everything is drawn from a generator of the stage's
//! own, so that worlds without interleaving and rare choices draw what they always drew.
//!
//! | file | what |
//! |---|---|
//! | [`mod`](self) | the hooks: what is drawn at a point, a wait, a rare choice |
//! | `fiber` | a turn as a coroutine, what it takes in and what comes of it |
//! | `actor` | who is on stage, and why somebody stands still there |
//! | `choices` | how often rare choices are made, and were |
//! | `suspender` | how the running coroutine is suspended |

mod actor;
mod choices;
mod fiber;
mod suspender;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use highwater_core::hooks::{CONTROL, Fact, Point, Simulator, Site};
use highwater_seam::Nanos;

use crate::network::Channel;
use crate::watch::Watch;
pub(crate) use actor::{Actor, Why};
pub use choices::Buggify;
use choices::BySite;
pub(crate) use fiber::{Fiber, Input, Turned};
use highwater_core::Random;
use suspender::Suspender;

/// How often workers are interrupted in the middle of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleaving {
    /// At one point in so many (never if 0); others go on within a few microseconds.
    pub one_in: u64,
    /// Of the interruptions one in so many (never if 0) is long: the thread lost its core.
    pub long_one_in: u64,
    /// How long at most, in ns.
    pub longest: Nanos,
}

/// Spinning outside a coroutine after which nobody can be waited for.
const SPINS: u32 = 1_000_000;

/// The simulator as the product's hooks see it.
pub(crate) struct Stage {
    random: RefCell<Random>,
    pub interleaving: Cell<Option<Interleaving>>,
    pub buggify: RefCell<Buggify>,
    /// How often each choice was made.
    chosen: RefCell<BySite>,
    /// How often a worker was interrupted.
    pub interruptions: Cell<u64>,
    /// Whether controllers are interrupted, too; and how often one was.
    pub controllers: Cell<bool>,
    pub controllers_interrupted: Cell<u64>,
    /// Points passed so far: steps of work.
    pub steps: Cell<u64>,
    /// The coroutine that runs.
    current: Cell<Option<Suspender>>,
    /// Turns run to their end, unseen: their node is dead.
    draining: Cell<bool>,
    actor: Cell<Option<Actor>>,
    spins: Cell<u32>,
    pub watch: RefCell<Watch>,
    stacks: RefCell<Vec<DefaultStack>>,
}

impl Stage {
    pub fn new(seed: u64, watch: Watch) -> Rc<Stage> {
        Rc::new(Stage {
            random: RefCell::new(Random::new(seed ^ 0x57a6_e57a_6e57_a6e5)),
            interleaving: Cell::new(None),
            buggify: RefCell::default(),
            chosen: RefCell::default(),
            interruptions: Cell::new(0),
            controllers: Cell::new(false),
            controllers_interrupted: Cell::new(0),
            steps: Cell::new(0),
            current: Cell::new(None),
            draining: Cell::new(false),
            actor: Cell::new(None),
            spins: Cell::new(0),
            watch: RefCell::new(watch),
            stacks: RefCell::default(),
        })
    }

    /// Says who acts from now on.
    pub fn enter(&self, actor: Actor) {
        self.actor.set(Some(actor));
    }

    /// How long a suspended turn stands still. A controller loses its core for an eighth of a worker's time at most:
    /// more would be an election after the other, and test nothing else.
    pub fn pause_after(&self, why: Why, who: Channel) -> Nanos {
        let mut random = self.random.borrow_mut();
        let usual = 1 + random.below(20_000);
        match (why, self.interleaving.get()) {
            (Why::Interrupted(_), Some(often))
                if often.long_one_in > 0 && random.one_in(often.long_one_in) =>
            {
                let share = if who == Channel::Control { 8 } else { 1 };
                1 + random.below((often.longest / share).max(1))
            }
            _ => usual,
        }
    }

    /// Whether turns of this thread run in coroutines.
    pub fn in_parts(&self, who: Channel) -> bool {
        self.interleaving.get().is_some() && (who != Channel::Control || self.controllers.get())
    }

    fn one_in(&self, n: u64) -> bool {
        n > 0 && self.random.borrow_mut().one_in(n)
    }

    /// How often a choice was made.
    pub fn chosen(&self, site: Site) -> u64 {
        self.chosen.borrow().get(site)
    }
}

impl Simulator for Stage {
    fn point(&self, point: Point) {
        self.steps.set(self.steps.get() + 1);
        let Some(interleaving) = self.interleaving.get() else { return };
        if self.draining.get() || !self.one_in(interleaving.one_in) {
            return;
        }
        if let Some(current) = self.current.get() {
            let counter = if point == CONTROL { &self.controllers_interrupted } else { &self.interruptions };
            counter.set(counter.get() + 1);
            current.suspend(Why::Interrupted(point));
        }
    }

    fn wait(&self) {
        match self.current.get() {
            Some(current) => current.suspend(Why::Spins),
            None => {
                self.spins.set(self.spins.get() + 1);
                assert!(
                    self.spins.get() < SPINS || self.interleaving.get().is_none(),
                    "a worker in the middle of its turn holds what is waited for: World::finish_turns comes first"
                );
            }
        }
    }

    fn buggify(&self, site: Site) -> bool {
        let yes = !self.draining.get() && self.one_in(self.buggify.borrow().rate(site));
        if yes {
            *self.chosen.borrow_mut().at(site) += 1;
        }
        yes
    }

    fn tell(&self, fact: Fact<'_>) {
        if let (Some(actor), false) = (self.actor.get(), self.draining.get()) {
            self.watch.borrow_mut().tell(actor.teller(), fact);
        }
    }
}
