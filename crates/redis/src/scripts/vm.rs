//! The machine that scripts of one thread run on, and what it remembers: compiled texts, and nothing else.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use highwater_core::Abort;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};

use highwater_redis_lua::budget::{EVERY, Spent, limits};
use highwater_redis_lua::compile::load;
use highwater_redis_lua::{costs, life, natives, watch};

use super::{Failed, bridge, redis, values};
use crate::keyspace::Stop;
use crate::reply::{Protocol, Reply};

/// Compiled texts that are kept, and their bytes of source.
const MAX_CHUNKS: usize = 1024;
const MAX_CHUNK_BYTES: usize = 8 << 20;
/// Things in a library's table, past its being read-only, beyond which the machine is not kept.
const MOST_LEFT: usize = 100;

/// What a run's functions know of it.
#[derive(Default)]
pub struct Run {
    /// As libraries know it.
    own: Rc<highwater_redis_lua::run::Run>,
    /// Commands that write are refused.
    pub read_only: Cell<bool>,
    /// How replies of commands come, by `redis.setresp`.
    pub protocol: Cell<Protocol>,
    /// The transaction is over.
    stop: Cell<Option<Stop>>,
    /// A command panicked.
    panic: RefCell<Option<Box<dyn Any + Send>>>,
    /// Lines that it has logged.
    pub logged: Cell<u32>,
    /// What the library that is being loaded has registered; `None`: no library is being loaded.
    pub registered: RefCell<Option<Vec<Registered>>>,
}

impl Deref for Run {
    type Target = highwater_redis_lua::run::Run;

    fn deref(&self) -> &Self::Target {
        &self.own
    }
}

impl Run {
    /// The transaction is over: nothing that the script does counts any more.
    pub fn stop(&self, stop: Stop) {
        self.stop.set(Some(stop));
        self.over.set(true);
    }

    /// A command panicked: the panic goes on where the script was called.
    pub fn panicked(&self, payload: Box<dyn Any + Send>) {
        self.panic.replace(Some(payload));
        self.over.set(true);
    }
}

/// A function of a library.
#[derive(Clone, Debug)]
pub struct Registered {
    /// As it was given.
    pub name: Vec<u8>,
    /// What it does.
    pub callback: Function,
    /// What it may do.
    pub flags: super::shebang::Flags,
    /// The names of its flags.
    pub flag_names: Vec<Vec<u8>>,
    /// What it says of itself.
    pub description: Option<Vec<u8>>,
}

/// What one run is.
pub struct Task<'a> {
    /// What errors call it: the digest, or a function's name.
    pub name: &'a [u8],
    pub keys: &'a [&'a [u8]],
    /// The other arguments.
    pub args: &'a [&'a [u8]],
    /// Commands that write are refused.
    pub read_only: bool,
    /// What chance starts from.
    pub seed: u64,
}

struct Chunk {
    function: Function,
    bytes: usize,
    used: u64,
}

/// A machine.
pub struct Vm {
    lua: Lua,
    /// The place of its own state: not that of a coroutine.
    state: *mut mlua::ffi::lua_State,
    run: Rc<Run>,
    /// The globals behind every script's environment.
    real: Table,
    environment: Table,
    driver: Function,
    choose: Function,
    proxies: Vec<Table>,
    chunks: RefCell<BTreeMap<[u8; 20], Chunk>>,
    /// Counts uses.
    clock: Cell<u64>,
    /// It is to be thrown away.
    spoiled: Cell<bool>,
}

thread_local! {
    static VM: Cell<Option<Box<Vm>>> = const { Cell::new(None) };
}

/// Uses this thread's machine. One that a panic passes through is thrown away.
pub fn with<R>(body: impl FnOnce(&Vm) -> R) -> R {
    let vm = VM.take().unwrap_or_else(|| Box::new(Vm::new().expect("a machine without bounds can be built")));
    let result = body(&vm);
    if !vm.spoiled.get() {
        VM.set(Some(vm));
    }
    result
}

