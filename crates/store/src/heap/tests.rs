use super::*;
use crate::sync::Ordering;

#[test]
fn classes_cover_all_sizes_with_bounded_waste() {
    for bytes in 1..=MAX_SIZED {
        let size = rounded(bytes);
        let step = if (32..=128).contains(&bytes) { ALIGN } else { 32 };
        assert!(size >= bytes && size - bytes < step.max(size / 8), "{bytes} -> {size}");
    }
}

#[test]
fn retired_memory_is_reused_only_when_no_guard_holds_it() {
    let heaps = Heaps::new();
    let (mut writer, reader) = (Heap::new(&heaps), Heap::new(&heaps));
    reader.pin();
    let piece = writer.alloc(100);
    writer.retire(piece, 100);
    writer.reclaim();
    assert_eq!(heaps.memory().retired, 112);
    assert_ne!(writer.alloc(100), piece);
    reader.shared.guards.unpin(reader.slot);
    writer.reclaim();
    assert_eq!(heaps.memory().retired, 0);
    assert_eq!(writer.alloc(100), piece);
}

#[test]
fn a_departed_worker_leaves_its_memory_to_the_others() {
    let heaps = Heaps::new();
    let mut first = Heap::new(&heaps);
    let pieces: Vec<_> = (0..100).map(|_| first.alloc(64)).collect();
    for piece in pieces {
        first.retire(piece, 64);
    }
    drop(first);
    let reserved = heaps.memory().reserved;
    let mut second = Heap::new(&heaps);
    for _ in 0..100 {
        second.alloc(64);
    }
    assert_eq!(heaps.memory().reserved, reserved);
}

#[test]
fn large_pieces_are_counted_and_given_back() {
    let heaps = Heaps::new();
    let mut heap = Heap::new(&heaps);
    let piece = heap.alloc(1 << 20);
    assert_eq!(heaps.memory().records, 1 << 20);
    heap.retire(piece, 1 << 20);
    heap.reclaim();
    assert_eq!((heaps.memory().used(), heaps.memory().reserved), (0, 0));
    heap.alloc(5000);
    assert_eq!(heaps.memory().used(), taken(5000) as u64);
}

/// What `rounded` says of a piece of its own size is the same again: pieces are given back by the size they have.
#[test]
fn sizes_are_stable() {
    for bytes in (1..10_000).chain((200 << 10)..(300 << 10)).chain((15 << 20)..(15 << 20) + 9000) {
        let size = rounded(bytes);
        assert!(size >= bytes && rounded(size) == size && taken(size) == taken(bytes), "{bytes} -> {size}");
        assert!(taken(bytes) <= bytes + bytes / 8 + 96, "{bytes} takes {}", taken(bytes));
    }
}

fn fill(heap: &mut Heap, size: usize, bytes: usize) -> Vec<NonNull<u8>> {
    (0..bytes / size).map(|_| heap.alloc(size)).collect()
}

fn empty(heap: &mut Heap, pieces: Vec<NonNull<u8>>, size: usize) {
    for piece in pieces {
        heap.retire(piece, size);
        heap.unpin();
    }
    heap.reclaim();
}

/// Sum of the parts, and nothing negative: whatever was done.
fn assert_sound(memory: Memory) {
    assert_eq!(memory.used() + memory.free, memory.reserved, "{memory:?}");
    assert!(memory.spare <= memory.free, "{memory:?}");
}

#[test]
fn memory_of_one_size_is_used_for_another() {
    const BYTES: usize = 64 << 20;
    let heaps = Heaps::new();
    let mut heap = Heap::new(&heaps);
    let pieces = fill(&mut heap, 128, BYTES);
    let full = heaps.memory();
    assert_sound(full);
    assert!(full.reserved < (BYTES + (4 << 20)) as u64, "{full:?}");
    empty(&mut heap, pieces, 128);
    // Most of it has gone back to the system, of itself; asked, the heap gives up the rest.
    assert_sound(heaps.memory());
    heaps.gather();
    heap.tend();
    let emptied = heaps.memory();
    assert_sound(emptied);
    assert_eq!(emptied.used(), 0);
    assert!(emptied.reserved <= full.reserved / 8, "{emptied:?}");
    for size in [1024, 4096, 32, 608] {
        let pieces = fill(&mut heap, size, BYTES);
        let again = heaps.memory();
        assert_sound(again);
        assert!(again.reserved <= full.reserved + full.reserved / 10, "size {size}: {again:?}");
        empty(&mut heap, pieces, size);
    }
}

