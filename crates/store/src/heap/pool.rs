//! What the heaps of one store share: chunks of the system's memory, cut into blocks, and the free pieces in them.
//!
//! A block belongs to one class as long as one of its pieces is in use or with a heap. When the last one has come back,
//! the block is free for any class; when all blocks of a chunk are free, the chunk is *spare*: the next one that is
//! needed, or given back to the system.
//!
//! **Tree nodes** have chunks of their own. A stale pointer to one may be looked at long after it was reclaimed (see
//! `tree::node`), so its memory may only ever be a node, or zeros: such a chunk is never unmapped and never used for
//! anything else; its pages are given back, though, and it stands by for later nodes.
//!
//! Hash segments and small parts of indexes have chunks of their own, too. A table keeps them when its records go, so
//! among records they would keep whole chunks from becoming free.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;

use super::classes::{CLASSES, NODE, SEGMENT, SIZES};
use super::system;

/// Bytes of a block. Blocks are aligned to their size.
pub(super) const BLOCK: usize = 32 << 10;
/// Bytes of a chunk, as a rule: a huge page.
pub(super) const CHUNK: usize = 2 << 20;
/// Bytes of a store's first chunks: less, because small stores are made often in tests.
const SMALL_CHUNK: usize = 256 << 10;
/// So many bytes are in small chunks.
const SMALL: usize = 1 << 20;
/// Spare chunks are kept up to this part of what is reserved, for what comes next.
const KEPT_PART: usize = 16;
/// And so many in any case.
const KEPT_CHUNKS: usize = 2;

/// The largest number of pieces in a block.
const PIECES: usize = BLOCK / SIZES[0];
/// The class of a block that is free.
const NONE: u8 = u8::MAX;

/// What a chunk is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Records,
    Nodes,
    Parts,
}

impl Use {
    fn of(class: u8) -> Use {
        match class {
            NODE => Use::Nodes,
            SEGMENT.. => Use::Parts,
            _ => Use::Records,
        }
    }
}

/// Invariant: the bits say which pieces are here; the others are in use, or with heaps.
struct Block {
    class: u8,
    free: u16,
    bits: [u64; PIECES / 64],
}

impl Block {
    const FREE: Block = Block { class: NONE, free: 0, bits: [0; PIECES / 64] };
}

struct Chunk {
    at: NonNull<u8>,
    /// Which blocks are free.
    free: u64,
    blocks: Box<[Block]>,
    used_for: Use,
}

impl Chunk {
    fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    fn all_free(&self) -> u64 {
        u64::MAX >> (64 - self.blocks.len())
    }
}

/// A chunk that nobody uses.
struct Spare {
    at: NonNull<u8>,
    /// Holds zeros.
    clean: bool,
}

/// A piece that is free.
#[derive(Clone, Copy)]
pub(super) struct Free {
    pub at: NonNull<u8>,
    pub class: u8,
}

// SAFETY: chunks and pieces are memory that their holder owns; no thread is tied to them.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Send for Spare {}

/// See the module's text.
pub(super) struct Pool {
    /// By address.
    chunks: BTreeMap<usize, Chunk>,
    /// Chunks with free blocks, by address, for each use.
    open: [BTreeSet<usize>; 3],
    /// Chunks for nodes whose pages are with the system.
    returned: Vec<usize>,
    /// Blocks of each class with free pieces. The lowest are used first, so that the others may become free.
    partial: [BTreeSet<usize>; CLASSES],
    spare: Vec<Spare>,
    /// Bytes in all chunks, but for those that are with the system.
    pub reserved: usize,
    /// Bytes in free blocks and spare chunks.
    pub spare_bytes: usize,
    /// Not below this many bytes is anything given back.
    pub keep: usize,
    /// Chunks ever asked for.
    pub demand: u64,
}

