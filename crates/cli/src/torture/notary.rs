//! Before and after the load: accounts are opened, and everything is read once more.

use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use highwater_checker::Status;

use super::client::session::{Asks, Session, Setup};
use super::client::work::{ACCOUNTS, List, Lists, Step, Task, Values};
use crate::failure::{Failure, Result};
use crate::fleet::Fleet;
use crate::verify;

/// How long a whole cluster may take to answer one transaction.
const PATIENCE: Duration = Duration::from_secs(10);
/// And how long it may refuse.
const STUBBORN: Duration = Duration::from_secs(30);
/// Keys read in one transaction.
const READS: usize = 8;

/// Somebody besides the load who writes history: a client with a number of its own.
#[derive(Clone, Copy, Debug)]
pub struct Notary<'a> {
    /// Its number.
    pub number: u64,
    /// How many write history.
    pub of: u64,
    /// Where it goes.
    pub directory: &'a Path,
}

impl Notary<'_> {
    /// Gives every account its opening balance, on every replica.
    pub fn open_accounts(self, doors: &[SocketAddr], fleet: &Fleet) -> Result<()> {
        let mut session = self.session(Asks::Leader, doors, "opening")?;
        let mut values = Values::new(self.number, self.of);
        insist("the accounts cannot be opened", || {
            if !session.connected() {
                return Ok(Status::Fail);
            }
            let ids: Vec<i64> = (0..ACCOUNTS).map(|_| values.fresh()).collect();
            session.open_accounts(&ids)
        })?;
        finish(session)?;
        // From now on no snapshot is without them.
        verify::converge(fleet).map(drop)
    }

    /// Reads every list that ever was, and the accounts: of the leader, or of one replica's snapshots.
    pub fn read_everything(self, asks: Asks, doors: &[SocketAddr], generations: &[u32]) -> Result<()> {
        let name = format!("final-{}", self.number);
        let mut session = self.session(asks, doors, &name)?;
        let lists: Vec<Step> = generations
            .iter()
            .enumerate()
            .flat_map(|(slot, last)| (0..=*last).map(move |generation| List { slot, generation }))
            .map(|list| Step { list, append: None })
            .collect();
        let tasks = lists.chunks(READS).map(|steps| Task::Lists(steps.to_vec())).chain([Task::Total]);
        for task in tasks {
            insist(&format!("the final reads ({asks:?}) are refused"), || match session.connected() {
                true => session.run(&task, &Lists::default()),
                false => Ok(Status::Fail),
            })?;
        }
        if let Some(trouble) = session.trouble.first() {
            return Err(Failure::negative(format!("at the final reads: {trouble}")));
        }
        finish(session)
    }

    fn session(&self, asks: Asks, doors: &[SocketAddr], name: &str) -> Result<FileSession> {
        let Notary { number, of, directory } = *self;
        let path = directory.join(format!("{name}.jsonl"));
        let cannot = |error| Failure::cannot_start(format!("cannot write {}: {error}", path.display()));
        let file = BufWriter::new(File::create(&path).map_err(cannot)?);
        let setup = Setup { asks, doors: doors.to_vec(), number, of, patience: PATIENCE, seed: number };
        Ok(Session::new(setup, file))
    }
}

type FileSession = Session<BufWriter<File>>;

fn finish(session: FileSession) -> Result<()> {
    session.finish().map_err(|error| Failure::negative(format!("cannot write the history: {error}")))
}

/// Tries until it is told committed.
fn insist(what: &str, mut attempt: impl FnMut() -> std::io::Result<Status>) -> Result<()> {
    let began = Instant::now();
    loop {
        let status =
            attempt().map_err(|error| Failure::negative(format!("cannot write the history: {error}")))?;
        match status {
            Status::Ok => return Ok(()),
            _ if began.elapsed() > STUBBORN => {
                return Err(Failure::negative(format!("{what} for {} s", STUBBORN.as_secs())));
            }
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
}
