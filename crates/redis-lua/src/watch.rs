//! Brings the next look at a run's bounds forward, when what it does takes longer than its instructions say.
//!
//! Lua calls its hook every so many instructions. One instruction may put together strings of some MiB, or call a function of C that does. So:
//!
//! - *What is owed.* Functions that we stand in front of say what they cost ([`owe`]). Once that is much, the hook comes with the next
//!   instruction, and charges it ([`take_owed`]).
//! - *An alarm.* Comparisons, concatenations, walks over what was removed from a table owe nothing: nobody can stand in front of them.
//!   A timer of this thread's CPU time rings ten times a second while a script runs, and the hook comes with the next instruction: it shows that
//!   the worker goes on, or, when it has rung for too long for one run, ends the run. So a run is longer than [`PATIENCE_MS`] by one instruction, or one function of C, and none
//!   takes long: its work is bounded by the memory that a run may have.
//!
//! Lua says of `lua_sethook` that a signal's handler may call it; its own interpreter does so.

use std::cell::{Cell, RefCell};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use mlua::ffi;

use crate::budget::{EVERY, PATIENCE_MS};

/// Rings of the alarm are so many ms of CPU time apart.
const RING_MS: u64 = 100;
/// So many instructions owed bring the hook forward.
const MUCH: u64 = 5_000;
/// Other programs take this signal for the kernel's word of urgent bytes, and ignore it.
const SIGNAL: i32 = libc::SIGURG;

/// The words that a handler of signals may look at: nothing of it is ever freed or made late.
struct Watch {
    /// The state that executes: the machine's own, or a coroutine's.
    state: AtomicPtr<ffi::lua_State>,
    /// Counts runs.
    run: AtomicU64,
    /// The run that was under way when the alarm rang last, and how often it rang for it.
    rung_for: AtomicU64,
    rings: AtomicU32,
    /// This run has been rung for too long.
    expired: AtomicBool,
    armed: AtomicBool,
    /// The hook was brought forward: it has to be put back.
    forward: AtomicBool,
    /// The timer, once there is one.
    timer: AtomicPtr<libc::c_void>,
}

thread_local! {
    static WATCH: Watch = const {
        Watch {
            state: AtomicPtr::new(std::ptr::null_mut()),
            run: AtomicU64::new(0),
            rung_for: AtomicU64::new(0),
            rings: AtomicU32::new(0),
            expired: AtomicBool::new(false),
            armed: AtomicBool::new(false),
            forward: AtomicBool::new(false),
            timer: AtomicPtr::new(std::ptr::null_mut()),
        }
    };
    static ENDS: RefCell<Option<Timer>> = const { RefCell::new(None) };
    static OWED: Cell<u64> = const { Cell::new(0) };
}

/// A timer that goes with its thread.
struct Timer(libc::timer_t);

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: this thread made it, and uses it no more.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// A run begins on this state. `alarm`: its time is bounded.
pub fn begin(state: *mut ffi::lua_State, alarm: bool) {
    OWED.set(0);
    set_hook(state, EVERY);
    WATCH.with(|watch| {
        watch.forward.store(false, Relaxed);
        watch.run.store(watch.run.load(Relaxed) + 1, Relaxed);
        watch.expired.store(false, Relaxed);
        watch.state.store(state, Relaxed);
        if alarm && !watch.armed.load(Relaxed) {
            arm(watch);
        }
    });
}

/// Ends the watch over a run when it is dropped, also by a panic that passes through: the machine is thrown away then.
pub struct Watched;

impl Drop for Watched {
    fn drop(&mut self) {
        end();
    }
}

/// The run is over.
pub fn end() {
    WATCH.with(|watch| {
        watch.state.store(std::ptr::null_mut(), Relaxed);
        watch.expired.store(false, Relaxed);
    });
}

/// Makes sure that the state that executes is known: a coroutine that could not be resumed may stand in its place. Before anything is
/// collected.
pub fn correct(state: *mut ffi::lua_State) {
    if !self::state().is_null() {
        switch(state);
    }
}

