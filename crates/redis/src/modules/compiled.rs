//! A module that is compiled, and those that this process remembers.
//!
//! A worker that needs a module which is not here has it [compiled](super::compiler) and goes on: when it is loaded, and at its first call on
//! a node that has not seen it. What was found is a `Verdict`, which whoever asked finds when it asks again. Each thread keeps the last few modules
//! that it used, so that a call takes no lock; what the cache forgets, they forget.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use highwater_core::Transaction;
use sha2::{Digest, Sha256};
use wasmtime::{ExternType, InstancePre, Module, ModuleExport};

use super::catalogue::{self, Head};
use super::compiler::{Full, compiler};
use super::machine::{TABLE_ENTRIES, machine};
use super::state::State;
use super::{
    ABI, Checked, MAX_MODULE_BYTES, MAX_PROCEDURES, PROCEDURE, Unready, cost, is_name, line_of_loads,
};
use crate::errors::CommandError;
use crate::keyspace::Failure;

/// Bytes of compiled code that are remembered, with the modules of which they are.
const MAX_CACHE_BYTES: usize = 64 << 20;
/// Modules that a thread has at hand.
const AT_HAND: usize = 8;
/// Names of modules that a thread has called.
const MOST_WARM: usize = 256;
/// Verdicts that are remembered: whoever waits for one asks again soon.
const MOST_VERDICTS: usize = 32;
/// Modules that one look at all of them has compiled.
const MOST_PREPARED: usize = 4;

/// A module, compiled and linked.
pub struct Compiled {
    /// Makes instances.
    pub linked: InstancePre<State>,
    /// Its procedures, by name.
    pub procedures: BTreeMap<String, ModuleExport>,
    /// Its memory, if it has one.
    pub memory: Option<ModuleExport>,
    bytes: usize,
}

/// The fate of a module: itself, in the binary format, if it was found good; or why it cannot be loaded, or run.
type Verdict = Result<Checked, CommandError>;

