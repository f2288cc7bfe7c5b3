//! Every consistency condition can fail: one or two corrupted rows each, after a run, in both layouts.

#![allow(clippy::unwrap_used)]

use highwater_core::{TableId, View};
use highwater_workloads::testing::{Runner, Tables};
use highwater_workloads::tpcc::layout::silo::rows as silo_rows;
use highwater_workloads::tpcc::layout::{Layout, LayoutKind, Silo, Split};
use highwater_workloads::tpcc::rows::{Customer, Order, OrderLine, Stock};
use highwater_workloads::tpcc::{Config, Tpcc, keys};

/// Each test in both layouts.
macro_rules! in_both_layouts {
    ($($test:ident),* $(,)?) => {
        mod split {
            $(#[test] fn $test() { super::$test::<super::Split>(); })*
        }
        mod silo {
            $(#[test] fn $test() { super::$test::<super::Silo>(); })*
        }
    };
}

in_both_layouts!(
    sums_of_warehouses_and_districts,
    order_ids,
    lines_of_orders,
    deliveries,
    customers,
    rows_and_indexes,
    with_fast_ids_the_weaker_conditions_still_bite,
);

/// Corrupts one row and compares the names of the conditions that fail.
struct Corruption {
    tpcc: Tpcc,
    runner: Runner,
    intact: Tables,
}

impl Corruption {
    fn after_a_run(layout: LayoutKind, fast_ids: bool) -> Corruption {
        let tpcc = Tpcc::new(Config { layout, warehouses: 2, fast_ids, scale: 0.02, seed: 3 });
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

/// Year-to-date sums stand in front of their rows.
fn add(tables: &mut Tables, table: TableId, key: u64, amount: i64) {
    tables.corrupt(table, key, |row| {
        let sum = i64::from_le_bytes(row[..8].try_into().unwrap()) + amount;
        row[..8].copy_from_slice(&sum.to_le_bytes());
    });
}

/// Changes D_NEXT_O_ID.
fn bump<L: Layout>(tables: &mut Tables, district: u64) {
    let at = if L::KIND == LayoutKind::Silo { 12 } else { 0 };
    tables.corrupt(L::TABLES.district_next, district, |row| row[at] ^= 1);
}

fn edit_order<L: Layout>(tables: &mut Tables, key: u64, change: impl FnOnce(&mut Order)) {
    tables.corrupt(L::TABLES.order, key, |row| {
        let mut order = L::order(row).unwrap();
        change(&mut order);
        *row = L::order_row(&order).as_ref().to_vec();
    });
}

fn edit_line<L: Layout>(tables: &mut Tables, order: u64, number: u64, change: impl FnOnce(&mut OrderLine)) {
    tables.corrupt(L::TABLES.order_line, line_of(order, number), |row| {
        let mut line = L::order_line(row).unwrap();
        change(&mut line);
        *row = L::order_line_row(&line).as_ref().to_vec();
    });
}

fn edit_customer<L: Layout>(tables: &mut Tables, key: u64, change: impl FnOnce(&mut Customer)) {
    tables.corrupt(L::TABLES.customer, key, |row| {
        let mut customer = L::customer(row).unwrap();
        change(&mut customer);
        match L::KIND {
            LayoutKind::Split => *row = customer.encode().to_vec(),
            LayoutKind::Silo => silo_rows::set_customer(row[..].as_mut().try_into().unwrap(), &customer),
        }
    });
}

fn line_of(order: u64, number: u64) -> u64 {
    keys::district_of(order) << 44 | u64::from(keys::order_number(order)) << 4 | number
}

fn order_of<L: Layout>(tables: &Tables, key: u64) -> Order {
    L::order(&tables.get(L::TABLES.order, &key.to_be_bytes()).unwrap()).unwrap()
}

/// Some order that was delivered in the run, with amounts other than 0.
fn delivered_order<L: Layout>(tables: &Tables) -> u64 {
    let first_new = 43;
    let mut keys = tables.keys(L::TABLES.order).into_iter();
    let delivered =
        |key: &u64| keys::order_number(*key) >= first_new && order_of::<L>(tables, *key).carrier != 0;
    keys.find(delivered).expect("the run delivered something")
}

fn sums_of_warehouses_and_districts<L: Layout>() {
    let mut corruption = Corruption::after_a_run(L::KIND, false);
    let d = keys::district(2, 3);
    corruption.fails(|t| add(t, L::TABLES.warehouse_ytd, 1, 1), &["tpcc-1", "tpcc-8"]);
    corruption.fails(|t| add(t, L::TABLES.district_ytd, d, 1), &["tpcc-1", "tpcc-9"]);
    let payment = keys::history(keys::customer(1, 1, 1), 1);
    // The customer paid another cent, which nobody got.
    let more_paid = |t: &mut Tables| {
        t.corrupt(L::TABLES.history, payment, |row| {
            let mut history = L::history(row).unwrap();
            history.amount += 1;
            let bytes = L::history_row(&history).as_slice().to_vec();
            *row = bytes;
        });
    };
    corruption.fails(more_paid, &["tpcc-8", "tpcc-9", "tpcc-10"]);
    // The payment was made elsewhere: the customer's sums stay.
    let elsewhere = |t: &mut Tables| t.corrupt(L::TABLES.history, payment, |row| row[0] = 2);
    corruption.fails(elsewhere, &["tpcc-8", "tpcc-9"]);
    corruption.fails(|t| t.remove(L::TABLES.history, payment), &["tpcc-8", "tpcc-9", "tpcc-10"]);
    corruption.fails(|t| t.remove(L::TABLES.warehouse_ytd, 1), &["tpcc-1", "tpcc-8"]);
}

fn order_ids<L: Layout>() {
    let mut corruption = Corruption::after_a_run(L::KIND, false);
    let d = keys::district(1, 6);
    corruption.fails(|t| bump::<L>(t, d), &["tpcc-2"]);
    let new: Vec<u64> = corruption.intact.keys(L::TABLES.new_order);
    let here: Vec<u64> = new.into_iter().filter(|key| keys::district_of(*key) == d).collect();
    // A hole in the middle: 3. And the order is neither new nor delivered: 5, 11.
    let hole = |t: &mut Tables| t.remove(L::TABLES.new_order, here[here.len() / 2]);
    corruption.fails(hole, &["tpcc-3", "tpcc-5", "tpcc-11"]);
    // The newest lost: 2.
    let newest = |t: &mut Tables| t.remove(L::TABLES.new_order, here[here.len() - 1]);
    corruption.fails(newest, &["tpcc-2", "tpcc-5", "tpcc-11"]);
}

fn lines_of_orders<L: Layout>() {
    let mut corruption = Corruption::after_a_run(L::KIND, false);
    let order = corruption.intact.keys(L::TABLES.new_order)[0];
    let count = order_of::<L>(&corruption.intact, order).lines;
    let line = |number| line_of(order, number);
    corruption.fails(|t| t.remove(L::TABLES.order_line, line(2)), &["tpcc-4", "tpcc-6"]);
    let extra = OrderLine {
        item: 1,
        amount: 0,
        supply_warehouse: 1,
        quantity: 1,
        delivery_date: 0,
        dist_info: [b' '; 24],
    };
    let stray = |t: &mut Tables| t.put(L::TABLES.order_line, line(0), L::order_line_row(&extra).as_ref());
    corruption.fails(stray, &["tpcc-4", "tpcc-6"]);
    // The count of lines is right but not which: 6 alone.
    let moved = |t: &mut Tables| {
        t.remove(L::TABLES.order_line, line(count.into()));
        t.put(L::TABLES.order_line, line(0), L::order_line_row(&extra).as_ref());
    };
    corruption.fails(moved, &["tpcc-6"]);
    // O_OL_CNT.
    corruption.fails(|t| edit_order::<L>(t, order, |order| order.lines += 1), &["tpcc-4", "tpcc-6"]);
    // Lines of no order at all.
    let nobodys = |t: &mut Tables| {
        let far = keys::order(1, 1, 1 << 20);
        t.put(L::TABLES.order_line, line_of(far, 1), L::order_line_row(&extra).as_ref());
    };
    corruption.fails(nobodys, &["tpcc-4", "tpcc-6"]);
}

fn deliveries<L: Layout>() {
    let mut corruption = Corruption::after_a_run(L::KIND, false);
    let new = corruption.intact.keys(L::TABLES.new_order)[3];
    let delivered = delivered_order::<L>(&corruption.intact);
    // A carrier for an order that is still new; none of its lines has a date.
    corruption.fails(|t| edit_order::<L>(t, new, |order| order.carrier = 5), &["tpcc-5", "tpcc-7"]);
    corruption.fails(|t| edit_order::<L>(t, delivered, |order| order.carrier = 0), &["tpcc-5", "tpcc-7"]);
    // One line loses its date: 7; and its amount is no longer delivered: 10, 12.
    let undated = |t: &mut Tables| edit_line::<L>(t, delivered, 1, |line| line.delivery_date = 0);
    corruption.fails(undated, &["tpcc-7", "tpcc-10", "tpcc-12"]);
    // At load time amounts are 0: 7 alone.
    let old = keys::order(1, 1, 1);
    let undated = |t: &mut Tables| edit_line::<L>(t, old, 5, |line| line.delivery_date = 0);
    corruption.fails(undated, &["tpcc-7"]);
    // A line of an order that was not delivered has a date, and is worth something.
    let dated = |t: &mut Tables| edit_line::<L>(t, new, 2, |line| line.delivery_date = 1);
    corruption.fails(dated, &["tpcc-7", "tpcc-10", "tpcc-12"]);
    // Delivered but still in NEW-ORDER.
    let still_new = |t: &mut Tables| t.put(L::TABLES.new_order, old, L::NEW_ORDER_ROW);
    corruption.fails(still_new, &["tpcc-3", "tpcc-5", "tpcc-11"]);
}

fn customers<L: Layout>() {
    let mut corruption = Corruption::after_a_run(L::KIND, false);
    let key = keys::customer(2, 9, 30);
    let edit = |change: fn(&mut Customer)| move |t: &mut Tables| edit_customer::<L>(t, key, change);
    corruption.fails(edit(|customer| customer.balance += 1), &["tpcc-10", "tpcc-12"]);
    corruption.fails(edit(|customer| customer.ytd_payment += 1), &["tpcc-12"]);
    corruption.fails(edit(|customer| customer.deliveries += 1), &["tpcc-11"]);
    let both = edit(|customer| {
        customer.balance += 1;
        customer.ytd_payment -= 1;
    });
    corruption.fails(both, &["tpcc-10"]);
    // What was delivered costs another amount.
    let order = delivered_order::<L>(&corruption.intact);
    corruption.fails(|t| edit_line::<L>(t, order, 1, |line| line.amount ^= 1), &["tpcc-10", "tpcc-12"]);
}

fn rows_and_indexes<L: Layout>() {
    let mut corruption = Corruption::after_a_run(L::KIND, false);
    let stock = Stock { quantity: 1, ytd: 0, orders: 0, remote_orders: 0 };
    let another = |t: &mut Tables| t.put(L::TABLES.stock, keys::stock(3, 1), L::stock_row(&stock).as_ref());
    corruption.fails(another, &["tpcc-rows"]);
    corruption.fails(|t| t.remove(L::TABLES.item, 5), &["tpcc-rows"]);
    let tables = L::TABLES;
    let further = [tables.per_warehouse, tables.per_district, tables.per_customer, tables.per_stock];
    for table in further.into_iter().flatten() {
        let some = corruption.intact.keys(*table)[0];
        corruption.fails(|t| t.remove(*table, some), &["tpcc-rows"]);
    }
    let index = L::TABLES.order_by_customer;
    let entry = corruption.intact.keys(index)[0];
    corruption.fails(|t| t.remove(index, entry), &["tpcc-rows"]);
    let wrong_customer = |t: &mut Tables| {
        t.remove(index, entry);
        t.put(index, entry + (1 << 32), L::ORDER_BY_CUSTOMER_ROW);
    };
    corruption.fails(wrong_customer, &["tpcc-rows"]);
    let new_order = L::TABLES.new_order;
    let longer = |t: &mut Tables| t.corrupt(new_order, t.keys(new_order)[0], |row| row.push(0));
    corruption.fails(longer, &["tpcc-rows"]);
}

#[test]
fn names_without_customers_and_customers_without_names() {
    fn bite<L: Layout>() {
        let mut corruption = Corruption::after_a_run(L::KIND, false);
        let index = L::TABLES.customer_by_name;
        let mut entries = Vec::new();
        corruption.intact.for_each(index, &mut |key, row| entries.push((key.to_vec(), row.to_vec())));
        let (entry, row) = &entries[entries.len() / 2];
        let name = L::name(entry, row).unwrap();
        corruption.fails(|t| t.remove(index, &entry[..]), &["tpcc-rows"]);
        // As many entries as customers, but one has somebody's wrong name, or is somebody else's.
        for (last, c) in [(&b"NOBODY"[..], name.customer), (name.last, name.customer % 60 + 1)] {
            let wrong = L::name_key(name.warehouse, name.district, last, name.first, c);
            let renamed = |t: &mut Tables| {
                t.remove(index, &entry[..]);
                t.put(index, wrong.as_slice(), L::name_row(c).as_slice());
            };
            corruption.fails(renamed, &["tpcc-rows"]);
        }
        corruption.fails(|t| t.put(index, &b"no name"[..], &[]), &["tpcc-rows"]);
    }
    bite::<Split>();
    bite::<Silo>();
}

fn with_fast_ids_the_weaker_conditions_still_bite<L: Layout>() {
    let mut corruption = Corruption::after_a_run(L::KIND, true);
    corruption.fails(|t| bump::<L>(t, keys::district(1, 6)), &["tpcc-2"]);
    let beyond = |t: &mut Tables| t.put(L::TABLES.new_order, keys::order(1, 6, 1 << 20), L::NEW_ORDER_ROW);
    corruption.fails(beyond, &["tpcc-2", "tpcc-5", "tpcc-11"]);
}