/// Says which state executes from now on; the one that did.
pub fn switch(state: *mut ffi::lua_State) -> *mut ffi::lua_State {
    WATCH.with(|watch| {
        let before = watch.state.swap(state, Relaxed);
        if watch.expired.load(Relaxed) {
            set_hook(state, 1);
        } else if is_forward(state) && !watch.forward.load(Relaxed) {
            // It was made while its maker's hook was brought forward, and has that from it.
            set_hook(state, EVERY);
        }
        before
    })
}

fn state() -> *mut ffi::lua_State {
    WATCH.with(|watch| watch.state.load(Relaxed))
}

/// Whether this run's time is up.
pub fn expired() -> bool {
    WATCH.with(|watch| watch.expired.load(Relaxed))
}

/// Work of so many instructions was done, or is about to be. Raises nothing.
pub fn owe(instructions: u64) {
    let owed = OWED.get().saturating_add(instructions);
    OWED.set(owed);
    if owed > MUCH && !WATCH.with(|watch| watch.forward.swap(true, Relaxed)) {
        let state = state();
        if !state.is_null() {
            set_hook(state, 1);
        }
    }
}

/// The debt so far.
pub fn owed() -> u64 {
    OWED.get()
}

/// Whether the hook is to come with the next instruction: much is owed, or the alarm has rung.
pub fn is_due() -> bool {
    WATCH.with(|watch| watch.forward.load(Relaxed))
}

/// The debt, which is charged now.
pub fn take_owed() -> u64 {
    // One instruction: were the alarm to ring within it, the hook would stay where it was put.
    if WATCH.with(|watch| watch.forward.swap(false, Relaxed)) && !expired() {
        let state = state();
        if !state.is_null() {
            set_hook(state, EVERY);
        }
    }
    OWED.replace(0)
}

fn is_forward(state: *mut ffi::lua_State) -> bool {
    // SAFETY: as below.
    !state.is_null() && unsafe { ffi::lua_gethookcount(state) } == 1
}

fn set_hook(state: *mut ffi::lua_State, count: u32) {
    // SAFETY: `state` is one that executes on this thread, and so is alive. Lua lets this be called at any time, by a signal's handler too.
    unsafe { ffi::lua_sethook(state, ffi::lua_gethook(state), ffi::LUA_MASKCOUNT, count as i32) };
}

fn arm(watch: &Watch) {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: the action is whole, and its handler does only what a handler may (see `ring`).
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ring as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
        }
    });
    if watch.timer.load(Relaxed).is_null() {
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: `event` is whole; the kernel writes the timer's name.
        let made = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = SIGNAL;
            event.sigev_notify_thread_id = libc::gettid();
            libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut event, &raw mut timer)
        };
        if made != 0 {
            // The hook's own looks at the clock are left.
            return;
        }
        ENDS.with(|ends| *ends.borrow_mut() = Some(Timer(timer)));
        // The C library names its first timer 0.
        watch.timer.store(timer.wrapping_byte_add(1), Relaxed);
    }
    watch.armed.store(true, Relaxed);
    set_timer(watch, RING_MS);
}

fn set_timer(watch: &Watch, ms: u64) {
    let every = libc::timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000) as i64 * 1_000_000 };
    let times = libc::itimerspec { it_interval: every, it_value: every };
    let timer = watch.timer.load(Relaxed).wrapping_byte_sub(1);
    // SAFETY: the timer is this thread's, and POSIX lets a signal's handler set it.
    unsafe { libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()) };
}

/// The alarm, on the thread that it is for.
extern "C" fn ring(_signal: i32) {
    WATCH.with(|watch| {
        let (run, state) = (watch.run.load(Relaxed), watch.state.load(Relaxed));
        if watch.rung_for.swap(run, Relaxed) != run {
            watch.rings.store(0, Relaxed);
        } else if state.is_null() {
            // Nothing has run since it rang last.
            watch.armed.store(false, Relaxed);
            set_timer(watch, 0);
        } else {
            let rings = watch.rings.load(Relaxed) + 1;
            watch.rings.store(rings, Relaxed);
            if u64::from(rings) * RING_MS > PATIENCE_MS {
                watch.expired.store(true, Relaxed);
            }
            watch.forward.store(true, Relaxed);
            set_hook(state, 1);
        }
    });
}
