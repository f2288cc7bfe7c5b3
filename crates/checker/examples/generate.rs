//! Writes a random history that is right, to measure the checker with:
//!
//! `cargo run --release -p highwater-checker --example generate -- 1000000 run.jsonl [SEED] [SHARE OF REGISTERS]`

use std::fs::File;
use std::io::BufWriter;

use highwater_checker::generate::{Shape, generate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let txns = args.next().ok_or("how many transactions?")?.parse()?;
    let path = args.next().ok_or("into which file?")?;
    let seed = args.next().map_or(Ok(1), |seed| seed.parse())?;
    let registers = args.next().map_or(Ok(0.0), |share| share.parse())?;
    let shape = Shape { txns, clients: 32, registers, ..Shape::default() };
    generate(seed, &shape).write(BufWriter::new(File::create(path)?))?;
    Ok(())
}