impl Vm {
    fn new() -> mlua::Result<Vm> {
        let libraries = // The basic functions and coroutines are there in any case.
            StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        lua.gc_stop();
        life::watched_by(|| bridge::with(|host| host.goes_on()).is_none_or(|goes_on| goes_on.is_ok()));
        let run = Rc::new(Run::default());
        let mut state = std::ptr::null_mut();
        // SAFETY: it only tells where the machine's own state is, which stays there for as long as the machine.
        unsafe { lua.exec_raw::<()>((), |own| state = own) }?;
        let looking = run.clone();
        let look = lua.create_function(move |lua, ()| looking.budget.charge(lua, 0))?;
        costs::guard(&lua, look)?;
        let (environment, real) = (lua.create_table()?, lua.create_table()?);
        let natives = natives::all(&lua, &run.own, &environment)?;
        natives.raw_set("redis", redis::table(&lua, &run)?)?;
        natives.raw_set("loading", redis::loading(&lua, &run)?)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude").into_function()?;
        let (driver, choose, proxies) =
            prelude.call::<(Function, Function, Vec<Table>)>((&environment, &real, natives))?;
        let counted = run.clone();
        lua.set_global_hook(mlua::HookTriggers::new().every_nth_instruction(EVERY), move |lua, _| {
            if counted.coroutines.get() {
                // SAFETY: the state that calls the hook executes.
                unsafe { lua.exec_raw::<()>((), watch::correct) }?;
            }
            counted.budget.charge(lua, EVERY.into())?;
            Ok(mlua::VmState::Continue)
        })?;
        run.budget.settle(&lua)?;
        let (chunks, clock, spoiled) = Default::default();
        Ok(Vm { lua, state, run, real, environment, driver, choose, proxies, chunks, clock, spoiled })
    }

    /// The names of all functions that a script can reach, such as `string.rep`: what is fuzzed.
    pub fn functions(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (name, value) in self.real.pairs::<String, Value>().filter_map(Result::ok) {
            match value {
                Value::Function(_) => names.push(name),
                // A library is a proxy in front of its table.
                Value::Table(proxy) => {
                    let library = proxy.metatable().and_then(|meta| meta.raw_get::<Table>("__index").ok());
                    let Some(library) = library.filter(|library| *library != self.real) else { continue };
                    let functions = library.pairs::<String, Value>().filter_map(Result::ok);
                    names.extend(
                        functions
                            .filter(|(_, value)| value.is_function())
                            .map(|(inner, _)| format!("{name}.{inner}")),
                    );
                }
                _ => {}
            }
        }
        names.sort();
        names
    }

    /// Whether a text is compiled already.
    pub fn remembers(&self, digest: &[u8; 20]) -> bool {
        self.chunks.borrow().contains_key(digest)
    }

    /// A text's compiled form. `what`: how errors name it, and how they begin.
    pub fn compile(
        &self,
        digest: &[u8; 20],
        code: &[u8],
        source: &str,
        otherwise: &str,
    ) -> Result<Function, Failed> {
        self.clock.set(self.clock.get() + 1);
        if let Some(chunk) = self.chunks.borrow_mut().get_mut(digest) {
            chunk.used = self.clock.get();
            return Ok(chunk.function.clone());
        }
        self.run.budget.crowds().forget();
        self.lua
            .set_memory_limit(self.lua.used_memory() + limits().memory_bytes)
            .expect("this allocator has a limit");
        let compiled = self.load(code, source);
        self.lua.set_memory_limit(0).expect("this allocator has a limit");
        let function = compiled.map_err(|error| match error {
            mlua::Error::MemoryError(_) => self.out_of_memory(),
            mlua::Error::SyntaxError { message, .. } => Failed::quoting(otherwise, message.as_bytes(), ""),
            other => Failed::quoting(otherwise, other.to_string().as_bytes(), ""),
        })?;
        let chunk = Chunk { function: function.clone(), bytes: code.len(), used: self.clock.get() };
        self.remember(*digest, chunk);
        Ok(function)
    }

