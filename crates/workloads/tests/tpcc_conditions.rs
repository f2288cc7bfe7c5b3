//! Every consistency condition can fail: one or two corrupted rows each, after a run.

#![allow(clippy::unwrap_used)]

use highwater_workloads::tables::tpcc as table;
use highwater_workloads::testing::{Runner, Tables};
use highwater_workloads::tpcc::rows::{Customer, Delivered, History, Order, OrderLine, Stock};
use highwater_workloads::tpcc::{Config, Tpcc, keys};

use highwater_core::View;

/// Corrupts one row and compares the names of the conditions that fail.
struct Corruption {
    tpcc: Tpcc,
    runner: Runner,
    intact: Tables,
}

impl Corruption {
    fn after_a_run(fast_ids: bool) -> Corruption {
        let tpcc = Tpcc::new(Config { warehouses: 2, fast_ids, scale: 0.02, seed: 3 });
        let mut runner = Runner::loaded(&tpcc);
        runner.run_mix(&tpcc, 4, 3000);
        assert!(runner.failing(&tpcc).is_empty());
        let intact = runner.view().clone();
        Corruption { tpcc, runner, intact }
    }

    fn fails(&mut self, corrupt: impl FnOnce(&mut Tables), expected: &[&str]) {
        corrupt(self.runner.tables_mut());
        assert_eq!(self.runner.failing(&self.tpcc), expected);
        *self.runner.tables_mut() = self.intact.clone();
    }
}

fn add(tables: &mut Tables, table: highwater_core::TableId, key: u64, amount: i64) {
    tables.corrupt(table, key, |row| {
        let sum = i64::from_le_bytes(row[..].try_into().unwrap()) + amount;
        *row = sum.to_le_bytes().to_vec();
    });
}

/// Some order that was delivered in the run, with amounts other than 0.
fn delivered_order(tables: &Tables) -> u64 {
    let first_new = 43;
    let mut keys = tables.keys(table::DELIVERY).into_iter();
    keys.find(|key| keys::order_number(*key) >= first_new).expect("the run delivered something")
}

#[test]
fn sums_of_warehouses_and_districts() {
    let mut corruption = Corruption::after_a_run(false);
    let d = keys::district(2, 3);
    corruption.fails(|t| add(t, table::WAREHOUSE_YTD, 1, 1), &["tpcc-1", "tpcc-8"]);
    corruption.fails(|t| add(t, table::DISTRICT_YTD, d, 1), &["tpcc-1", "tpcc-9"]);
    let payment = keys::history(keys::customer(1, 1, 1), 1);
    // The customer paid another cent, which nobody got.
    let more_paid = |t: &mut Tables| {
        t.corrupt(table::HISTORY, payment, |row| {
            let mut history = History::decode(row).unwrap();
            history.amount += 1;
            let bytes = history.encode().as_slice().to_vec();
            *row = bytes;
        });
    };
    corruption.fails(more_paid, &["tpcc-8", "tpcc-9", "tpcc-10"]);
    // The payment was made elsewhere: the customer's sums stay.
    let elsewhere = |t: &mut Tables| t.corrupt(table::HISTORY, payment, |row| row[0] = 2);
    corruption.fails(elsewhere, &["tpcc-8", "tpcc-9"]);
    corruption.fails(|t| t.remove(table::HISTORY, payment), &["tpcc-8", "tpcc-9", "tpcc-10"]);
    corruption.fails(|t| t.remove(table::WAREHOUSE_YTD, 1), &["tpcc-1", "tpcc-8"]);
}

#[test]
fn order_ids() {
    let mut corruption = Corruption::after_a_run(false);
    let d = keys::district(1, 6);
    let bump = |t: &mut Tables| t.corrupt(table::DISTRICT_NEXT, d, |row| row[0] ^= 1);
    corruption.fails(bump, &["tpcc-2"]);
    let new: Vec<u64> = corruption.intact.keys(table::NEW_ORDER);
    let here: Vec<u64> = new.into_iter().filter(|key| keys::district_of(*key) == d).collect();
    // A hole in the middle: 3. And the order is neither new nor delivered: 5, 11.
    let hole = |t: &mut Tables| t.remove(table::NEW_ORDER, here[here.len() / 2]);
    corruption.fails(hole, &["tpcc-3", "tpcc-5", "tpcc-11"]);
    // The newest lost: 2.
    let newest = |t: &mut Tables| t.remove(table::NEW_ORDER, here[here.len() - 1]);
    corruption.fails(newest, &["tpcc-2", "tpcc-5", "tpcc-11"]);
}

#[test]
fn lines_of_orders() {
    let mut corruption = Corruption::after_a_run(false);
    let order = corruption.intact.keys(table::NEW_ORDER)[0];
    let line =
        |number: u64| keys::district_of(order) << 44 | u64::from(keys::order_number(order)) << 4 | number;
    let count =
        Order::decode(&corruption.intact.get(table::ORDER, &order.to_be_bytes()).unwrap()).unwrap().lines;
    corruption.fails(|t| t.remove(table::ORDER_LINE, line(2)), &["tpcc-4", "tpcc-6"]);
    let extra = OrderLine::decode_head(&[0; OrderLine::BYTES]).unwrap();
    assert_eq!(extra.amount, 0);
    let stray = |t: &mut Tables| t.put(table::ORDER_LINE, line(0), &[0; OrderLine::BYTES]);
    corruption.fails(stray, &["tpcc-4", "tpcc-6"]);
    // The count of lines is right but not which: 6 alone.
    let moved = |t: &mut Tables| {
        t.remove(table::ORDER_LINE, line(count.into()));
        t.put(table::ORDER_LINE, line(0), &[0; OrderLine::BYTES]);
    };
    corruption.fails(moved, &["tpcc-6"]);
    // O_OL_CNT.
    let miscounted = |t: &mut Tables| t.corrupt(table::ORDER, order, |row| row[8] += 1);
    corruption.fails(miscounted, &["tpcc-4", "tpcc-6"]);
}

