//! A disk in memory that keeps what was synced and what was not apart, and does what bad disks do, from a seed.
//!
//! What the process sees is as if nothing ever went wrong: that is what the system's page cache shows. What is *kept* is
//! another matter, and a [`crash`](SimulatedDisk::crash) makes it what the next life sees: of every unsynced write nothing,
//! all, some sectors, or the bytes up to any one, in any order; of every unsynced change of names all or nothing. Faults are
//! asked for one by one ([`inject`](SimulatedDisk::inject)).
//!
//! For tests and the simulator: no thread, no file, no time. The same calls with the same seed have the same effect.

mod contents;
mod fault;
mod names;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use highwater_core::Random;

use contents::Contents;
pub use fault::Fault;
use fault::Faults;
use names::Names;

use crate::{Disk, DiskFile};

/// A handle to the disk. Its clones are handles to the same one, so that a test keeps one to crash it by.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

/// An open file of a [`SimulatedDisk`]. A crash closes it: calls fail from then on.
#[derive(Debug)]
pub struct SimulatedFile {
    state: Arc<Mutex<State>>,
    file: u64,
    /// In which life of the disk it was opened.
    life: u64,
    /// Counted: a removed file is forgotten once nobody has it open.
    _open: Arc<()>,
}

#[derive(Debug)]
struct State {
    files: BTreeMap<u64, Contents>,
    names: Names,
    next_file: u64,
    /// Crashes so far.
    life: u64,
    faults: Faults,
    capacity: Option<u64>,
    /// Calls so far that change something.
    changes: u64,
    /// The power fails in the call that changes something for the so-many-th time.
    power_fails_at: Option<u64>,
    powered: bool,
    random: Random,
}

