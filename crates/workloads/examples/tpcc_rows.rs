//! Prints what TPC-C's tables hold and what its transactions read, write and log, in both layouts: the tables of
//! docs/workloads.md.

use highwater_workloads::testing::Runner;
use highwater_workloads::tpcc::count::{self, Counts};
use highwater_workloads::tpcc::layout::LayoutKind;
use highwater_workloads::tpcc::{Config, Tpcc};

fn main() {
    for layout in LayoutKind::ALL {
        let tpcc = Tpcc::new(Config { layout, ..Config::default() });
        let mut runner = Runner::loaded(&tpcc);
        println!("| table | rows | bytes of a key | bytes of a value |\n|---|---|---|---|");
        println!("{}", count::rows(&runner));
        let counts = Counts::of(&tpcc, &mut runner, |_, _| {});
        println!("| layout, transaction | rows read | rows written | bytes of values written | log bytes |");
        println!("|---|---|---|---|---|\n{counts}");
    }
}
