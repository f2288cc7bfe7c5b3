//! A transaction's code, by name: procedures, and the registry that an engine calls through.

use crate::contain::{self, Panicked, contain};
use crate::footprint::Footprint;
use crate::hooks::{self, Fact};
use crate::ids::{ProcedureId, TableId};
use crate::signature::Signature;
use crate::transaction::{Abort, Transaction};

/// A transaction's code. Deterministic: the same arguments on the same data give the same writes and reply.
pub trait Procedure: 'static {
    /// Unique name, `family.verb`.
    const NAME: &'static str;
    /// Grows when the same arguments come to mean something else. Nodes that have different versions refuse each other: where
    /// every replica executes, they would diverge.
    const VERSION: u32 = 1;

    /// Says which keys or partitions the code may touch with these arguments; `false` if that is not known beforehand (also of
    /// arguments that make no sense). Engines that need not know do not ask.
    fn footprint(args: &[u8], footprint: &mut Footprint) -> bool {
        let _ = (args, footprint);
        false
    }

    /// What it takes and gives, if clients may call it by name; `None`: nobody outside of the node may.
    fn signature() -> Option<&'static Signature> {
        None
    }

    /// The part of the arguments that makes two requests the same one, for [sessions](Outcome::Denied): all of them, unless hosts add
    /// something of the moment (the time, a seed), which a repeated request gets anew.
    fn identity(args: &[u8]) -> &[u8] {
        args
    }

    /// Runs once per attempt. `reply` is empty at the start of each attempt; its content reaches the client on
    /// commit, on [`Abort::Rollback`] and on [`Abort::BadRequest`].
    ///
    /// A panic is as good as [`Abort::BadRequest`], with [`explain_panic`](Procedure::explain_panic) for a reply; see
    /// [`Transaction`] for what may be seen before.
    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort>;

    /// What a client is told if the code panicked on data that it really saw: writes it into the empty `reply`, in the
    /// form that this procedure's clients understand.
    fn explain_panic(message: &str, args: &[u8], reply: &mut Vec<u8>) {
        let _ = args;
        reply.extend_from_slice(format!("{} panicked: {message}", Self::NAME).as_bytes());
    }
}

/// How a request ended, as its client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Committed and released: it survives the loss of any minority.
    Committed,
    /// The procedure rolled back; what it read is released state.
    RolledBack,
    /// The arguments made no sense, or the procedure panicked; nothing was done. The reply explains.
    BadRequest,
    /// Too many conflicts in a row; nothing was done. Retry later.
    Conflict,
    /// It was larger than one transaction may be; nothing was done. The reply names the limit.
    TooLarge,
    /// It would have made the store grow, and there is no memory left for that on some replica; nothing was done.
    OutOfMemory,
    /// It writes, and the disks of so many replicas are full that no majority could keep it; nothing was done.
    DiskFull,
    /// The session that the request names does not let it run: it has expired, or is past that number; or a replica could not prove
    /// that what it shows is as fresh as the request asks; or the node has not at hand yet what it needs ([`Abort::NotReady`]). Nothing was done; the
    /// reply says why.
    Denied,
    /// Leadership was lost while the transaction was speculative: it may or may not survive.
    Unknown,
}

type Run<T> = fn(&mut T, &[u8], &mut Vec<u8>) -> Result<(), Abort>;

/// One procedure, compiled for an engine's transactions.
struct Entry<T> {
    name: &'static str,
    version: u32,
    signature: Option<&'static Signature>,
    footprint: fn(&[u8], &mut Footprint) -> bool,
    identity: fn(&[u8]) -> &[u8],
    run: Run<T>,
    explain_panic: fn(&str, &[u8], &mut Vec<u8>),
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Entry<T> {}

/// Maps procedure ids to the engine's instances of their code.
pub struct Registry<T> {
    entries: Vec<Entry<T>>,
    /// Where clients' sessions are kept, if they are.
    sessions: Option<TableId>,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Registry { entries: Vec::new(), sessions: None }
    }
}

impl<T> Clone for Registry<T> {
    fn clone(&self) -> Self {
        Registry { entries: self.entries.clone(), sessions: self.sessions }
    }
}

impl<T: Transaction> Registry<T> {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a procedure; ids are given in the order of registration.
    ///
    /// # Panics
    /// If the name is taken: two procedures under one name are a programming error.
    pub fn register<P: Procedure>(&mut self) -> ProcedureId {
        assert!(self.find(P::NAME).is_none(), "procedure {} is registered twice", P::NAME);
        contain::silence();
        self.entries.push(Entry {
            name: P::NAME,
            version: P::VERSION,
            signature: P::signature(),
            footprint: P::footprint,
            identity: P::identity,
            run: P::run::<T>,
            explain_panic: P::explain_panic,
        });
        ProcedureId((self.entries.len() - 1) as u16)
    }

    /// Clients' sessions are kept in this table of the library's.
    pub fn keep_sessions_in(&mut self, table: TableId) {
        self.sessions = Some(table);
    }

    /// The table in which clients' sessions are kept, if they are.
    pub fn sessions(&self) -> Option<TableId> {
        self.sessions
    }

    /// The id of a name.
    pub fn find(&self, name: &str) -> Option<ProcedureId> {
        self.entries.iter().position(|known| known.name == name).map(|at| ProcedureId(at as u16))
    }

    /// The name of an id.
    pub fn name(&self, id: ProcedureId) -> &'static str {
        self.entries[id.0 as usize].name
    }

    /// Runs one attempt. A panic of the procedure is [`Abort::BadRequest`]: the engine validates what was read before it
    /// believes that, and tries again if it was not so.
    ///
    /// # Panics
    /// If the engine panics under the procedure (see [`contain`](mod@crate::contain)).
    #[inline(always)]
    pub fn run(&self, id: ProcedureId, tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let entry = &self.entries[id.0 as usize];
        match contain(|| (entry.run)(tx, args, reply)) {
            Ok(ended) => ended,
            Err(panicked) => entry.panicked(&panicked, args, reply),
        }
    }

    /// See [`Procedure::footprint`].
    pub fn footprint(&self, id: ProcedureId, args: &[u8], footprint: &mut Footprint) -> bool {
        (self.entries[id.0 as usize].footprint)(args, footprint)
    }

    /// See [`Procedure::identity`].
    pub fn identity<'a>(&self, id: ProcedureId, args: &'a [u8]) -> &'a [u8] {
        (self.entries[id.0 as usize].identity)(args)
    }

    /// Every version, by id.
    pub fn versions(&self) -> Vec<u32> {
        self.entries.iter().map(|entry| entry.version).collect()
    }

    /// What clients may call, and how, by id.
    pub fn signatures(&self) -> Vec<Option<&'static Signature>> {
        self.entries.iter().map(|entry| entry.signature).collect()
    }

    /// Every name, by id.
    pub fn names(&self) -> Vec<&'static str> {
        self.entries.iter().map(|entry| entry.name).collect()
    }
}

impl<T> Entry<T> {
    #[cold]
    fn panicked(&self, panicked: &Panicked, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        hooks::tell(|| Fact::Panicked { procedure: self.name, message: &panicked.message });
        reply.clear();
        (self.explain_panic)(&panicked.message, args, reply);
        Err(Abort::BadRequest)
    }
}