impl SimulatedDisk {
    /// An empty one without limit, that draws from `seed`.
    pub fn new(seed: u64) -> SimulatedDisk {
        let state = State {
            files: BTreeMap::new(),
            names: Names::default(),
            next_file: 0,
            life: 0,
            faults: Faults::default(),
            capacity: None,
            changes: 0,
            power_fails_at: None,
            powered: true,
            random: Random::new(seed),
        };
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Another disk with the same files, names, and capacity, and what is kept of them; it has no faults to come.
    pub fn fork(&self, seed: u64) -> SimulatedDisk {
        let state = self.state();
        let copy = SimulatedDisk::new(seed);
        {
            let mut other = copy.state();
            other.files = state.files.iter().map(|(&id, contents)| (id, contents.fork())).collect();
            other.names = state.names.clone();
            other.next_file = state.next_file;
            other.capacity = state.capacity;
        }
        copy
    }

    /// Power fails, and comes back: draws what survives, closes all files, and forgets the power failure that was asked for.
    /// Other faults that have not happened yet stay.
    pub fn crash(&self) {
        let State { files, names, random, life, powered, power_fails_at, .. } = &mut *self.state();
        names.crash(random);
        files.retain(|&file, _| names.has(file));
        files.values_mut().for_each(|contents| contents.crash(random));
        *life += 1;
        *powered = true;
        *power_fails_at = None;
    }

    /// Asks for a fault in one call, once `after` others that it could have befallen have passed.
    pub fn inject(&self, fault: Fault, after: u64) {
        self.state().faults.add(fault, after, false);
    }

    /// Asks for a fault in every call that it can befall, from now on.
    pub fn inject_always(&self, fault: Fault) {
        self.state().faults.add(fault, 0, true);
    }

    /// No fault is to come any more. What happened stays.
    pub fn heal(&self) {
        self.state().faults = Faults::default();
    }

    /// The power fails in the middle of the call after the next `after` ones that change something: its effect is unsynced, it
    /// fails, and so does every one after it until [`crash`](SimulatedDisk::crash).
    pub fn fail_power(&self, after: u64) {
        let mut state = self.state();
        state.power_fails_at = Some(state.changes + after);
    }

    /// Whether the power has not failed since the last crash.
    pub fn is_powered(&self) -> bool {
        self.state().powered
    }

    /// How many calls so far changed something, or tried to: creations, renamings, removals, writes, syncs, changes of length.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// So many bytes are all that its files may have together; `None` is no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// What a file holds, as a process sees it; `None` if there is no such file.
    pub fn bytes_of(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        Some(state.files[&state.names.get(name)?].seen().to_vec())
    }

    /// Puts a file in the place of another one, or of none, as somebody would who restores a copy: it is synced, name and all.
    pub fn replace(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let file = state.add_file(Contents::synced(bytes.to_vec()));
        state.names.replace(name, file);
    }

    /// Removes a file as somebody would behind the process's back, for good.
    pub fn lose(&self, name: &str) {
        self.state().names.lose(name);
    }

    /// Changes a byte of a file where it is kept, by exclusive or.
    ///
    /// # Panics
    /// If there is no such file or byte.
    pub fn spoil(&self, name: &str, offset: u64, by: u8) {
        let mut state = self.state();
        let file = state.names.get(name).expect("the file to spoil exists");
        state.contents(file).spoil(offset as usize, by);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn open_file(&self, state: &State, file: u64) -> SimulatedFile {
        let open = state.files[&file].handle();
        SimulatedFile { state: self.state.clone(), file, life: state.life, _open: open }
    }
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;

    fn names(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.begin_read()?;
        state.open_something()?;
        Ok(state.names.all())
    }

    fn create(&self, name: &str, len: u64) -> io::Result<SimulatedFile> {
        let mut state = self.state();
        let change = state.begin_change()?;
        state.befall(Fault::FailNames)?;
        state.open_something()?;
        if state.names.get(name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.free() < len {
            return Err(full());
        }
        let file = state.add_file(Contents::created(len));
        state.names.create(name, file);
        change.end()?;
        Ok(self.open_file(&state, file))
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        let mut state = self.state();
        state.begin_read()?;
        state.befall(Fault::FailNames)?;
        state.open_something()?;
        let file = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.open_file(&state, file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let change = state.begin_change()?;
        state.befall(Fault::FailNames)?;
        state.names.rename(from, to)?;
        change.end()
    }

    fn reclaim(&self, from: &str, to: &str) -> io::Result<bool> {
        self.state().open_something()?;
        self.rename(from, to).map(|()| true)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let change = state.begin_change()?;
        state.befall(Fault::FailNames)?;
        state.names.remove(name)?;
        change.end()
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        state.begin_change()?.end()?;
        if state.faults.befalls(Fault::FailSyncNames) {
            let State { names, random, .. } = &mut *state;
            names.fail_sync(random);
            return Err(io_error());
        }
        if !state.faults.befalls(Fault::LieAboutSync) {
            state.names.sync();
        }
        let State { files, names, .. } = &mut *state;
        files.retain(|&file, contents| names.has(file) || contents.is_open());
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = self.state();
        state.begin_read()?;
        Ok(state.free())
    }
}

impl DiskFile for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.state_in_life()?;
        state.begin_read()?;
        Ok(state.contents(self.file).seen().len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state_in_life()?;
        state.begin_read()?;
        state.befall(Fault::FailRead)?;
        let seen = state.contents(self.file).seen();
        let start = seen.len().min(offset as usize);
        let read = buffer.len().min(seen.len() - start);
        buffer[..read].copy_from_slice(&seen[start..start + read]);
        if read > 0 && state.faults.befalls(Fault::CorruptRead) {
            let bit = state.random.below(read as u64 * 8);
            buffer[bit as usize / 8] ^= 1 << (bit % 8);
        }
        Ok(read)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state_in_life()?;
        let change = state.begin_change()?;
        let longer =
            (offset + bytes.len() as u64).saturating_sub(state.contents(self.file).seen().len() as u64);
        if longer > state.free() {
            return Err(full());
        }
        let State { files, faults, random, .. } = &mut *state;
        let contents = files.get_mut(&self.file).expect("an open file is not forgotten");
        if faults.befalls(Fault::FailWrite) {
            let part = random.below(bytes.len() as u64 + 1) as usize;
            contents.write(offset, &bytes[..part]);
            return Err(io_error());
        }
        if faults.befalls(Fault::LoseWrite) {
            contents.seem_to_write(offset, bytes);
        } else if faults.befalls(Fault::MisdirectWrite) {
            contents.seem_to_write(offset, bytes);
            let ids: Vec<u64> = files.keys().copied().collect();
            let other = files.get_mut(&random.pick(&ids)).expect("it was just listed");
            other.write_elsewhere(offset, bytes, random);
        } else {
            contents.write(offset, bytes);
        }
        change.end()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.state_in_life()?;
        let change = state.begin_change()?;
        state.befall(Fault::FailWrite)?;
        let longer = len.saturating_sub(state.contents(self.file).seen().len() as u64);
        if longer > state.free() {
            return Err(full());
        }
        state.contents(self.file).set_len(len as usize);
        change.end()
    }

    fn grow(&mut self, len: u64) -> io::Result<()> {
        if len <= self.len()? { Ok(()) } else { self.set_len(len) }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.state_in_life()?;
        state.begin_change()?.end()?;
        let State { files, faults, random, .. } = &mut *state;
        let contents = files.get_mut(&self.file).expect("an open file is not forgotten");
        if faults.befalls(Fault::FailSync) {
            contents.fail_sync(random);
            return Err(io_error());
        }
        if !faults.befalls(Fault::LieAboutSync) {
            contents.sync();
        }
        Ok(())
    }
}

impl SimulatedFile {
    fn state_in_life(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        if state.life != self.life {
            return Err(io::Error::other("the file was opened before the simulated crash"));
        }
        Ok(state)
    }
}

/// A call that changes something: whether the power fails in it.
#[must_use]
struct Change {
    power_fails: bool,
}

impl Change {
    fn end(self) -> io::Result<()> {
        if self.power_fails { Err(power_failed()) } else { Ok(()) }
    }
}

impl State {
    fn begin_read(&self) -> io::Result<()> {
        if self.powered { Ok(()) } else { Err(power_failed()) }
    }

    fn begin_change(&mut self) -> io::Result<Change> {
        self.begin_read()?;
        let power_fails = self.power_fails_at == Some(self.changes);
        self.changes += 1;
        self.powered = !power_fails;
        Ok(Change { power_fails })
    }

    fn befall(&mut self, fault: Fault) -> io::Result<()> {
        if self.faults.befalls(fault) { Err(io_error()) } else { Ok(()) }
    }

    fn open_something(&mut self) -> io::Result<()> {
        for (fault, number) in [(Fault::NoDescriptor, 24), (Fault::NoMemory, 12), (Fault::Signal, 4)] {
            if self.faults.befalls(fault) {
                return Err(io::Error::from_raw_os_error(number));
            }
        }
        Ok(())
    }

    fn contents(&mut self, file: u64) -> &mut Contents {
        self.files.get_mut(&file).expect("an open or named file is not forgotten")
    }

    fn add_file(&mut self, contents: Contents) -> u64 {
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, contents);
        file
    }

    fn free(&self) -> u64 {
        let used: u64 = self
            .files
            .iter()
            .filter(|(file, contents)| self.names.is_seen(**file) || contents.is_open())
            .map(|(_, contents)| contents.seen().len() as u64)
            .sum();
        self.capacity.map_or(u64::MAX / 2, |capacity| capacity.saturating_sub(used))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("nobody panics while holding a simulated disk")
}

/// EIO, as a system reports it.
fn io_error() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// ENOSPC, as a system reports it.
fn full() -> io::Error {
    io::Error::from_raw_os_error(28)
}

/// EMFILE, as a system reports it.
fn power_failed() -> io::Error {
    io::Error::other("the simulated power failed")
}

#[cfg(test)]
mod tests;
