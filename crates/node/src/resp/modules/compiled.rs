//! A module that is compiled, and those that this process remembers.
//!
//! A worker that needs a module which is not here compiles it, and does nothing else meanwhile: when it is loaded, and at its first call on
//! every other node. Each thread keeps the last few that it used, so that a call takes no lock; what the cache forgets, they forget.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use wasmtime::{ExternType, InstancePre, Module, ModuleExport};

use super::machine::machine;
use super::state::State;
use super::{ABI, Checked, MAX_MODULE_BYTES, MAX_PROCEDURES, PROCEDURE, is_name};
use crate::resp::errors::CommandError;

/// Bytes of compiled code that are remembered, with the modules of which they are.
const MAX_CACHE_BYTES: usize = 64 << 20;
/// Modules that a thread has at hand.
const AT_HAND: usize = 8;

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

/// Looks at a module that is to be loaded, in the binary format or as text.
///
/// # Errors
/// [`CommandError::BadModule`]: why it cannot be.
pub fn check(bytes: &[u8]) -> Result<Checked, CommandError> {
    let too_long = || bad(format!("it has more than {MAX_MODULE_BYTES} bytes"));
    if bytes.len() > MAX_MODULE_BYTES {
        return Err(too_long());
    }
    let bytes = match bytes.starts_with(b"\0asm") {
        true => bytes.to_vec(),
        false => wat::parse_bytes(bytes).map_err(bad)?.into_owned(),
    };
    if bytes.len() > MAX_MODULE_BYTES {
        return Err(too_long());
    }
    let digest = digest_of(&bytes);
    let compiled = compiled(&digest, &bytes)?;
    Ok(Checked { digest, bytes, procedures: compiled.procedures.keys().cloned().collect() })
}

/// The name under which compiled modules are remembered.
pub fn digest_of(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The first line: compilers draw pictures below it.
fn bad(why: impl ToString) -> CommandError {
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

/// A module by its digest, compiled if it is not remembered. `bytes`: those of this digest.
pub fn compiled(digest: &[u8; 32], bytes: &[u8]) -> Result<Arc<Compiled>, CommandError> {
    if let Some(known) = known(digest) {
        return Ok(known);
    }
    let compiled = Arc::new(compile(bytes)?);
    with_cache(|cache| cache.remember(*digest, compiled.clone()));
    Ok(compiled)
}

/// What a panic left behind is as good as before: every change is whole.
fn with_cache<R>(work: impl FnOnce(&mut Cache) -> R) -> R {
    work(CACHE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl Cache {
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

fn compile(bytes: &[u8]) -> Result<Compiled, CommandError> {
    let machine = machine();
    let module = Module::from_binary(&machine.engine, bytes).map_err(|error| bad(error.root_cause()))?;
    let needs = module.resources_required().max_initial_memory_size.unwrap_or(0);
    let pages = machine.memory_bytes() as u64 >> 16;
    if needs > pages {
        return Err(bad(format!(
            "it begins with {needs} pages of memory; limits.procedure_memory_mb is {pages} pages"
        )));
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
