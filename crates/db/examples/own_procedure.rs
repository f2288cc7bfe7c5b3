//! A table and a procedure of your own: called in the program, and by any Redis client as `HW.CALL accounts.transfer`.
//!
//! ```text
//! cargo run -p highwater-db --example own_procedure
//! ```
//!
//! A closure is shorter, and runs in this program only. A procedure has a name, takes and gives bytes, is compiled for the engine, and may be
//! called over the network if it has a *signature*.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use highwater_db::signature::{Signature, U64, field};
use highwater_db::{Abort, Database, Hashed, Procedure, Procedures, Registry, Table, Transaction, Tx};

const BALANCES: Table<u64, u64, Hashed> = Table::hashed(0, "balances");

/// `from u64 | to u64 | amount u64`. The reply is what `from` has left; or what it has, if that is not enough.
struct Transfer;

impl Procedure for Transfer {
    const NAME: &'static str = "accounts.transfer";

    /// The same in words, for whoever calls it by name.
    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[field("from", U64), field("to", U64), field("amount", U64)],
            reply: &[field("left", U64)],
        };
        Some(&SIGNATURE)
    }

    /// Every `?` passes on what the engine decides, a conflict for example: then the procedure runs again from its start.
    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let Some([from, to, amount]) = numbers(args) else {
            reply.extend_from_slice(b"three numbers are wanted: from, to, amount");
            return Err(Abort::BadRequest);
        };
        let mut tx = Tx::over(tx);
        let before = tx.get(BALANCES, &from)?.unwrap_or(0);
        let Some(left) = before.checked_sub(amount) else {
            reply.extend_from_slice(&before.to_le_bytes());
            // A decision of ours: nothing is written, and the reply is delivered all the same.
            return Err(Abort::Rollback);
        };
        tx.put(BALANCES, &from, &left)?;
        // A transaction sees its own writes, so a transfer to the same account changes nothing.
        let target = tx.get(BALANCES, &to)?.unwrap_or(0);
        tx.put(BALANCES, &to, &target.saturating_add(amount))?;
        reply.extend_from_slice(&left.to_le_bytes());
        Ok(())
    }
}

/// Arguments come from outside: whatever they are, the procedure must not trust them.
fn numbers(args: &[u8]) -> Option<[u64; 3]> {
    let (numbers, rest) = args.as_chunks::<8>();
    let [from, to, amount]: [[u8; 8]; 3] = numbers.try_into().ok()?;
    rest.is_empty().then(|| [from, to, amount].map(u64::from_le_bytes))
}

/// All procedures of the program. Their order gives them their ids, and is the same on every replica.
#[derive(Clone)]
struct Accounts;

impl Procedures for Accounts {
    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Transfer>();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Database::builder().table(BALANCES).procedures(Accounts).memory_mb(256).open()?;
    let (alice, bob) = (1u64, 2u64);
    db.transaction(move |tx| tx.put(BALANCES, &alice, &100))?;

    // In this program, in bytes.
    let args: Vec<u8> = [alice, bob, 30].iter().flat_map(|number| number.to_le_bytes()).collect();
    let left = db.call("accounts.transfer", &args)?;
    assert_eq!(left, 70u64.to_le_bytes());

    // From anywhere, in words. The reply is a map by name.
    let answer = ask(db.resp_address(), "HW.CALL accounts.transfer 1 2 30")?;
    println!("HW.CALL accounts.transfer 1 2 30: {answer:?}");
    assert_eq!(answer, "*2\r\n$4\r\nleft\r\n:40\r\n");
    let refused = ask(db.resp_address(), "HW.CALL accounts.transfer 1 two 30")?;
    println!("HW.CALL accounts.transfer 1 two 30: {refused:?}");
    assert!(refused.starts_with('-'));

    let balances = db.transaction(move |tx| Ok((tx.get(BALANCES, &alice)?, tx.get(BALANCES, &bob)?)))?;
    assert_eq!(balances, (Some(40), Some(60)));
    Ok(db.close()?)
}

/// As much of a Redis client as one question takes.
fn ask(address: std::net::SocketAddr, command: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
    let mut answers = String::new();
    stream.read_to_string(&mut answers)?;
    Ok(answers.strip_suffix("+OK\r\n").unwrap_or(&answers).to_string())
}

#[test]
fn it_runs() {
    main().expect("it ends well");
}