    /// A function of this text. The form that a compiler leaves is refused: nothing checks it.
    fn load(&self, code: &[u8], source: &str) -> mlua::Result<Function> {
        load(&self.lua, &self.environment, code, source)
    }

    fn remember(&self, digest: [u8; 20], chunk: Chunk) {
        let mut chunks = self.chunks.borrow_mut();
        let mut bytes = chunks.values().map(|chunk| chunk.bytes).sum::<usize>() + chunk.bytes;
        while chunks.len() >= MAX_CHUNKS || bytes > MAX_CHUNK_BYTES {
            let Some(oldest) = chunks.iter().min_by_key(|(_, chunk)| chunk.used).map(|(digest, _)| *digest)
            else {
                break;
            };
            bytes -= chunks.remove(&oldest).map_or(0, |chunk| chunk.bytes);
        }
        chunks.insert(digest, chunk);
    }

    /// Runs a script. What it answers goes to the reply.
    pub fn script(
        &self,
        function: &Function,
        task: &Task<'_>,
        host: &mut dyn bridge::Host,
        reply: &mut Reply<'_>,
    ) -> Result<Result<(), Failed>, Stop> {
        self.guarded(task, host, |vm| {
            let (keys, args) = vm.begin(task)?;
            vm.real.raw_set("KEYS", keys)?;
            vm.real.raw_set("ARGV", args)?;
            vm.drive(function, Value::Nil, Value::Nil, reply)
        })
    }

    /// Loads a library: runs its text, which registers functions.
    pub fn library(
        &self,
        function: &Function,
        host: &mut dyn bridge::Host,
    ) -> Result<Result<Vec<Registered>, Failed>, Stop> {
        let task = Task { name: b"", keys: &[], args: &[], read_only: true, seed: 0 };
        self.guarded(&task, host, |vm| {
            vm.begin(&task)?;
            vm.register(function)
        })
    }

    /// Loads a library and calls one of its functions: what an earlier call left in the library's variables is not seen.
    pub fn function(
        &self,
        library: &Function,
        task: &Task<'_>,
        host: &mut dyn bridge::Host,
        reply: &mut Reply<'_>,
    ) -> Result<Result<(), Failed>, Stop> {
        self.guarded(task, host, |vm| {
            let (keys, args) = vm.begin(task)?;
            let functions = match vm.register(library)? {
                Ok(functions) => functions,
                Err(failed) => return Ok(Err(failed)),
            };
            let Some(found) = functions.iter().find(|known| known.name.eq_ignore_ascii_case(task.name))
            else {
                return Ok(Err(Failed::text("ERR Function not found")));
            };
            vm.drive(&found.callback, Value::Table(keys), Value::Table(args), reply)
        })
    }

    fn register(&self, function: &Function) -> mlua::Result<Result<Vec<Registered>, Failed>> {
        self.choose.call::<()>(true)?;
        self.run.registered.replace(Some(Vec::new()));
        let outcome = self.driver.call::<(bool, Value)>(function);
        let registered = self.run.registered.take().unwrap_or_default();
        self.choose.call::<()>(false)?;
        Ok(match outcome? {
            (true, _) => Ok(registered),
            (false, error) => {
                Err(Failed::quoting("ERR Error registering functions: ", &self.message(error, false), ""))
            }
        })
    }

    fn drive(
        &self,
        function: &Function,
        keys: Value,
        args: Value,
        reply: &mut Reply<'_>,
    ) -> mlua::Result<Result<(), Failed>> {
        match self.driver.call::<(bool, Value)>((function, keys, args))? {
            (true, value) => Ok(values::answer(&self.run, &value, reply)),
            (false, error) => Ok(Err(Failed(self.message(error, true)))),
        }
    }

    /// What a client is told of an error that nobody caught: `describe` made a table of it, unless there was no memory left for that.
    fn message(&self, error: Value, located: bool) -> Vec<u8> {
        let Value::Table(table) = error else { return self.out_of_memory().0 };
        let field = |name: &str| {
            table.raw_get::<Option<mlua::LuaString>>(name).ok().flatten().map(|text| text.as_bytes().to_vec())
        };
        let mut message = field("err").unwrap_or_default();
        if message == b"ERR not enough memory" {
            return self.out_of_memory().0;
        }
        if let Some(place) = field("place").filter(|_| located) {
            message.extend_from_slice(b" script: ");
            message.extend_from_slice(&self.run.name.borrow());
            message.extend_from_slice(b", on ");
            message.extend_from_slice(&place);
            message.push(b'.');
        }
        message
    }