#[test]
fn deliveries() {
    let mut corruption = Corruption::after_a_run(false);
    let new = corruption.intact.keys(table::NEW_ORDER)[3];
    let delivered = delivered_order(&corruption.intact);
    // A carrier for an order that is still new; none of its lines has a date.
    let carrier = Delivered { carrier: 5, date: 0, line_mask: 0 }.encode();
    corruption.fails(|t| t.put(table::DELIVERY, new, &carrier), &["tpcc-5", "tpcc-7"]);
    let edit = |change: fn(&mut Delivered)| {
        move |t: &mut Tables| {
            t.corrupt(table::DELIVERY, delivered, |row| {
                let mut delivery = Delivered::decode(row).unwrap();
                change(&mut delivery);
                *row = delivery.encode().to_vec();
            });
        }
    };
    // One line loses its date: 7; and its amount is no longer delivered: 10, 12.
    corruption.fails(edit(|delivery| delivery.line_mask &= !2), &["tpcc-7", "tpcc-10", "tpcc-12"]);
    corruption.fails(edit(|delivery| delivery.date = 0), &["tpcc-7", "tpcc-10", "tpcc-12"]);
    corruption.fails(edit(|delivery| delivery.carrier = 0), &["tpcc-5", "tpcc-7"]);
    // At load time amounts are 0: 7 alone.
    let old = keys::order(1, 1, 1);
    let undated = |t: &mut Tables| t.corrupt(table::DELIVERY, old, |row| row[7] = 0);
    corruption.fails(undated, &["tpcc-7"]);
    // Delivered but still in NEW-ORDER.
    corruption.fails(|t| t.put(table::NEW_ORDER, old, &[]), &["tpcc-3", "tpcc-5", "tpcc-11"]);
}

#[test]
fn customers() {
    let mut corruption = Corruption::after_a_run(false);
    let key = keys::customer(2, 9, 30);
    let edit = |change: fn(&mut Customer)| {
        move |t: &mut Tables| {
            t.corrupt(table::CUSTOMER, key, |row| {
                let mut customer = Customer::decode(row).unwrap();
                change(&mut customer);
                *row = customer.encode().to_vec();
            });
        }
    };
    corruption.fails(edit(|customer| customer.balance += 1), &["tpcc-10", "tpcc-12"]);
    corruption.fails(edit(|customer| customer.ytd_payment += 1), &["tpcc-12"]);
    corruption.fails(edit(|customer| customer.deliveries += 1), &["tpcc-11"]);
    let both = edit(|customer| {
        customer.balance += 1;
        customer.ytd_payment -= 1;
    });
    corruption.fails(both, &["tpcc-10"]);
    // What was delivered costs another amount.
    let order = delivered_order(&corruption.intact);
    let line = keys::district_of(order) << 44 | u64::from(keys::order_number(order)) << 4 | 1;
    corruption.fails(|t| t.corrupt(table::ORDER_LINE, line, |row| row[3] ^= 1), &["tpcc-10", "tpcc-12"]);
}

#[test]
fn rows_and_indexes() {
    let mut corruption = Corruption::after_a_run(false);
    let stock = Stock { quantity: 1, ytd: 0, orders: 0, remote_orders: 0 }.encode();
    corruption.fails(|t| t.put(table::STOCK, keys::stock(3, 1), &stock), &["tpcc-rows"]);
    corruption.fails(|t| t.remove(table::ITEM, 5), &["tpcc-rows"]);
    let entry = corruption.intact.keys(table::ORDER_BY_CUSTOMER)[0];
    corruption.fails(|t| t.remove(table::ORDER_BY_CUSTOMER, entry), &["tpcc-rows"]);
    let wrong_customer = |t: &mut Tables| {
        t.remove(table::ORDER_BY_CUSTOMER, entry);
        t.put(table::ORDER_BY_CUSTOMER, entry + (1 << 32), &[]);
    };
    corruption.fails(wrong_customer, &["tpcc-rows"]);
    let cut = |t: &mut Tables| t.corrupt(table::NEW_ORDER, t.keys(table::NEW_ORDER)[0], |row| row.push(0));
    corruption.fails(cut, &["tpcc-rows"]);
}

#[test]
fn with_fast_ids_the_weaker_conditions_still_bite() {
    let mut corruption = Corruption::after_a_run(true);
    let d = keys::district(1, 6);
    let bump = |t: &mut Tables| t.corrupt(table::DISTRICT_NEXT, d, |row| row[0] ^= 1);
    corruption.fails(bump, &["tpcc-2"]);
    let beyond = |t: &mut Tables| t.put(table::NEW_ORDER, keys::order(1, 6, 1 << 20), &[]);
    corruption.fails(beyond, &["tpcc-2", "tpcc-5", "tpcc-11"]);
}
