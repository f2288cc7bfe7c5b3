//! The compiler and the places where instances stand: one of each for the process, made when the first module comes.

use std::sync::OnceLock;

use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, Linker, OptLevel, PoolingAllocationConfig,
    WasmBacktraceDetails,
};

use super::state::State;
use super::{host, limits};

/// Instances that stand at a time: a thread runs one, and there are at most so many workers.
const PLACES: u32 = highwater_core::limits::MAX_WORKERS as u32;
/// Stack of a procedure, in bytes; threads have more.
const STACK_BYTES: usize = 256 << 10;
/// Entries of a module's table of functions.
pub const TABLE_ENTRIES: usize = 10_000;
/// Bytes of an instance beside its memory and table: its globals and functions.
const INSTANCE_BYTES: usize = 256 << 10;
/// Room for a memory, at least: addresses cost nothing.
const LEAST_ROOM_BYTES: usize = 16 << 20;
/// So much of a memory is set back by writing over it, the rest by giving it back to the system, page by page.
const KEPT_BYTES: usize = 64 << 10;

/// What compiles modules, and what links them.
pub struct Machine {
    /// Compiles.
    pub engine: Engine,
    /// Knows the functions that modules import.
    pub linker: Linker<State>,
    /// Room for a memory: places are of one size.
    room_bytes: usize,
}

impl Machine {
    /// Bytes of an instance's memory, at most, on this thread.
    pub fn memory_bytes(&self) -> usize {
        limits().memory_bytes.min(self.room_bytes)
    }
}

/// This process's machine.
pub fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let memory_bytes = limits().memory_bytes.max(LEAST_ROOM_BYTES);
        // Where not even addresses may be had, instances take their memory as they come.
        let engine = Engine::new(&pooled(memory_bytes))
            .or_else(|_| Engine::new(&config(memory_bytes)))
            .expect("the settings fit each other");
        let linker = host::linker(&engine);
        Machine { engine, linker, room_bytes: memory_bytes }
    })
}

/// What is the same on every machine and in every attempt is what these settings leave.
fn config(memory_bytes: usize) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .cranelift_nan_canonicalization(true)
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_tail_call(false)
        .max_wasm_stack(STACK_BYTES)
        .memory_reservation(memory_bytes as u64)
        .memory_reservation_for_growth(0)
        .memory_guard_size(64 << 10)
        .guard_before_linear_memory(false)
        .wasm_backtrace_max_frames(None)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .generate_address_map(false)
        .native_unwind_info(false);
    config
}

fn pooled(memory_bytes: usize) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(PLACES)
        .total_memories(PLACES)
        .total_tables(PLACES)
        .max_unused_warm_slots(0)
        .max_core_instance_size(INSTANCE_BYTES)
        .max_memories_per_module(1)
        .max_tables_per_module(1)
        .table_elements(TABLE_ENTRIES)
        .table_keep_resident(TABLE_ENTRIES * 8)
        .max_memory_size(memory_bytes)
        .linear_memory_keep_resident(KEPT_BYTES);
    let mut config = config(memory_bytes);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}
