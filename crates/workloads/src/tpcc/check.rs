//! The twelve consistency conditions (clause 3.3.2), and that the tables have their rows.
//!
//! The specification states condition 11 for the initial population only; here it counts deliveries in too, so that it
//! holds after any number of transactions: orders − new-orders = those delivered at the start + the C_DELIVERY_CNT of
//! the district's customers.
//!
//! With fast ids the district's counter stands still and rolled-back orders leave gaps, so that two conditions weaken:
//! `tpcc-2` demands max(NO_O_ID) <= max(O_ID) and that the counter did not move; `tpcc-3` demands
//! count <= max − min + 1.

use highwater_core::View;

use super::config::Config;
use super::facts::{CustomerFacts, DistrictFacts, Facts, OrderFacts};
use super::keys;
use super::layout::{Layout, LayoutKind, Silo, Split};
use super::population::{DISTRICTS, line_mask};
use crate::workload::{Check, Findings};

/// Verifies everything on a quiescent replica.
pub fn check(config: &Config, view: &dyn View) -> Vec<Check> {
    match config.layout {
        LayoutKind::Split => check_layout::<Split>(config, view),
        LayoutKind::Silo => check_layout::<Silo>(config, view),
    }
}

fn check_layout<L: Layout>(config: &Config, view: &dyn View) -> Vec<Check> {
    let mut rows = Findings::new("tpcc-rows");
    let facts = Facts::gather::<L>(view, &mut rows);
    let mut conditions = Conditions::default();
    for w in 1..=config.warehouses {
        conditions.warehouse(w, &facts);
        for d in 1..=DISTRICTS {
            let key = keys::district(w, d);
            let district = facts.districts.get(&key).cloned().unwrap_or_default();
            conditions.district(config, key, &district);
        }
    }
    facts.orders.iter().for_each(|(key, order)| conditions.order(*key, order));
    facts.customers.iter().for_each(|(key, customer)| conditions.customer(*key, customer));
    cardinalities::<L>(config, &facts, &mut rows);
    conditions.finish(rows)
}

/// The findings of each condition, 1 to 12.
struct Conditions([Findings; 12]);

impl Default for Conditions {
    fn default() -> Self {
        const NAMES: [&str; 12] = [
            "tpcc-1", "tpcc-2", "tpcc-3", "tpcc-4", "tpcc-5", "tpcc-6", "tpcc-7", "tpcc-8", "tpcc-9",
            "tpcc-10", "tpcc-11", "tpcc-12",
        ];
        Conditions(NAMES.map(Findings::new))
    }
}

impl Conditions {
    fn expect(&mut self, condition: usize, holds: bool, explain: impl FnOnce() -> String) {
        self.0[condition - 1].expect(holds, explain);
    }

    fn finish(self, rows: Findings) -> Vec<Check> {
        self.0.into_iter().chain([rows]).map(Findings::finish).collect()
    }

    /// 1: W_YTD = sum(D_YTD). 8: W_YTD = sum(H_AMOUNT).
    fn warehouse(&mut self, w: u16, facts: &Facts) {
        let ytd = facts.warehouses.get(&keys::warehouse(w)).copied();
        let districts = (1..=DISTRICTS).map(|d| facts.districts.get(&keys::district(w, d)));
        let (mut sum, mut paid) = (0, 0);
        for district in districts.flatten() {
            sum += district.ytd.unwrap_or(0);
            paid += district.paid;
        }
        self.expect(1, ytd == Some(sum), || {
            format!("warehouse {w}: W_YTD {ytd:?}, its districts' sum {sum}")
        });
        self.expect(8, ytd == Some(paid), || {
            format!("warehouse {w}: W_YTD {ytd:?}, its history's sum {paid}")
        });
    }

    /// 2, 3: order ids are dense up to the district's counter, and so are the new ones. 4: sum(O_OL_CNT) = lines.
    /// 9: D_YTD = sum(H_AMOUNT). 11: orders − new orders = deliveries.
    fn district(&mut self, config: &Config, key: u64, facts: &DistrictFacts) {
        let name = format!("district {}.{}", keys::warehouse_of(key), key & 0xf);
        let (newest, max) = (facts.new_order_ids.map(|(_, max)| max), facts.max_order);
        let span = facts.new_order_ids.map_or(0, |(min, max)| u64::from(max - min) + 1);
        let loaded = u32::from(config.population().customers);
        let (counter, dense) = if config.fast_ids {
            (
                facts.next_order == Some(loaded + 1) && newest.is_none_or(|o| o <= max),
                facts.new_orders <= span,
            )
        } else {
            (
                facts.next_order == max.checked_add(1) && newest.is_none_or(|o| o == max),
                facts.new_orders == span,
            )
        };
        self.expect(2, counter, || {
            format!("{name}: D_NEXT_O_ID {:?}, max(O_ID) {max}, max(NO_O_ID) {newest:?}", facts.next_order)
        });
        self.expect(3, dense, || {
            format!("{name}: {} new orders with ids {:?}", facts.new_orders, facts.new_order_ids)
        });
        self.expect(4, facts.lines_ordered == facts.lines, || {
            format!("{name}: sum(O_OL_CNT) {}, {} order lines", facts.lines_ordered, facts.lines)
        });
        self.expect(9, facts.ytd == Some(facts.paid), || {
            format!("{name}: D_YTD {:?}, its history's sum {}", facts.ytd, facts.paid)
        });
        let delivered = u64::from(config.population().first_new_order() - 1) + facts.deliveries;
        self.expect(11, facts.orders == facts.new_orders + delivered, || {
            let (orders, new) = (facts.orders, facts.new_orders);
            format!("{name}: {orders} orders, {new} new, {delivered} delivered at the start or counted by customers")
        });
    }

