//! One writer at a time: an object says who it is, and that it lives.
//!
//! `writer.json` is made by whoever begins to write, if it is not there, and written anew every few seconds. Its end is written, too. Who finds
//! it there looks on: if it changes, its writer lives. If it does not for as long as no living writer would leave it, or if the writer was a
//! process of this machine that is gone, the finder takes it over, in the one step that the store makes of a conditional write.
//!
//! This keeps two writers from wasting each other's work. Two that both believe to be the one cannot spoil an archive either way: each object
//! that counts is written under the condition that it is what its writer believes it is.

use std::fs;
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, Result, UpdateVersion};
use serde::{Deserialize, Serialize};

use super::requests::{Condition, put};

/// How often a writer says that it lives.
const EVERY: Duration = Duration::from_secs(5);
/// How long a finder looks on, at most.
const LOOKED_ON: Duration = Duration::from_secs(30);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The object.
pub const WRITER: &str = "writer.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Writer {
    /// Of one process, at one time.
    id: String,
    /// The boot of its machine, and the process's view of it: process ids of the same view are comparable.
    machine: String,
    pid: u32,
    /// When the process began, as its machine counts.
    since: u64,
    /// How often it has said that it lives.
    turn: u64,
    /// It has ended.
    done: bool,
}

impl Writer {
    fn this() -> io::Result<Writer> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let view = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Ok(Writer {
            id: format!("{:016x}", getrandom::u64().map_err(io::Error::other)?),
            machine: format!("{} {}", boot.trim(), view.display()),
            pid: process::id(),
            since: began(process::id()).unwrap_or(0),
            turn: 0,
            done: false,
        })
    }

    /// Whether it surely writes no more.
    fn is_gone(&self, this: &Writer) -> bool {
        self.done || self.machine == this.machine && began(self.pid) != Some(self.since)
    }

    fn bytes(&self) -> bytes::Bytes {
        serde_json::to_vec(self).expect("strings and numbers").into()
    }
}

/// When a process of this machine began; `None` if it does not run.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything: the state, and the 19th field after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    (fields.next()? != "Z").then(|| fields.nth(18)?.parse().ok())?
}

/// A claim that holds, or was lost.
#[derive(Debug)]
pub struct Claim {
    store: Arc<dyn ObjectStore>,
    path: Path,
    state: Mutex<(Writer, UpdateVersion)>,
    /// Held while it is said that this process lives.
    saying: tokio::sync::Mutex<()>,
    lost: AtomicBool,
    /// Whether the store asks for conditions.
    pub conditions: bool,
}

impl Claim {
    /// Makes it, or takes it over. `looks_on`: told that somebody else has it, for how many seconds at most that is looked at.
    ///
    /// # Errors
    /// [`AlreadyExists`](Error::AlreadyExists) if its writer lives; the store's.
    pub async fn take(
        store: Arc<dyn ObjectStore>,
        folder: &Path,
        patience: Duration,
        looks_on: impl Fn(u64),
    ) -> Result<Claim> {
        let path = folder.clone().join(WRITER);
        let generic = |source: io::Error| Error::Generic { store: "claim", source: source.into() };
        let this = Writer::this().map_err(generic)?;
        let condition = match store.get(&path).await {
            Err(Error::NotFound { .. }) => Condition::Absent,
            Err(error) => return Err(error),
            Ok(found) => Condition::Still(gone(&*store, &path, found, &this, looks_on).await?),
        };
        let version = put(&*store, &path, this.bytes(), condition, patience).await?;
        // A store that lets it be made a second time does not look at conditions.
        let mut claim = Claim {
            conditions: true,
            saying: tokio::sync::Mutex::new(()),
            lost: AtomicBool::new(false),
            state: Mutex::new((this.clone(), version)),
            path,
            store,
        };
        let again =
            claim.store.put_opts(&claim.path, PutPayload::from(this.bytes()), PutMode::Create.into()).await;
        if let Ok(again) = again {
            claim.conditions = false;
            let version = UpdateVersion { e_tag: again.e_tag, version: again.version };
            claim.state = Mutex::new((this, version));
        } else if let Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) = again {
            claim.conditions = false;
        }
        Ok(claim)
    }

    /// Says again and again that this process lives.
    pub async fn keep(self: Arc<Claim>, patience: Duration) {
        loop {
            tokio::time::sleep(EVERY).await;
            if self.confirm(patience).await.is_err_and(|error| is_other(&error)) {
                return;
            }
            // Whatever else went wrong: the next time may be better.
        }
    }

    /// Says so now, and so finds out whether another process has taken it over.
    ///
    /// # Errors
    /// [`Precondition`](Error::Precondition) if one has; the store's.
    pub async fn confirm(&self, patience: Duration) -> Result<()> {
        let said = self.say(false, patience).await;
        if said.as_ref().is_err_and(is_other) {
            self.lost.store(true, Ordering::Relaxed);
        }
        said
    }

    /// Whether another process has taken it over.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Says that this process writes no more.
    pub async fn end(&self, patience: Duration) -> Result<()> {
        self.say(true, patience).await
    }

    async fn say(&self, done: bool, patience: Duration) -> Result<()> {
        // One at a time: of two that begin from one version the second would take the first for another process.
        let _alone = self.saying.lock().await;
        let (mut writer, version) = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        writer.turn += 1;
        writer.done = done;
        let version =
            put(&*self.store, &self.path, writer.bytes(), Condition::Still(version), patience).await?;
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = (writer, version);
        Ok(())
    }
}

fn is_other(error: &Error) -> bool {
    matches!(error, Error::Precondition { .. } | Error::AlreadyExists { .. })
}

/// Whether somebody writes, as far as one look tells: a process of another machine that ended without a word counts.
pub async fn may_be_claimed(store: &dyn ObjectStore, folder: &Path) -> Result<bool> {
    let found = match store.get(&folder.clone().join(WRITER)).await {
        Err(Error::NotFound { .. }) => return Ok(false),
        found => found?.bytes().await?,
    };
    let this = Writer::this().map_err(|source| Error::Generic { store: "claim", source: source.into() })?;
    let writer: Option<Writer> = serde_json::from_slice(&found).ok();
    Ok(writer.is_none_or(|writer| !writer.is_gone(&this)))
}

/// The version of a claim whose writer is gone.
async fn gone(
    store: &dyn ObjectStore,
    path: &Path,
    mut found: object_store::GetResult,
    this: &Writer,
    looks_on: impl Fn(u64),
) -> Result<UpdateVersion> {
    let (began, mut first) = (Instant::now(), None);
    loop {
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        let bytes = found.bytes().await?;
        let writer: Option<Writer> = serde_json::from_slice(&bytes).ok();
        if writer.as_ref().is_some_and(|writer| writer.is_gone(this)) {
            return Ok(version);
        }
        match &first {
            None => {
                looks_on(LOOKED_ON.as_secs());
                first = Some(bytes);
            }
            Some(first) if *first != bytes => {
                let source = "its writer lives".into();
                return Err(Error::AlreadyExists { path: path.to_string(), source });
            }
            Some(_) if began.elapsed() >= LOOKED_ON => return Ok(version),
            Some(_) => {}
        }
        tokio::time::sleep(LOOK_EVERY).await;
        found = store.get(path).await?;
    }
}
