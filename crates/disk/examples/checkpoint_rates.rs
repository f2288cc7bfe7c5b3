//! How fast checkpoints are written and loaded, on a real file system: 100-byte and 1 kB rows, 1 and 2 threads.
//!
//! ```text
//! cargo run --profile dist -p highwater-disk --example checkpoint_rates -- [FOLDER] [MEGABYTES]
//! ```
//!
//! Writing counts from the first chunk to publication, syncs included. Files are in the page cache when they are loaded, so
//! this is what loading costs the processor; a slow disk adds its own time.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use highwater_core::limits::CHUNK_BYTES;
use highwater_core::{Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction};
use highwater_disk::checkpoint::{Error, Loader, PartWriter, Scan, WriteStep, Writer, WrittenPart};
use highwater_disk::{Disk, DiskFile};
use highwater_store::{Occ, Store};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let megabytes: u64 = args.next().map_or(Ok(1000), |text| text.parse())?;
    let folder = parent.join(format!("checkpoint-rates-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let outcome = measure_all(&folder, megabytes * 1_000_000);
    fs::remove_dir_all(&folder)?;
    outcome
}

fn measure_all(folder: &Path, bytes: u64) -> Outcome<()> {
    for value in [100, 1000] {
        let store = filled(bytes, value)?;
        for threads in [1, 2] {
            measure(folder, &store, value, threads)?;
        }
    }
    Ok(())
}

fn schema() -> Schema {
    Schema::new(vec![TableSpec { name: "rows", keys: KeyKind::U64, index: IndexKind::Hash }])
}

/// A store with `bytes` of values.
fn filled(bytes: u64, value: usize) -> Outcome<Arc<Store>> {
    let store = Store::new(schema());
    let mut occ = Occ::new(store.clone(), Arc::new(Clock::counter()));
    let row = vec![7; value];
    for key in 0..bytes / value as u64 {
        occ.begin();
        let put = occ.put(TableId(0), &key.to_be_bytes(), &row);
        put.and_then(|()| occ.commit()).map_err(|abort| format!("{abort:?}"))?;
        occ.log().take(Vec::new());
    }
    Ok(store)
}

fn measure(folder: &Path, store: &Arc<Store>, value: usize, threads: u16) -> Outcome<()> {
    let disk = Folder(folder.to_path_buf());
    let began = Instant::now();
    let scan = Scan { floor: Timestamp::ZERO, parts: threads, expected_bytes: 0, from_ballast: false };
    let (writer, parts) = Writer::begin(&disk, store, scan)?;
    let written: Result<Vec<WrittenPart>, Error> = thread::scope(|scope| {
        let all: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || write(part))).collect();
        all.into_iter().map(|thread| thread.join().expect("writing does not panic")).collect()
    });
    let manifest = writer.publish(&disk, written?, Timestamp::MAX, Vec::new())?;
    let write_seconds = began.elapsed().as_secs_f64();

    let copy = Store::new(schema());
    let began = Instant::now();
    let loading = Loader::new(&disk)?.next(&disk, &copy, u64::MAX)?.ok_or("nothing to load")?;
    let loaded: Result<(), Error> = thread::scope(|scope| {
        let load = |mut part: highwater_disk::checkpoint::PartLoader<FolderFile>| {
            while part.step()? {}
            Ok(())
        };
        let all: Vec<_> = loading.parts.into_iter().map(|part| scope.spawn(move || load(part))).collect();
        all.into_iter().try_for_each(|thread| thread.join().expect("loading does not panic"))
    });
    loaded?;
    let load_seconds = began.elapsed().as_secs_f64();
    assert_eq!(copy.digest(), store.digest());
    let gigabytes = manifest.len_bytes() as f64 / 1e9;
    println!(
        "{value:>5}-byte rows, {threads} thread(s): {gigabytes:.2} GB, write {:.2} GB/s, load {:.2} GB/s ({:.1} M rows/s)",
        gigabytes / write_seconds,
        gigabytes / load_seconds,
        manifest.records() as f64 / load_seconds / 1e6
    );
    Ok(())
}

fn write(mut part: PartWriter<FolderFile>) -> Result<WrittenPart, Error> {
    loop {
        match part.step(CHUNK_BYTES)? {
            WriteStep::More(more) => part = more,
            WriteStep::Done(written) => return Ok(written),
        }
    }
}

/// A directory, no more than this needs.
struct Folder(PathBuf);

struct FolderFile(File);

impl Disk for Folder {
    type File = FolderFile;

    fn names(&self) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        fs::read_dir(&self.0)?.map(name).collect()
    }

    fn create(&self, name: &str, len: u64) -> io::Result<FolderFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.0.join(name))?;
        file.set_len(len)?;
        Ok(FolderFile(file))
    }

    fn open(&self, name: &str) -> io::Result<FolderFile> {
        OpenOptions::new().read(true).write(true).open(self.0.join(name)).map(FolderFile)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

impl DiskFile for FolderFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.len()?.saturating_sub(offset);
        let read = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        self.0.read_exact_at(&mut buffer[..read], offset)?;
        Ok(read)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}