impl Pool {
    pub fn new() -> Pool {
        Pool {
            chunks: BTreeMap::new(),
            open: [const { BTreeSet::new() }; 3],
            returned: Vec::new(),
            partial: [const { BTreeSet::new() }; CLASSES],
            spare: Vec::new(),
            reserved: 0,
            spare_bytes: 0,
            keep: 0,
            demand: 0,
        }
    }

    /// A block for pieces of `class`: zeroed, or as its last users left it.
    pub fn take_block(&mut self, class: u8) -> NonNull<u8> {
        let used_for = Use::of(class);
        let base = match self.open[used_for as usize].first() {
            Some(base) => *base,
            None => self.open_chunk(used_for),
        };
        let chunk = self.chunks.get_mut(&base).expect("open chunks are there");
        let at = chunk.free.trailing_zeros() as usize;
        chunk.free &= chunk.free - 1;
        chunk.blocks[at].class = class;
        if chunk.free == 0 {
            self.open[used_for as usize].remove(&base);
        }
        self.spare_bytes -= BLOCK;
        // SAFETY: a chunk has so many blocks.
        unsafe { chunk.at.add(at * BLOCK) }
    }

    fn open_chunk(&mut self, used_for: Use) -> usize {
        self.demand += 1;
        let for_nodes = used_for == Use::Nodes;
        if for_nodes && let Some(base) = self.returned.pop() {
            let chunk = &self.chunks[&base];
            let bytes = chunk.bytes();
            self.reserved += bytes;
            self.spare_bytes += bytes;
            self.open[Use::Nodes as usize].insert(base);
            return base;
        }
        // Nodes need zeros; for anything else what was used last is best.
        let clean = || self.spare.iter().position(|spare| spare.clean);
        let number = if for_nodes { clean() } else { None }.or(self.spare.len().checked_sub(1));
        let (at, bytes) = match number.map(|number| self.spare.remove(number)) {
            Some(Spare { at, clean }) => {
                if for_nodes && !clean {
                    // SAFETY: nobody uses a spare chunk, and no pointer to a node leads there.
                    unsafe { at.write_bytes(0, CHUNK) };
                }
                (at, CHUNK)
            }
            None => {
                let bytes = if self.reserved < SMALL { SMALL_CHUNK } else { CHUNK };
                let align = if bytes == CHUNK { CHUNK } else { BLOCK };
                let at = system::map(bytes, align).unwrap_or_else(|| system::out_of_memory(bytes));
                self.reserved += bytes;
                self.spare_bytes += bytes;
                (at, bytes)
            }
        };
        let blocks: Box<[Block]> = (0..bytes / BLOCK).map(|_| Block::FREE).collect();
        let mut chunk = Chunk { at, free: 0, blocks, used_for };
        chunk.free = chunk.all_free();
        let base = at.as_ptr().addr();
        self.chunks.insert(base, chunk);
        self.open[used_for as usize].insert(base);
        base
    }

    /// Takes free pieces of a class, up to `most`.
    pub fn take_pieces(&mut self, class: u8, most: usize, into: &mut Vec<NonNull<u8>>) {
        let size = SIZES[class as usize];
        let mut left = most;
        while left > 0
            && let Some(&address) = self.partial[class as usize].first()
        {
            let (_, chunk) = self.chunks.range_mut(..=address).next_back().expect("blocks are in chunks");
            let number = (address - chunk.at.as_ptr().addr()) / BLOCK;
            let block = &mut chunk.blocks[number];
            for (word, bits) in block.bits.iter_mut().enumerate() {
                while *bits != 0 && left > 0 {
                    let piece = word * 64 + bits.trailing_zeros() as usize;
                    *bits &= *bits - 1;
                    block.free -= 1;
                    left -= 1;
                    // SAFETY: the block is of this class and has so many pieces.
                    into.push(unsafe { chunk.at.add(number * BLOCK + piece * size) });
                }
            }
            if block.free == 0 {
                self.partial[class as usize].pop_first();
            }
        }
    }

