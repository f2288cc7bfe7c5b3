//! What the consistency conditions are about, gathered in one pass over each table.

use std::collections::HashMap;

use highwater_core::codec::Malformed;
use highwater_core::{TableId, View};

use super::keys;
use super::layout::Layout;
use super::rows::{Customer, Order};
use crate::workload::Findings;

/// Sums and extremes of one district.
#[derive(Clone, Debug, Default)]
pub struct DistrictFacts {
    /// D_YTD, if the row exists.
    pub ytd: Option<i64>,
    /// D_NEXT_O_ID, if the row exists.
    pub next_order: Option<u32>,
    /// Rows in ORDER, and the largest O_ID.
    pub orders: u64,
    /// The largest O_ID.
    pub max_order: u32,
    /// The sum of O_OL_CNT.
    pub lines_ordered: u64,
    /// Rows in ORDER-LINE.
    pub lines: u64,
    /// Rows in NEW-ORDER.
    pub new_orders: u64,
    /// The smallest and largest NO_O_ID.
    pub new_order_ids: Option<(u32, u32)>,
    /// The sum of its customers' C_DELIVERY_CNT.
    pub deliveries: u64,
    /// The sum of H_AMOUNT paid here.
    pub paid: i64,
    /// Rows in CUSTOMER.
    pub customers: u64,
    /// Entries in the index of orders by customer.
    pub index_entries: u64,
    /// Entries in the index of customers by name.
    pub name_entries: u64,
}

/// One order and what belongs to it. Without `row`, something belongs to an order that does not exist.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderFacts {
    pub row: Option<Order>,
    /// Whether NEW-ORDER has it.
    pub is_new: bool,
    /// O_CARRIER_ID, 0 for null.
    pub carrier: u8,
    /// Which lines have a delivery date.
    pub dated: u16,
    /// Which lines exist.
    pub lines: u16,
    /// The sum of OL_AMOUNT over the lines that have a date.
    pub delivered_amount: i64,
}

/// One customer and what belongs to him.
#[derive(Clone, Copy, Debug, Default)]
pub struct CustomerFacts {
    /// His row.
    pub row: Option<Customer>,
    /// The sum of H_AMOUNT that he paid anywhere.
    pub paid: i64,
    /// The sum of OL_AMOUNT of what was delivered to him.
    pub delivered: i64,
}

/// Everything, by the packed keys of [`keys`].
#[derive(Debug, Default)]
pub struct Facts {
    /// W_YTD.
    pub warehouses: HashMap<u64, i64>,
    pub districts: HashMap<u64, DistrictFacts>,
    pub orders: HashMap<u64, OrderFacts>,
    pub customers: HashMap<u64, CustomerFacts>,
    /// Entries of the index of orders by customer without an order of that customer.
    pub stray_index_entries: Vec<u64>,
    /// Rows of tables that are only counted.
    pub counts: HashMap<TableId, u64>,
}

impl Facts {
    /// Reads all of it. Rows that make no sense are reported and otherwise left out.
    pub fn gather<L: Layout>(view: &dyn View, malformed: &mut Findings) -> Facts {
        let mut facts = Facts::default();
        facts.gather_sums::<L>(view, malformed);
        facts.gather_orders::<L>(view, malformed);
        facts.gather_lines::<L>(view, malformed);
        facts.gather_customers::<L>(view, malformed);
        facts.gather_names::<L>(view, malformed);
        let tables = L::TABLES;
        let further = [tables.per_warehouse, tables.per_district, tables.per_customer, tables.per_stock];
        for table in further.into_iter().flatten().chain(&[tables.item, tables.stock]) {
            let mut count = 0;
            view.for_each(*table, &mut |_, _| count += 1);
            facts.counts.insert(*table, count);
        }
        facts
    }

    fn gather_sums<L: Layout>(&mut self, view: &dyn View, malformed: &mut Findings) {
        each(view, L::TABLES.warehouse_ytd, malformed, |key, row| {
            self.warehouses.insert(key, L::warehouse_ytd(row)?);
            Ok(())
        });
        each(view, L::TABLES.district_ytd, malformed, |key, row| {
            self.districts.entry(key).or_default().ytd = Some(L::district_ytd(row)?);
            Ok(())
        });
        each(view, L::TABLES.district_next, malformed, |key, row| {
            self.districts.entry(key).or_default().next_order = Some(L::district_next(row)?);
            Ok(())
        });
    }