/// The question to the compiler, by what its verdict is remembered under.
#[derive(Clone, Copy)]
enum Asked<'a> {
    /// To look at what is to be loaded, in either format.
    Load(&'a [u8]),
    /// To compile what was loaded, and has this digest.
    Run([u8; 32], &'a [u8]),
}

impl<'a> Asked<'a> {
    /// A job that the compiler was handed.
    fn of(name: &[u8; 32], bytes: &'a [u8]) -> Asked<'a> {
        if digest_of(bytes) == *name { Asked::Run(*name, bytes) } else { Asked::Load(bytes) }
    }

    /// A module that is to be loaded may be refused though the same was loaded by an earlier build: it has a name of its own.
    fn name(self) -> [u8; 32] {
        match self {
            Asked::Load(bytes) => Sha256::new().chain_update(b"load").chain_update(bytes).finalize().into(),
            Asked::Run(digest, _) => digest,
        }
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            Asked::Load(bytes) | Asked::Run(_, bytes) => bytes,
        }
    }

    /// Looks, compiles and remembers what was compiled.
    fn judge(self) -> Verdict {
        // What a compiler stumbles over is no reason to lose more than that module.
        let verdict = catch_unwind(AssertUnwindSafe(|| match self {
            Asked::Load(bytes) => checked(bytes),
            Asked::Run(digest, bytes) => run_checked(digest, bytes),
        }));
        verdict.unwrap_or_else(|_| Err(bad("the compiler failed")))
    }
}

fn checked(bytes: &[u8]) -> Verdict {
    let bytes = match bytes.starts_with(b"\0asm") {
        true => bytes.to_vec(),
        false => wat::parse_bytes(bytes).map_err(bad)?.into_owned(),
    };
    if bytes.len() > MAX_MODULE_BYTES {
        return Err(too_long());
    }
    cost::check(&bytes)?;
    run_checked(digest_of(&bytes), &bytes)
}

fn run_checked(digest: [u8; 32], bytes: &[u8]) -> Verdict {
    let compiled = match with_cache(|cache| cache.find(&digest)) {
        Some(known) => known,
        None => {
            let compiled = Arc::new(compile_now(bytes)?);
            with_cache(|cache| cache.remember(digest, compiled.clone()));
            compiled
        }
    };
    Ok(Checked { digest, bytes: bytes.to_vec(), procedures: compiled.procedures.keys().cloned().collect() })
}

/// Does a job of the [compiler](super::compiler)'s; who asks again finds what came of it.
pub fn compile(name: [u8; 32], bytes: &[u8]) {
    let verdict = Asked::of(&name, bytes).judge();
    with_cache(|cache| cache.settle(name, verdict));
}

/// The verdict on it; or it is being looked at, and whoever stands in that line is woken.
fn verdict(asked: Asked<'_>, line: Option<&[u8]>) -> Result<Verdict, Unready> {
    let name = asked.name();
    if let Some(settled) = with_cache(|cache| cache.settled(&name)) {
        return Ok(settled);
    }
    let Some(compiler) = compiler() else { return Ok(asked.judge()) };
    match compiler.ask(name, asked.bytes(), line) {
        Ok(()) => Err(Unready::Compiling),
        Err(Full) => Err(CommandError::CompilerBusy.into()),
    }
}

/// Looks at a module that is to be loaded under this name, in the binary format or as text.
///
/// # Errors
/// [`CommandError::BadModule`]: why it cannot be. Or it is being looked at.
pub fn check(bytes: &[u8], name: &[u8]) -> Result<Checked, Unready> {
    if bytes.len() > MAX_MODULE_BYTES {
        return Err(too_long().into());
    }
    Ok(verdict(Asked::Load(bytes), Some(&line_of_loads(name)))??)
}

fn too_long() -> CommandError {
    bad(format!("it has more than {MAX_MODULE_BYTES} bytes"))
}

/// Has modules compiled that are loaded and not compiled here, some at a time; how many are not.
///
/// # Errors
/// The transaction's.
pub fn prepare<T: Transaction>(tx: &mut T) -> Result<usize, Failure> {
    let mut cold = Vec::new();
    let is_cold = |digest: &[u8; 32]| with_cache(|cache| cache.is_cold(digest));
    Head::all(tx, |name, head| cold.extend(is_cold(&head.digest).then(|| (name.to_vec(), head.digest))))?;
    for (name, digest) in cold.iter().take(MOST_PREPARED) {
        let bytes = catalogue::bytes_of(tx, name)?.unwrap_or_default();
        if digest_of(&bytes) == *digest
            && let Err(Unready::Refused(_)) = verdict(Asked::Run(*digest, &bytes), None)
        {
            break;
        }
    }
    Ok(cold.len())
}

/// The name under which compiled modules are remembered.
pub fn digest_of(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The first line: compilers draw pictures below it.
pub(super) fn bad(why: impl ToString) -> CommandError {
    CommandError::BadModule(why.to_string().lines().next().unwrap_or_default().to_string())
}

struct Remembered {
    compiled: Arc<Compiled>,
    used: u64,
}

#[derive(Default)]
struct Cache {
    modules: BTreeMap<[u8; 32], Remembered>,
    bytes: usize,
    /// Counts uses.
    clock: u64,
    /// Verdicts on what was asked lately, the oldest first.
    verdicts: VecDeque<([u8; 32], Verdict)>,
}

static CACHE: Mutex<Option<Cache>> = Mutex::new(None);
/// Grows whenever something is forgotten.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct AtHand {
    /// What [`FORGOTTEN`] was when it was last looked at.
    forgotten: u64,
    /// The last one that came at the end.
    modules: Vec<([u8; 32], Arc<Compiled>)>,
    /// Names of modules that were called here, and were at hand.
    warm: BTreeSet<Vec<u8>>,
}

thread_local! {
    static HAND: RefCell<AtHand> = RefCell::default();
}

/// A module that is remembered.
pub fn known(digest: &[u8; 32]) -> Option<Arc<Compiled>> {
    HAND.with_borrow_mut(|hand| {
        // Relaxed: who looks too late keeps for one call more what is right in any case.
        let forgotten = FORGOTTEN.load(Ordering::Relaxed);
        if std::mem::replace(&mut hand.forgotten, forgotten) != forgotten {
            hand.modules.clear();
            hand.warm.clear();
        }
        if let Some((_, compiled)) = hand.modules.iter().rev().find(|(known, _)| known == digest) {
            return Some(compiled.clone());
        }
        let compiled = with_cache(|cache| cache.find(digest))?;
        if hand.modules.len() == AT_HAND {
            hand.modules.remove(0);
        }
        hand.modules.push((*digest, compiled.clone()));
        Some(compiled)
    })
}

/// A module by its digest, which these bytes have; or it is being compiled, and whoever stands in that line is woken.
pub fn compiled(digest: &[u8; 32], bytes: &[u8], line: &[u8]) -> Result<Arc<Compiled>, Unready> {
    loop {
        if let Some(known) = known(digest) {
            return Ok(known);
        }
        verdict(Asked::Run(*digest, bytes), Some(line))??;
        // It was found good, and is forgotten by now if others were used since.
        with_cache(|cache| cache.verdicts.retain(|(name, _)| name != digest));
    }
}

/// A module of this name was called here and was at hand.
pub fn warm(name: &[u8]) {
    HAND.with_borrow_mut(|hand| {
        if !hand.warm.contains(name) {
            if hand.warm.len() == MOST_WARM {
                hand.warm.clear();
            }
            hand.warm.insert(name.to_vec());
        }
    });
}

/// Whether a module of this name was called here and was at hand. It may have been replaced since: this is a guess.
pub fn is_warm(name: &[u8]) -> bool {
    HAND.with_borrow(|hand| hand.warm.contains(name))
}

/// What a panic left behind is as good as before: every change is whole.
fn with_cache<R>(work: impl FnOnce(&mut Cache) -> R) -> R {
    work(CACHE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl Cache {
    fn settle(&mut self, name: [u8; 32], verdict: Verdict) {
        self.verdicts.retain(|(known, _)| *known != name);
        if self.verdicts.len() == MOST_VERDICTS {
            self.verdicts.pop_front();
        }
        self.verdicts.push_back((name, verdict));
    }

    fn settled(&self, name: &[u8; 32]) -> Option<Verdict> {
        self.verdicts.iter().find(|(known, _)| known == name).map(|(_, verdict)| verdict.clone())
    }

    /// Whether a module is to be compiled that may be.
    fn is_cold(&self, digest: &[u8; 32]) -> bool {
        let refused = self.settled(digest).is_some_and(|verdict| verdict.is_err());
        !refused && !self.modules.contains_key(digest)
    }

    fn find(&mut self, digest: &[u8; 32]) -> Option<Arc<Compiled>> {
        self.clock += 1;
        let found = self.modules.get_mut(digest)?;
        found.used = self.clock;
        Some(found.compiled.clone())
    }

    fn remember(&mut self, digest: [u8; 32], compiled: Arc<Compiled>) {
        self.clock += 1;
        let (used, bytes) = (self.clock, compiled.bytes);
        if let Some(old) = self.modules.insert(digest, Remembered { compiled, used }) {
            self.bytes -= old.compiled.bytes;
        }
        self.bytes += bytes;
        while self.bytes > MAX_CACHE_BYTES && self.modules.len() > 1 {
            let oldest = self.modules.iter().min_by_key(|(_, module)| module.used).map(|(digest, _)| *digest);
            let forgotten = oldest.and_then(|digest| self.modules.remove(&digest));
            self.bytes -= forgotten.map_or(0, |module| module.compiled.bytes);
            FORGOTTEN.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn compile_now(bytes: &[u8]) -> Result<Compiled, CommandError> {
    let machine = machine();
    let module = Module::from_binary(&machine.engine, bytes).map_err(|error| bad(error.root_cause()))?;
    let needs = module.resources_required().max_initial_memory_size.unwrap_or(0);
    let pages = machine.memory_bytes() as u64 >> 16;
    if needs > pages {
        return Err(bad(format!(
            "it begins with {needs} pages of memory; limits.procedure_memory_mb is {pages} pages"
        )));
    }
    let entries = module.resources_required().max_initial_table_size.unwrap_or(0);
    if entries > TABLE_ENTRIES as u64 {
        return Err(bad(format!("its table has {entries} entries; {TABLE_ENTRIES} are the most")));
    }
    check_imports(&module)?;
    let procedures = procedures(&module)?;
    let memory = memory(&module)?;
    let linked = machine.linker.instantiate_pre(&module).map_err(bad)?;
    let image = module.image_range();
    let bytes = bytes.len() + (image.end as usize - image.start as usize);
    Ok(Compiled { linked, procedures, memory, bytes })
}

/// Imports are of this build's [`ABI`]; whether there is such a function there, linking tells.
fn check_imports(module: &Module) -> Result<(), CommandError> {
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        if from != ABI {
            return Err(bad(format!("it imports {from}.{name}; modules import from {ABI} only")));
        }
    }
    Ok(())
}

fn procedures(module: &Module) -> Result<BTreeMap<String, ModuleExport>, CommandError> {
    let mut found = BTreeMap::new();
    for export in module.exports() {
        let Some(name) = export.name().strip_prefix(PROCEDURE) else { continue };
        if !is_name(name.as_bytes()) {
            return Err(bad(format!(
                "a procedure's name is 1 to 64 letters, digits, _ and -, and not {name:?}"
            )));
        }
        let takes_nothing = match export.ty() {
            ExternType::Func(of) => of.params().len() == 0 && of.results().len() == 0,
            _ => false,
        };
        if !takes_nothing {
            return Err(bad(format!("{} is no function without parameters and results", export.name())));
        }
        let place = module.get_export_index(export.name()).expect("it is an export");
        found.insert(name.to_string(), place);
    }
    match found.len() {
        0 => Err(bad(format!("it exports no function whose name begins with {PROCEDURE}"))),
        1..=MAX_PROCEDURES => Ok(found),
        _ => Err(bad(format!("it exports more than {MAX_PROCEDURES} procedures"))),
    }
}

/// Whoever imports functions gives them bytes, and so exports a memory.
fn memory(module: &Module) -> Result<Option<ModuleExport>, CommandError> {
    match module.get_export("memory") {
        Some(ExternType::Memory(_)) => Ok(module.get_export_index("memory")),
        _ if module.imports().len() > 0 => Err(bad("it exports no memory of the name memory")),
        _ => Ok(None),
    }
}