    /// Takes pieces back. Chunks that the caller is to unmap, without the pool's lock, go to `freed`.
    pub fn give_pieces(&mut self, pieces: impl Iterator<Item = Free>, freed: &mut Vec<NonNull<u8>>) {
        for piece in pieces {
            self.give(piece, freed);
        }
    }

    fn give(&mut self, piece: Free, freed: &mut Vec<NonNull<u8>>) {
        let (size, address) = (SIZES[piece.class as usize], piece.at.as_ptr().addr());
        let (&base, chunk) = self.chunks.range_mut(..=address).next_back().expect("pieces are in chunks");
        let number = (address - base) / BLOCK;
        let block = &mut chunk.blocks[number];
        let at = (address - base) % BLOCK / size;
        assert!(
            block.class == piece.class && ((address - base) % BLOCK).is_multiple_of(size),
            "a piece of its block"
        );
        assert!(block.bits[at / 64] >> (at % 64) & 1 == 0, "a piece is given once");
        block.bits[at / 64] |= 1 << (at % 64);
        block.free += 1;
        let partial = &mut self.partial[piece.class as usize];
        if (block.free as usize) < BLOCK / size {
            if block.free == 1 {
                partial.insert(base + number * BLOCK);
            }
            return;
        }
        partial.remove(&(base + number * BLOCK));
        *block = Block::FREE;
        chunk.free |= 1 << number;
        self.spare_bytes += BLOCK;
        self.open[chunk.used_for as usize].insert(base);
        if chunk.free == chunk.all_free() && chunk.bytes() == CHUNK {
            self.close_chunk(base, freed);
        }
    }

    /// A chunk has become free as a whole.
    fn close_chunk(&mut self, base: usize, freed: &mut Vec<NonNull<u8>>) {
        let chunk = &self.chunks[&base];
        if chunk.used_for == Use::Nodes {
            // The last chunk with free blocks stays. Otherwise nodes that come and go would have its pages given back and
            // taken again each time.
            if self.open[Use::Nodes as usize].len() > 1 && self.reserved - CHUNK >= self.keep {
                // SAFETY: nobody uses its nodes; a finger that still leads to one finds it to be of no tree.
                unsafe { system::discard(chunk.at, CHUNK) };
                self.open[Use::Nodes as usize].remove(&base);
                self.returned.push(base);
                self.reserved -= CHUNK;
                self.spare_bytes -= CHUNK;
            }
            return;
        }
        let chunk = self.chunks.remove(&base).expect("the chunk is there");
        self.open[chunk.used_for as usize].remove(&base);
        self.spare.push(Spare { at: chunk.at, clean: false });
        let most = (self.reserved / CHUNK / KEPT_PART).max(KEPT_CHUNKS);
        self.give_back(most, freed);
    }

    /// Gives spare chunks beyond `most` back: the caller unmaps them, without the pool's lock.
    pub fn give_back(&mut self, most: usize, freed: &mut Vec<NonNull<u8>>) {
        while self.spare.len() > most && self.reserved - CHUNK >= self.keep {
            // The oldest: those used last are the warmest.
            let spare = self.spare.remove(0);
            self.reserved -= CHUNK;
            self.spare_bytes -= CHUNK;
            freed.push(spare.at);
        }
    }

    /// A fresh chunk, whose pages are in place.
    pub fn add_spare(&mut self, at: NonNull<u8>) {
        self.spare.insert(0, Spare { at, clean: true });
        self.reserved += CHUNK;
        self.spare_bytes += CHUNK;
    }

    pub fn spare_chunks(&self) -> usize {
        self.spare.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let chunks = self.chunks.values().map(|chunk| (chunk.at, chunk.bytes()));
        for (at, bytes) in chunks.chain(self.spare.iter().map(|spare| (spare.at, CHUNK))) {
            // SAFETY: these ranges are mapped, and nobody is left who could use them: heaps and stores hold an `Arc` of
            // what this is in.
            unsafe { system::unmap(at, bytes) };
        }
    }
}
