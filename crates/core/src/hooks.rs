//! Where a simulator may step in, and nobody else: outside a simulator every hook is one relaxed load of a flag that is
//! false, and a branch that is not taken.
//!
//! - [`point`]: between two steps others may get a turn, as the operating system may preempt a thread anywhere.
//! - [`wait`]: whoever spins lets others run, or on one thread it would spin for ever.
//! - [`buggify`]: a choice that is legal but rare; each place says why it is legal.
//! - [`tell`], [`tell_own`]: something that an observer of all nodes compares.
//!
//! Points, sites and an engine's facts are declared where they are reached: `hooks.rs` in the store, in consensus, in an engine's
//! folder. Here is only what any engine has.
//!
//! A simulator enters with [`enter`], for its own thread only.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether any simulator was ever entered in this process.
static ACTIVE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static SIMULATOR: RefCell<Option<Rc<dyn Simulator>>> = const { RefCell::new(None) };
}

/// A place between two steps of a worker or controller, by its name. Declared by whoever gets there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Point(&'static str);

/// A controller is about to take its next step: a report, a part of its turn, a command to one of its workers. Of any engine,
/// because a simulator may spare controllers.
pub const CONTROL: Point = Point::new("Control");

impl Point {
    /// A point of this name.
    pub const fn new(name: &'static str) -> Point {
        Point(name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// Just the name.
impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A place where the code has a legal choice that it makes rarely or never, by its name. Declared by whoever has the choice;
/// an engine lists those that its replicas may get to. The names stand in saved plans.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Site {
    name: &'static str,
    frequency: Frequency,
}

/// How often a simulator should make a choice, so that it matters and does not crowd out everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frequency {
    /// As others.
    Usual,
    /// Seldom: it costs a leadership.
    Seldom,
    /// Often: a run gets there a few times only.
    Often,
}

impl Site {
    /// A choice that is made as often as others.
    pub const fn new(name: &'static str) -> Site {
        Site { name, frequency: Frequency::Usual }
    }

    /// The same choice, made so often.
    pub const fn made(self, frequency: Frequency) -> Site {
        Site { frequency, ..self }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// How often it should be made.
    pub const fn frequency(self) -> Frequency {
        self.frequency
    }
}

/// Just the name.
impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What an observer of all nodes compares.
#[derive(Clone, Copy, Debug)]
pub enum Fact<'a> {
    /// One of an engine's own, which its rules know: see [`tell_own`].
    Own(&'a dyn Any),
    /// What a leading worker holds.
    Holds {
        /// Bytes proposed and not decided.
        undecided_bytes: u64,
        /// Replies that wait for the mark.
        replies: usize,
    },
    /// A procedure panicked, whether what it saw will validate or not.
    Panicked {
        /// Which.
        procedure: &'a str,
        /// What it said.
        message: &'a str,
    },
}

/// Whoever simulates.
pub trait Simulator {
    /// May give others a turn before it returns.
    fn point(&self, point: Point);

    /// Gives others a turn, if it can.
    fn wait(&self);

    /// Decides a choice.
    fn buggify(&self, site: Site) -> bool;

    /// Takes note.
    fn tell(&self, fact: Fact<'_>);
}

/// While it lives, this thread is simulated.
pub struct Entered(Option<Rc<dyn Simulator>>);

/// Makes `simulator` the one of this thread until the result is dropped.
pub fn enter(simulator: Rc<dyn Simulator>) -> Entered {
    ACTIVE.store(true, Ordering::Relaxed);
    Entered(SIMULATOR.replace(Some(simulator)))
}

impl Drop for Entered {
    fn drop(&mut self) {
        SIMULATOR.set(self.0.take());
    }
}

/// Built with `--cfg without_hooks` there are none: to measure what they cost.
#[inline(always)]
fn active() -> bool {
    !cfg!(without_hooks) && ACTIVE.load(Ordering::Relaxed)
}

#[cold]
#[inline(never)]
fn simulator() -> Option<Rc<dyn Simulator>> {
    SIMULATOR.with_borrow(Clone::clone)
}

#[cold]
#[inline(never)]
fn reached(at: Point) {
    if let Some(simulator) = simulator() {
        simulator.point(at);
    }
}

#[cold]
#[inline(never)]
fn chosen(site: Site) -> bool {
    simulator().is_some_and(|simulator| simulator.buggify(site))
}

/// Whether this thread is simulated.
#[inline(always)]
pub fn simulated() -> bool {
    active() && simulator().is_some()
}

/// Between two steps.
#[inline(always)]
pub fn point(at: Point) {
    if active() {
        reached(at);
    }
}

/// Inside a loop that waits for another worker.
#[inline(always)]
pub fn wait() {
    if active()
        && let Some(simulator) = simulator()
    {
        simulator.wait();
    }
}

/// Whether to make the rare choice.
#[inline(always)]
pub fn buggify(site: Site) -> bool {
    active() && chosen(site)
}

/// For an observer.
#[inline(always)]
pub fn tell<'a>(fact: impl FnOnce() -> Fact<'a>) {
    if active()
        && let Some(simulator) = simulator()
    {
        simulator.tell(fact());
    }
}

/// For an observer that knows the engine.
#[inline(always)]
pub fn tell_own<T: Any>(fact: impl FnOnce() -> T) {
    if active()
        && let Some(simulator) = simulator()
    {
        simulator.tell(Fact::Own(&fact()));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const STEP: Point = Point::new("Step");
    const SLOW: Site = Site::new("Slow");
    const FAST: Site = Site::new("Fast").made(Frequency::Often);

    #[derive(Default)]
    struct Counting {
        points: Cell<u32>,
        told: Cell<u32>,
    }

    impl Simulator for Counting {
        fn point(&self, point: Point) {
            assert_eq!(point, STEP);
            self.points.set(self.points.get() + 1);
        }
        fn wait(&self) {}
        fn buggify(&self, site: Site) -> bool {
            site == SLOW
        }
        fn tell(&self, fact: Fact<'_>) {
            let Fact::Own(own) = fact else { panic!("{fact:?} was not told") };
            self.told.set(self.told.get() + own.downcast_ref::<u32>().expect("a number is told"));
        }
    }

    #[test]
    fn hooks_reach_the_simulator_of_their_own_thread_only() {
        assert!(!buggify(SLOW));
        let counting = Rc::new(Counting::default());
        {
            let _entered = enter(counting.clone());
            point(STEP);
            tell_own(|| 3u32);
            assert!(buggify(SLOW) && !buggify(FAST));
            std::thread::spawn(|| assert!(!buggify(SLOW))).join().unwrap();
        }
        point(STEP);
        tell_own(|| 5u32);
        assert!(!buggify(SLOW));
        assert_eq!((counting.points.get(), counting.told.get()), (1, 3));
    }

    /// Traces and saved plans hold names and nothing else.
    #[test]
    fn points_and_sites_are_shown_by_their_names() {
        assert_eq!(format!("{:?} {SLOW:?} {FAST:?}", Some(CONTROL)), "Some(Control) Slow Fast");
    }
}