    /// 5: the carrier is null iff NEW-ORDER has the order. 6: O_OL_CNT lines exist. 7: a line's delivery date is null
    /// iff the carrier is. What belongs to no order fails too.
    fn order(&mut self, key: u64, facts: &OrderFacts) {
        let district = keys::district_of(key);
        let (w, d, o) = (keys::warehouse_of(district), district & 0xf, keys::order_number(key));
        let name = || format!("order {w}.{d}.{o}");
        let Some(row) = facts.row else {
            self.expect(5, !facts.is_new, || format!("{}: new, but no such order", name()));
            self.expect(6, facts.lines == 0, || format!("{}: has lines, but no such order", name()));
            return;
        };
        self.expect(5, (facts.carrier == 0) == facts.is_new, || {
            format!("{}: carrier {}, in NEW-ORDER {}", name(), facts.carrier, facts.is_new)
        });
        self.expect(6, facts.lines == line_mask(row.lines), || {
            format!("{}: O_OL_CNT {}, lines (as bits) {:#b}", name(), row.lines, facts.lines)
        });
        let should_be_dated = if facts.carrier == 0 { 0 } else { facts.lines };
        self.expect(7, facts.dated == should_be_dated, || {
            format!("{}: carrier {}, lines with a date (as bits) {:#b}", name(), facts.carrier, facts.dated)
        });
    }

    /// 10: C_BALANCE = delivered − paid. 12: C_BALANCE + C_YTD_PAYMENT = delivered.
    fn customer(&mut self, key: u64, facts: &CustomerFacts) {
        let district = keys::district_of_customer(key);
        let name = || format!("customer {}.{}.{}", keys::warehouse_of(district), district & 0xf, key & 0xfff);
        let CustomerFacts { row, paid, delivered } = *facts;
        let (balance, ytd) = row.map_or((0, 0), |row| (row.balance, row.ytd_payment));
        self.expect(10, balance == delivered - paid, || {
            format!("{}: balance {balance}, delivered {delivered}, paid {paid}", name())
        });
        self.expect(12, balance + ytd == delivered, || {
            format!("{}: balance {balance}, paid this year {ytd}, delivered {delivered}", name())
        });
    }
}

/// The tables have the rows that the population put in, and the indexes fit the orders and the customers.
fn cardinalities<L: Layout>(config: &Config, facts: &Facts, rows: &mut Findings) {
    let population = config.population();
    let warehouses = u64::from(config.warehouses);
    let (items, districts) = (u64::from(population.items), warehouses * u64::from(DISTRICTS));
    let customers = districts * u64::from(population.customers);
    let tables = L::TABLES;
    let further = [
        (tables.per_warehouse, warehouses),
        (tables.per_district, districts),
        (tables.per_customer, customers),
        (tables.per_stock, items * warehouses),
        (&[tables.stock], items * warehouses),
        (&[tables.item], items),
    ];
    let expected = further.into_iter().flat_map(|(tables, rows)| tables.iter().map(move |t| (*t, rows)));
    for (table, expected) in expected {
        let found = facts.counts.get(&table).copied().unwrap_or(0);
        rows.expect(found == expected, || format!("{table}: {found} rows, expected {expected}"));
    }
    rows.expect(facts.districts.len() as u64 == districts, || {
        format!("{} districts, expected {districts}", facts.districts.len())
    });
    for (key, district) in &facts.districts {
        let name = || format!("district {}.{}", keys::warehouse_of(*key), key & 0xf);
        rows.expect(district.customers == u64::from(population.customers), || {
            format!("{}: {} customers, expected {}", name(), district.customers, population.customers)
        });
        rows.expect(district.name_entries == district.customers, || {
            format!("{}: {} customers, {} indexed by name", name(), district.customers, district.name_entries)
        });
        rows.expect(district.index_entries == district.orders, || {
            format!("{}: {} orders, {} indexed by customer", name(), district.orders, district.index_entries)
        });
    }
    for key in &facts.stray_index_entries {
        rows.expect(false, || format!("order by customer {key:#x}: no such order of this customer"));
    }
}