    fn out_of_memory(&self) -> Failed {
        if self.run.budget.crowds().refused() {
            return Failed::text("ERR the script fills a table with numbers that Lua's hash takes for one");
        }
        let mib = limits().memory_bytes >> 20;
        Failed(
            format!("ERR the script needs more memory than limits.script_memory_mb, which is {mib}")
                .into_bytes(),
        )
    }

    /// Runs `body` with the host at hand and everything in its first state, and leaves it so.
    fn guarded<R>(
        &self,
        task: &Task<'_>,
        host: &mut dyn bridge::Host,
        body: impl FnOnce(&Vm) -> mlua::Result<Result<R, Failed>>,
    ) -> Result<Result<R, Failed>, Stop> {
        let run = &*self.run;
        run.begin(task.name, task.seed);
        run.read_only.set(task.read_only);
        run.protocol.set(Protocol::Resp2);
        run.logged.set(0);
        let watched = watch::Watched;
        let outcome = bridge::lend(host, || body(self));
        drop(watched);
        let (spent, limits) = (run.budget.spent(), limits());
        run.budget.end(&self.lua);
        self.clean();
        if let Some(payload) = run.panic.take() {
            std::panic::resume_unwind(payload);
        }
        if let Some(stop) = run.stop.take() {
            return Err(stop);
        }
        match spent {
            Some(Spent::Instructions) => Ok(Err(Failed(
                format!(
                    "ERR the script was ended after limits.script_instructions, which is {}",
                    limits.instructions
                )
                .into_bytes(),
            ))),
            Some(Spent::Time) => {
                Ok(Err(Failed::text("ERR the script was ended after 5 seconds of CPU time")))
            }
            Some(Spent::Asked) => Err(Stop::Abort(Abort::TooLarge)),
            None => Ok(outcome.unwrap_or_else(|error| Err(self.broken(error)))),
        }
    }

    /// An error outside of what a script does: when it was to begin, or to be answered.
    fn broken(&self, error: mlua::Error) -> Failed {
        match error {
            mlua::Error::MemoryError(_) => self.out_of_memory(),
            other => Failed::quoting("ERR ", other.to_string().as_bytes(), ""),
        }
    }

    /// Removes what a script may have left. Whoever left much may have made it so that removing it takes long: then the machine goes.
    fn clean(&self) {
        let cleaned = (|| {
            self.real.raw_set("KEYS", Value::Nil)?;
            self.real.raw_set("ARGV", Value::Nil)?;
            for proxy in &self.proxies {
                // Cheap for one that is empty.
                if proxy.pairs::<Value, Value>().take(MOST_LEFT).count() == MOST_LEFT {
                    self.spoiled.set(true);
                } else if !proxy.is_empty() {
                    proxy.clear()?;
                }
            }
            mlua::Result::Ok(())
        })();
        self.spoiled.set(self.spoiled.get() || cleaned.is_err());
    }

    /// Begins a run; its keys and arguments. Their making is charged, but for the memory: so is a crowd of them that Lua's hash takes for one.
    fn begin(&self, task: &Task<'_>) -> mlua::Result<(Table, Table)> {
        self.run.budget.begin(&self.lua, self.state, limits())?;
        let words = (self.words(task.keys)?, self.words(task.args)?);
        self.run.budget.settle_arguments(&self.lua)?;
        Ok(words)
    }

    fn words(&self, words: &[&[u8]]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(words.len(), 0)?;
        for (at, word) in words.iter().enumerate() {
            self.run.budget.charge_bytes(word.len())?;
            table.raw_set(at + 1, self.lua.create_string(word)?)?;
        }
        Ok(table)
    }
}
