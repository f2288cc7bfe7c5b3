//! The stream of TPC-C requests: the mix, the non-uniform choices, home and remote warehouses.
//!
//! **Home warehouses**, as in Silo: with at least as many workers as warehouses, worker *i* stays at warehouse
//! *i* mod W; with fewer, the warehouses are dealt out to the workers in turn and each picks one of its own for every
//! transaction.
//!
//! **Fast ids** are drawn from counters that the generators of one process share: then, and only then, a stream also
//! depends on what the other workers draw.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::config::Config;
use super::customer::Who;
use super::layout::LayoutKind;
use super::population::{DISTRICTS, LOAD_DATE, NuRandConstants, Population};
use super::text::{self, LAST_NAME_BYTES};
use super::{delivery, new_order, order_status, payment, stock_level};
use crate::bytes::StackBytes;
use crate::random::{Rng, mix};
use crate::workload::Generator;

/// The procedures of the mix.
pub const KINDS: [&str; 5] =
    ["tpcc.new_order", "tpcc.payment", "tpcc.order_status", "tpcc.delivery", "tpcc.stock_level"];
/// Their shares in percent (clause 5.2.3, with the rest given to NewOrder).
pub const MIX: [u64; 5] = [45, 43, 4, 4, 4];

/// Draws order ids outside of transactions, for fast ids. One cache line a district: workers at different warehouses
/// share none.
#[derive(Clone, Debug)]
pub struct OrderIds(Arc<[Counter]>);

#[derive(Debug)]
#[repr(align(128))]
struct Counter(AtomicU32);

impl OrderIds {
    /// Counters for `warehouses`, each at `first`.
    pub fn new(warehouses: u16, first: u32) -> OrderIds {
        let districts = usize::from(warehouses) * usize::from(DISTRICTS);
        OrderIds((0..districts).map(|_| Counter(AtomicU32::new(first))).collect())
    }

    /// Takes the district's next id.
    fn draw(&self, w: u16, d: u8) -> u32 {
        self.counter(w, d).fetch_add(1, Ordering::Relaxed)
    }

    /// The district's next id.
    fn peek(&self, w: u16, d: u8) -> u32 {
        self.counter(w, d).load(Ordering::Relaxed)
    }

    /// Makes every later id of the district exceed `taken`.
    pub fn skip_past(&self, w: u16, d: u8, taken: u32) {
        self.counter(w, d).fetch_max(taken + 1, Ordering::Relaxed);
    }

    fn counter(&self, w: u16, d: u8) -> &AtomicU32 {
        &self.0[(usize::from(w) - 1) * usize::from(DISTRICTS) + usize::from(d) - 1].0
    }
}

/// One worker's stream.
pub struct TpccGenerator {
    rng: Rng,
    layout: LayoutKind,
    population: Population,
    constants: NuRandConstants,
    warehouses: u16,
    home: Home,
    /// Advances by a millisecond a transaction.
    date: u64,
    ids: Option<OrderIds>,
}

/// The warehouses of one worker.
#[derive(Clone, Copy, Debug)]
enum Home {
    One(u16),
    /// `first`, `first + step`, and so on, `count` of them.
    Every {
        first: u16,
        step: u16,
        count: u16,
    },
}

impl Home {
    fn of(worker: usize, workers: usize, warehouses: u16) -> Home {
        let all = usize::from(warehouses);
        if workers >= all {
            return Home::One((worker % all) as u16 + 1);
        }
        let count = (all - worker).div_ceil(workers) as u16;
        Home::Every { first: worker as u16 + 1, step: workers as u16, count }
    }

    #[inline]
    fn pick(self, rng: &mut Rng) -> u16 {
        match self {
            Home::One(w) => w,
            Home::Every { first, step, count } => first + step * rng.below(count.into()) as u16,
        }
    }
}

impl TpccGenerator {
    /// The stream of worker `worker` of `workers`.
    ///
    /// # Panics
    /// If `worker >= workers`.
    pub fn new(
        config: &Config,
        ids: Option<OrderIds>,
        worker: usize,
        workers: usize,
        seed: u64,
    ) -> TpccGenerator {
        assert!(worker < workers, "worker {worker} of {workers}");
        let population = config.population();
        TpccGenerator {
            rng: Rng::new(mix(seed ^ mix(worker as u64 + 1))),
            layout: config.layout,
            population,
            constants: NuRandConstants::new(population.seed),
            warehouses: config.warehouses,
            home: Home::of(worker, workers, config.warehouses),
            date: LOAD_DATE + 86_400_000,
            ids,
        }
    }

    #[inline]
    fn district(&mut self) -> u8 {
        self.rng.within(1, DISTRICTS.into()) as u8
    }

