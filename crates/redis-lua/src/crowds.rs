//! Stands between Lua and its memory, for tables whose numbers meet in few chains.
//!
//! Lua looks for a number in a table by the sum of its two words, modulo one less than the nodes of the table's hash part: no secret is in it. So numbers can be
//! chosen that are spread in a part of 2^19 nodes, and meet in some chains in one of 2^20. Then the one instruction that makes the table grow walks over half
//! the square of each chain, which takes minutes, and nothing ends an instruction. (Strings cannot be chosen so: their hash is taken modulo a
//! power of two, and what meets in the larger part has met in the smaller one, where each of them was paid for. Addresses cannot be chosen.)
//!
//! But a part asks for its memory before anything is put into it. So once a run has taken some memory ([`Crowds::watch`]), the parts that it has are
//! known by their sizes, and memory for a larger one is refused if numbers of one that is there would meet in it too often. Lua
//! raises `not enough memory` then.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;

use mlua::ffi::{self, lua_Alloc, lua_State};

/// A node of a hash part: a value, a key, and the next node of its chain.
const NODE_BYTES: usize = 40;
/// Parts of fewer nodes are left alone: all of theirs in one chain meet 33 million times.
const FEWEST_NODES: usize = 1 << 13;
/// Nodes walked over while a table grows: more than so many are refused. It takes some tenths of a second.
const MOST_MEETINGS: u64 = 1 << 26;

/// Lua's tags of values, at the end of each.
const TAG_AT: usize = 8;
const KEY_AT: usize = 16;
const NUMBER: i32 = ffi::LUA_TNUMBER;

/// Knows the hash parts of a machine's tables.
#[derive(Debug, Default)]
pub struct Crowds {
    /// The allocator whose place is taken, and its data.
    original: Cell<Option<(lua_Alloc, *mut c_void)>>,
    /// Hash parts: address, nodes. A string of just that size is taken for one, too.
    parts: RefCell<BTreeMap<usize, usize>>,
    /// Keys for each chain of a part that is asked for.
    chains: RefCell<Vec<u32>>,
    refused: Cell<bool>,
}

impl Crowds {
    /// Takes the allocator's place, if it has not. Whether it did: then [`leave`](Self::leave) gives it back.
    ///
    /// # Safety
    /// `state` is one of a living machine's. `self` stays where it is until `leave`, and is used for this machine alone.
    pub unsafe fn watch(&self, state: *mut lua_State) -> bool {
        if self.original.get().is_some() {
            return false;
        }
        let mut data = std::ptr::null_mut();
        // SAFETY: the state is alive, and `allocate` does what an allocator does, with what it is given here.
        unsafe {
            let allocator = ffi::lua_getallocf(state, &raw mut data);
            self.original.set(Some((allocator, data)));
            ffi::lua_setallocf(state, allocate, std::ptr::from_ref(self).cast_mut().cast());
        }
        self.parts.borrow_mut().clear();
        true
    }

    /// Gives its place back.
    ///
    /// # Safety
    /// As of [`watch`](Self::watch).
    pub unsafe fn leave(&self, state: *mut lua_State) {
        if let Some((allocator, data)) = self.original.take() {
            // SAFETY: what was there before; all memory came from it.
            unsafe { ffi::lua_setallocf(state, allocator, data) };
        }
    }

    /// Whether a table was refused to grow since this was [forgotten](Self::forget).
    pub fn refused(&self) -> bool {
        self.refused.get()
    }

    /// Another run begins, or another text is compiled.
    pub fn forget(&self) {
        self.refused.set(false);
    }

    /// Whether the numbers of each part that is there would meet seldom enough in one of so many nodes.
    ///
    /// # Safety
    /// All parts are alive.
    unsafe fn have_room_in(&self, nodes: usize) -> bool {
        let mut chains = self.chains.borrow_mut();
        self.parts.borrow().iter().all(|(at, before)| {
            chains.clear();
            chains.resize(nodes, 0);
            let mut meetings = 0;
            for node in (0..*before).map(|node| at + node * NODE_BYTES) {
                // SAFETY: the part is alive and has so many nodes, aligned as its words are. What is no
                // part, but has the size of one (a string, a buffer), may hold anything: its bits are read as numbers, and mean nothing but a refusal.
                let (value, key, tag, second) = unsafe {
                    let read = |at: usize| std::ptr::with_exposed_provenance::<i32>(at).read_unaligned();
                    (
                        read(node + TAG_AT),
                        std::ptr::with_exposed_provenance::<u32>(node + KEY_AT).read_unaligned(),
                        read(node + KEY_AT + TAG_AT),
                        std::ptr::with_exposed_provenance::<u32>(node + KEY_AT + 4).read_unaligned(),
                    )
                };
                if tag == NUMBER && value != ffi::LUA_TNIL {
                    let chain = &mut chains[(key.wrapping_add(second) as usize) % ((nodes - 1) | 1)];
                    meetings += u64::from(*chain);
                    *chain += 1;
                }
            }
            meetings <= MOST_MEETINGS
        })
    }
}

/// The nodes of a hash part of so many bytes, if that may be one that matters.
fn nodes_of(bytes: usize) -> Option<usize> {
    let nodes = bytes / NODE_BYTES;
    (nodes >= FEWEST_NODES && nodes.is_power_of_two() && nodes * NODE_BYTES == bytes).then_some(nodes)
}

/// The allocator that Lua calls: the one behind it, but for tables.
unsafe extern "C" fn allocate(data: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: `watch` put it there, and `leave` was not called. Lua frees what it was given, with its size.
    unsafe {
        let crowds = &*data.cast_const().cast::<Crowds>();
        let Some((allocator, its)) = crowds.original.get() else { return std::ptr::null_mut() };
        let nodes = nodes_of(new);
        if let Some(nodes) = nodes
            && !crowds.have_room_in(nodes)
        {
            crowds.refused.set(true);
            return std::ptr::null_mut();
        }
        let given = allocator(its, block, old, new);
        if nodes_of(old).is_some() && (new == 0 || !given.is_null()) {
            crowds.parts.borrow_mut().remove(&block.addr());
        }
        if let Some(nodes) = nodes
            && !given.is_null()
        {
            crowds.parts.borrow_mut().insert(given.expose_provenance(), nodes);
        }
        given
    }
}