/// Every other piece stays: nothing can go back, but all that is free serves again.
#[test]
fn scattered_pieces_serve_again() {
    let heaps = Heaps::new();
    let mut heap = Heap::new(&heaps);
    let pieces = fill(&mut heap, 256, 32 << 20);
    let full = heaps.memory();
    let (mut odd, mut even) = (Vec::new(), Vec::new());
    pieces
        .into_iter()
        .enumerate()
        .for_each(|(at, piece)| if at % 2 == 0 { &mut even } else { &mut odd }.push(piece));
    empty(&mut heap, odd, 256);
    assert_eq!(heaps.memory().reserved, full.reserved);
    let odd = fill(&mut heap, 256, 16 << 20);
    assert_eq!(heaps.memory().reserved, full.reserved, "free pieces come before fresh blocks");
    empty(&mut heap, odd, 256);
    empty(&mut heap, even, 256);
    assert_eq!(heaps.memory().used(), 0);
}

/// Tree nodes' memory is given back, too, but never becomes anything else: a finger may still look at it.
#[test]
fn memory_of_nodes_stays_of_nodes() {
    let heaps = Heaps::new();
    let mut heap = Heap::new(&heaps);
    let nodes: Vec<_> = (0..20_000).map(|_| heap.alloc_index(NODE)).collect();
    for node in &nodes {
        // SAFETY: a node's first word is its version; the piece is ours.
        unsafe { node.cast::<u64>().write(7) };
    }
    let full = heaps.memory();
    assert!(full.index >= 20_000 << 10);
    for node in &nodes {
        heap.retire_index(*node, NODE);
    }
    heap.reclaim();
    heap.shared.flushes.fetch_add(1, Ordering::Relaxed);
    heap.tend();
    let emptied = heaps.memory();
    assert_sound(emptied);
    assert!(emptied.reserved < full.reserved / 4, "{emptied:?}");
    for node in &nodes {
        // SAFETY: it was a node once, so it may be looked at.
        let version = unsafe { node.cast::<u64>().read() };
        assert!(version == 7 || version == 0);
    }
    let records = fill(&mut heap, 1024, 40 << 20);
    let nodes: std::collections::HashSet<_> = nodes.into_iter().collect();
    assert!(records.iter().all(|record| !nodes.contains(record)), "a node's memory became a record's");
    let again: Vec<_> = (0..20_000).map(|_| heap.alloc_index(NODE)).collect();
    assert!(
        again.iter().filter(|node| nodes.contains(node)).count() > 18_000,
        "nodes come back to their memory"
    );
}

#[test]
fn reserved_memory_stays_and_is_used_first() {
    let heaps = Heaps::new();
    heaps.reserve(20 << 20);
    let reserved = heaps.memory().reserved;
    assert_eq!(reserved, 20 << 20);
    for _ in 0..3 {
        let mut heap = Heap::new(&heaps);
        let pieces = fill(&mut heap, 512, 18 << 20);
        assert_eq!(heaps.memory().reserved, reserved);
        empty(&mut heap, pieces, 512);
        drop(heap);
        assert_eq!(heaps.memory().reserved, reserved);
    }
}

#[test]
fn who_provisions_stays_ahead_and_within_the_limit() {
    let heaps = Heaps::new();
    let mut heap = Heap::new(&heaps);
    for _ in 0..300 {
        heaps.provision(u64::MAX, false);
    }
    assert_eq!(heaps.memory().reserved, 0, "an idle store takes nothing");
    for _ in 0..20 {
        let _ = fill(&mut heap, 1024, 4 << 20);
        heaps.provision(u64::MAX, false);
    }
    let memory = heaps.memory();
    assert!((8 << 20..=12 << 20).contains(&memory.spare), "an eighth of 80 MiB: {memory:?}");
    let limit = memory.reserved + (5 << 20);
    for _ in 0..20 {
        let _ = fill(&mut heap, 1024, 512 << 10);
        heaps.provision(limit, false);
        assert!(heaps.memory().reserved <= limit);
    }
    for _ in 0..1000 {
        heaps.provision(u64::MAX, false);
    }
    assert!(heaps.memory().spare <= 8 << 20, "idle again: {:?}", heaps.memory());
}

/// Short-lived heaps, as visits and copies make them, leave nothing behind but what they hold.
#[test]
fn a_thousand_heaps_cost_no_more_than_one() {
    let heaps = Heaps::new();
    for _ in 0..1000 {
        let mut heap = Heap::new(&heaps);
        for size in [64, 200, 1000] {
            heap.alloc(size);
        }
    }
    let memory = heaps.memory();
    assert!(memory.reserved - memory.spare < memory.used() + (100 << 10), "{memory:?}");
}