    #[inline]
    fn customer(&mut self) -> u16 {
        self.rng.nurand(1023, self.constants.customer, 1, self.population.customers.into()) as u16
    }

    /// A customer, in 60 % of cases by last name, which is left in `name`.
    #[inline]
    fn who<'a>(&mut self, name: &'a mut StackBytes<LAST_NAME_BYTES>) -> Who<'a> {
        if self.rng.percent(60) {
            let names = u64::from(self.population.names());
            *name = text::last_name(self.rng.nurand(255, self.constants.last_at_run, 0, names - 1) as u16);
            Who::LastName(name.as_slice())
        } else {
            Who::Id(self.customer())
        }
    }

    /// Another warehouse; the same if there is no other.
    #[inline]
    fn other_warehouse(&mut self, home: u16) -> u16 {
        if self.warehouses == 1 {
            return home;
        }
        let other = self.rng.within(1, u64::from(self.warehouses) - 1) as u16;
        other + u16::from(other >= home)
    }

    fn new_order(&mut self, w: u16, args: &mut Vec<u8>) {
        let (district, customer) = (self.district(), self.customer());
        let order = self.ids.as_ref().map_or(0, |ids| ids.draw(w, district));
        let (layout, entry_date) = (self.layout, self.date);
        new_order::Request { layout, warehouse: w, district, customer, order, entry_date }.encode(args);
        let count = self.rng.within(5, 15);
        let roll_back = self.rng.percent(1);
        for line in 1..=count {
            let mut item = self.rng.nurand(8191, self.constants.item, 1, self.population.items.into()) as u32;
            if roll_back && line == count {
                item = self.population.items + 1;
            }
            let supply_warehouse = if self.rng.percent(1) { self.other_warehouse(w) } else { w };
            let quantity = self.rng.within(1, 10) as u8;
            new_order::Line { item, supply_warehouse, quantity }.encode(args);
        }
    }

    fn payment(&mut self, w: u16, args: &mut Vec<u8>) {
        let district = self.district();
        let (customer_warehouse, customer_district) =
            if self.rng.percent(85) { (w, district) } else { (self.other_warehouse(w), self.district()) };
        let mut name = StackBytes::new();
        payment::Request {
            layout: self.layout,
            warehouse: w,
            district,
            customer_warehouse,
            customer_district,
            who: self.who(&mut name),
            amount: self.rng.within(100, 500_000) as u32,
            date: self.date,
        }
        .encode(args);
    }

    fn stock_level(&mut self, w: u16, args: &mut Vec<u8>) {
        let district = self.district();
        let next_order = self.ids.as_ref().map_or(0, |ids| ids.peek(w, district));
        let threshold = self.rng.within(10, 20) as u8;
        let layout = self.layout;
        stock_level::Request { layout, warehouse: w, district, threshold, next_order }.encode(args);
    }
}

impl Generator for TpccGenerator {
    fn next(&mut self, args: &mut Vec<u8>) -> usize {
        args.clear();
        self.date += 1;
        let w = self.home.pick(&mut self.rng);
        let mut ticket = self.rng.below(100);
        let kind = MIX.iter().position(|share| match ticket.checked_sub(*share) {
            Some(rest) => {
                ticket = rest;
                false
            }
            None => true,
        });
        let kind = kind.expect("the shares add up to 100");
        match kind {
            0 => self.new_order(w, args),
            1 => self.payment(w, args),
            2 => {
                let mut name = StackBytes::new();
                let (layout, district, who) = (self.layout, self.district(), self.who(&mut name));
                order_status::Request { layout, warehouse: w, district, who }.encode(args);
            }
            3 => {
                let carrier = self.rng.within(1, 10) as u8;
                delivery::Request { layout: self.layout, warehouse: w, carrier, date: self.date }
                    .encode(args);
            }
            _ => self.stock_level(w, args),
        }
        kind
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Home, Rng};

    proptest! {
        #[test]
        fn every_warehouse_is_somebodys_home(workers in 1usize..20, warehouses in 1u16..40) {
            let mut rng = Rng::new(1);
            let mut seen = vec![false; usize::from(warehouses) + 1];
            for worker in 0..workers {
                let home = Home::of(worker, workers, warehouses);
                for _ in 0..600 {
                    let w = home.pick(&mut rng);
                    prop_assert!((1..=warehouses).contains(&w));
                    seen[usize::from(w)] = true;
                    prop_assert!(workers < warehouses.into() || usize::from(w) == worker % usize::from(warehouses) + 1);
                }
            }
            prop_assert!(workers < warehouses.into() || seen[1..].iter().all(|seen| *seen));
        }
    }
}
