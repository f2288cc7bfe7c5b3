//! The primitives that the threads of a replica synchronise with, from std, loom or shuttle.
//!
//! Loom explores the memory model, but its atomics are objects that cannot live in raw memory: under `cfg(loom)` the
//! store builds its words and guards only, and crates above it what the workers of a replica share without a store, file by file. Shuttle
//! explores interleavings: its atomics here are std's with a scheduling point in front of each access, so that whole
//! stores and whole replicas run under it unchanged.

#[cfg(not(any(loom, shuttle)))]
mod imp {
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
    pub use std::sync::{Mutex, MutexGuard};
    pub use std::thread::yield_now;

    /// Inside a loop that waits for another thread. In a simulator there is no other thread: another worker gets a turn.
    #[inline]
    pub fn spin_loop() {
        crate::hooks::wait();
        std::hint::spin_loop();
    }
}

#[cfg(loom)]
mod imp {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
    pub use loom::sync::{Mutex, MutexGuard};
}

#[cfg(shuttle)]
mod imp {
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::{Mutex, MutexGuard};
    pub use shuttle::thread::yield_now;
    pub use std::sync::atomic::{Ordering, fence};

    /// A scheduling point: shuttle may run another thread here.
    fn point() {
        shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
    }

    macro_rules! update {
        ($name:ident, $value:ty, $($update:ident),*) => {
            $(pub fn $update(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.$update(value, order)
            })*
        };
    }

    macro_rules! integer {
        ($name:ident, $value:ty) => {
            #[derive(Debug, Default)]
            #[repr(transparent)]
            pub struct $name(std::sync::atomic::$name);

            #[allow(dead_code)]
            impl $name {
                pub const fn new(value: $value) -> Self {
                    $name(std::sync::atomic::$name::new(value))
                }
                pub fn load(&self, order: Ordering) -> $value {
                    point();
                    self.0.load(order)
                }
                pub fn store(&self, value: $value, order: Ordering) {
                    point();
                    self.0.store(value, order);
                }
                pub fn compare_exchange(
                    &self,
                    old: $value,
                    new: $value,
                    ok: Ordering,
                    err: Ordering,
                ) -> Result<$value, $value> {
                    point();
                    self.0.compare_exchange(old, new, ok, err)
                }
                pub fn compare_exchange_weak(
                    &self,
                    old: $value,
                    new: $value,
                    ok: Ordering,
                    err: Ordering,
                ) -> Result<$value, $value> {
                    self.compare_exchange(old, new, ok, err)
                }
                update!($name, $value, fetch_add, fetch_sub, fetch_max, fetch_or);
            }
        };
    }
    integer!(AtomicU64, u64);
    integer!(AtomicU32, u32);

    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct AtomicBool(std::sync::atomic::AtomicBool);

    impl AtomicBool {
        pub const fn new(value: bool) -> Self {
            AtomicBool(std::sync::atomic::AtomicBool::new(value))
        }
        pub fn load(&self, order: Ordering) -> bool {
            point();
            self.0.load(order)
        }
        pub fn store(&self, value: bool, order: Ordering) {
            point();
            self.0.store(value, order);
        }
        pub fn swap(&self, value: bool, order: Ordering) -> bool {
            point();
            self.0.swap(value, order)
        }
    }

    #[derive(Debug)]
    #[repr(transparent)]
    pub struct AtomicPtr<T>(std::sync::atomic::AtomicPtr<T>);

    impl<T> AtomicPtr<T> {
        pub const fn new(value: *mut T) -> Self {
            AtomicPtr(std::sync::atomic::AtomicPtr::new(value))
        }
        pub fn load(&self, order: Ordering) -> *mut T {
            point();
            self.0.load(order)
        }
        pub fn store(&self, value: *mut T, order: Ordering) {
            point();
            self.0.store(value, order);
        }
    }
}

pub use imp::*;

/// Keeps a value on cache lines of its own (two: the adjacent-line prefetcher pulls pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Waits for something that another thread finishes within a few instructions: spins, and lets others run if it
/// takes long (the other thread may have been preempted).
#[cfg(not(loom))]
#[derive(Default)]
pub struct Backoff(u32);

#[cfg(not(loom))]
impl Backoff {
    /// One step of waiting.
    pub fn wait(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(256) {
            yield_now();
        }
        spin_loop();
    }
}

/// Asks for the cache line of `address`.
#[cfg(not(loom))]
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