    fn gather_orders<L: Layout>(&mut self, view: &dyn View, malformed: &mut Findings) {
        each(view, L::TABLES.order, malformed, |key, row| {
            let order = L::order(row)?;
            let facts = self.orders.entry(key).or_default();
            (facts.row, facts.carrier) = (Some(order), order.carrier);
            let district = self.districts.entry(keys::district_of(key)).or_default();
            district.orders += 1;
            district.max_order = district.max_order.max(keys::order_number(key));
            district.lines_ordered += u64::from(order.lines);
            Ok(())
        });
        each(view, L::TABLES.new_order, malformed, |key, row| {
            self.orders.entry(key).or_default().is_new = true;
            let district = self.districts.entry(keys::district_of(key)).or_default();
            let o = keys::order_number(key);
            let (min, max) = district.new_order_ids.unwrap_or((o, o));
            district.new_order_ids = Some((min.min(o), max.max(o)));
            district.new_orders += 1;
            expect(row, L::NEW_ORDER_ROW)
        });
        each(view, L::TABLES.order_by_customer, malformed, |key, row| {
            let customer = keys::customer_of(key);
            let district = keys::district_of_customer(customer);
            self.districts.entry(district).or_default().index_entries += 1;
            let order = self.orders.get(&(district << 44 | u64::from(keys::order_number(key))));
            let owner = order.and_then(|order| order.row).map(|row| row.customer);
            if owner != Some(keys::customer_number(customer)) {
                self.stray_index_entries.push(key);
            }
            expect(row, L::ORDER_BY_CUSTOMER_ROW)
        });
    }

    fn gather_lines<L: Layout>(&mut self, view: &dyn View, malformed: &mut Findings) {
        each(view, L::TABLES.order_line, malformed, |key, row| {
            let line = L::order_line(row)?;
            let bit = 1 << keys::line_number(key);
            self.districts.entry(keys::district_of(key)).or_default().lines += 1;
            let order = self.orders.entry(keys::order_of_line(key)).or_default();
            order.lines |= bit;
            if line.delivery_date != 0 {
                order.dated |= bit;
                order.delivered_amount += i64::from(line.amount);
            }
            Ok(())
        });
    }

    /// Needs the orders and their lines.
    fn gather_customers<L: Layout>(&mut self, view: &dyn View, malformed: &mut Findings) {
        each(view, L::TABLES.customer, malformed, |key, row| {
            let customer = L::customer(row)?;
            self.customers.entry(key).or_default().row = Some(customer);
            let district = self.districts.entry(keys::district_of_customer(key)).or_default();
            district.deliveries += u64::from(customer.deliveries);
            district.customers += 1;
            Ok(())
        });
        each(view, L::TABLES.history, malformed, |key, row| {
            let history = L::history(row)?;
            let amount = i64::from(history.amount);
            self.customers.entry(keys::customer_of(key)).or_default().paid += amount;
            let district = keys::district(history.warehouse, history.district);
            self.districts.entry(district).or_default().paid += amount;
            Ok(())
        });
        for (key, order) in &self.orders {
            let Some(row) = order.row.filter(|_| order.delivered_amount != 0) else { continue };
            let customer = keys::district_of(*key) << 12 | u64::from(row.customer);
            self.customers.entry(customer).or_default().delivered += order.delivered_amount;
        }
    }

    /// As many entries as customers, each with its customer's names: then there is one for everybody.
    fn gather_names<L: Layout>(&mut self, view: &dyn View, malformed: &mut Findings) {
        let table = L::TABLES.customer_by_name;
        view.for_each(table, &mut |key, row| {
            let name = match L::name(key, row) {
                Ok(name) => name,
                Err(error) => {
                    return malformed.expect(false, || format!("{table} key {key:02x?}: {error:?}"));
                }
            };
            let (w, d, c) = (name.warehouse, name.district, name.customer);
            self.districts.entry(keys::district(w, d)).or_default().name_entries += 1;
            let row = view.get(L::TABLES.customer_info, &keys::customer(w, d, c).to_be_bytes());
            let info = row.as_deref().map(L::customer_info);
            let fits = info.is_some_and(|info| {
                info.is_ok_and(|info| (info.last, info.first) == (name.last, name.first))
            });
            malformed.expect(fits, || {
                let (last, first) = (name.last.escape_ascii(), name.first.escape_ascii());
                format!("customer {w}.{d}.{c} is indexed as {last}, {first}, and has another name")
            });
        });
    }
}

/// The row must be this one.
fn expect(row: &[u8], only: &[u8]) -> Result<(), Malformed> {
    if row == only { Ok(()) } else { Err(Malformed("row of an index")) }
}

/// Visits every row of an integer table; reports those whose key or value makes no sense.
fn each(
    view: &dyn View,
    table: TableId,
    malformed: &mut Findings,
    mut visit: impl FnMut(u64, &[u8]) -> Result<(), Malformed>,
) {
    view.for_each(table, &mut |key, row| {
        let result = match key.try_into() {
            Ok(key) => visit(u64::from_be_bytes(key), row),
            Err(_) => Err(Malformed("key")),
        };
        malformed.expect(result.is_ok(), || format!("{table} key {key:02x?}: {result:?}"));
    });
}
