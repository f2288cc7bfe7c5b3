//! One call of a module's procedure: an instance of its own, from its making to its end.

use highwater_core::{Abort, Transaction};
use wasmtime::{Extern, Store, Trap};

use super::compiled::{Compiled, compiled, digest_of, known, warm};
use super::machine::machine;
use super::state::{Ended, State};
use super::{Unready, catalogue, limits, line_of_calls};
use crate::commands::scripts::Commands;
use crate::errors::ProcedureError;
use crate::keyspace::{Failure, Keyspace};
use crate::reply::{Protocol, Reply};
use crate::request::Args;
use crate::scripts::{Failed, bridge};

/// Calls a procedure of the module that has this digest. `name`: the module's, and the procedure's. What it answers goes to the reply.
pub fn call<T: Transaction>(
    name: (&[u8], &[u8]),
    digest: [u8; 32],
    args: Args<'_>,
    read_only: bool,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<Result<(), Failed>, Failure> {
    let compiled = match known(&digest) {
        Some(known) => known,
        None => match first_use(name.0, digest, keyspace)? {
            Ok(compiled) => compiled,
            Err(Unready::Refused(why)) => return Ok(Err(why.into())),
            Err(Unready::Compiling) => return Err(Abort::NotReady.into()),
        },
    };
    warm(name.0);
    let procedure = std::str::from_utf8(name.1).unwrap_or_default();
    let args = args.map(<[u8]>::to_vec).collect();
    // It does what it does for whoever may call it.
    let outcome = bridge::lend(&mut Commands { keyspace, rules: None }, || {
        run(&compiled, procedure, args, read_only, reply.protocol)
    });
    match outcome {
        Ok(written) => {
            reply.raw(&written);
            Ok(Ok(()))
        }
        Err(Ended::Failed(failed)) => Ok(Err(failed)),
        Err(Ended::Stop(stop)) => Err(Failure::Stop(stop)),
    }
}

/// Compiles a module that was loaded on another node, or before this process began.
fn first_use<T: Transaction>(
    name: &[u8],
    digest: [u8; 32],
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Result<std::sync::Arc<Compiled>, Unready>, Failure> {
    let bytes = catalogue::bytes_of(keyspace.transaction(), name)?.unwrap_or_default();
    if digest_of(&bytes) != digest {
        // The rows are of two moments: what was read will not validate.
        return Err(Abort::Conflict.into());
    }
    // It was compiled when it was loaded; a node with less memory for it may see it otherwise.
    Ok(compiled(&digest, &bytes, &line_of_calls(name)))
}

/// Its reply, in RESP.
fn run(
    compiled: &Compiled,
    procedure: &str,
    args: Vec<Vec<u8>>,
    read_only: bool,
    protocol: Protocol,
) -> Result<Vec<u8>, Ended> {
    let (machine, limits) = (machine(), limits());
    let state = State::new(args, read_only, protocol, machine.memory_bytes());
    let mut store = Store::new(&machine.engine, state);
    store.limiter(|state| state);
    store.set_fuel(if limits.fuel == 0 { u64::MAX } else { limits.fuel }).expect("fuel is counted");
    let ended = live(&mut store, compiled, procedure);
    let mut state = store.into_data();
    if let Err(error) = ended {
        return Err(state.ended.take().unwrap_or_else(|| explain(&error, limits.fuel)));
    }
    match (state.reply.is_empty(), state.wanted) {
        (true, _) => Ok(b"+OK\r\n".to_vec()),
        (false, 0) => Ok(state.reply),
        (false, _) => Err(trapped("it answers fewer values than its arrays say")),
    }
}

/// The instance's life.
fn live(store: &mut Store<State>, compiled: &Compiled, procedure: &str) -> wasmtime::Result<()> {
    let instance = compiled.linked.instantiate(&mut *store)?;
    if let Some(place) = &compiled.memory {
        store.data_mut().memory =
            instance.get_module_export(&mut *store, place).and_then(Extern::into_memory);
    }
    let place = compiled.procedures.get(procedure);
    let function = place.and_then(|place| instance.get_module_export(&mut *store, place));
    let function =
        function.and_then(Extern::into_func).expect("the row names what was found when it was loaded");
    function.typed::<(), ()>(&*store)?.call(store, ())
}

fn trapped(why: impl ToString) -> Ended {
    Ended::Failed(ProcedureError::Trap(why.to_string()).into())
}

fn explain(error: &wasmtime::Error, fuel: u64) -> Ended {
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Ended::Failed(ProcedureError::Fuel(fuel).into()),
        Some(trap) => trapped(trap.to_string().trim_start_matches("wasm trap: ")),
        None => trapped(error.root_cause()),
    }
}
