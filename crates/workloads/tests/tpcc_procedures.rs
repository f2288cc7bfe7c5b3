//! Each TPC-C transaction by hand: what it reads, writes and replies.

#![allow(clippy::unwrap_used)]

use highwater_core::codec::Reader;
use highwater_core::{Abort, TableId, View};
use highwater_workloads::bytes::Fields;
use highwater_workloads::tables::tpcc as table;
use highwater_workloads::testing::Runner;
use highwater_workloads::tpcc::customer::Who;
use highwater_workloads::tpcc::rows::{
    Customer, CustomerInfo, Delivered, History, Item, Order, OrderLine, Place, Stock, StockInfo,
};
use highwater_workloads::tpcc::{
    Config, Tpcc, delivery, keys, new_order, order_status, payment, stock_level,
};

const DATE: u64 = 0x1234_5678_9abc;

fn loaded() -> Runner {
    Runner::loaded(&Tpcc::new(Config { warehouses: 2, scale: 0.02, ..Config::default() }))
}

fn row(runner: &Runner, table: TableId, key: u64) -> Vec<u8> {
    runner.view().get(table, &key.to_be_bytes()).unwrap_or_else(|| panic!("{table} has no {key:#x}"))
}

fn order(lines: &[(u32, u16, u8)], id: u32) -> Vec<u8> {
    let mut args = Vec::new();
    new_order::Request { warehouse: 1, district: 4, customer: 7, order: id, entry_date: DATE }
        .encode(&mut args);
    for (item, supply_warehouse, quantity) in lines.iter().copied() {
        new_order::Line { item, supply_warehouse, quantity }.encode(&mut args);
    }
    args
}

fn pay(who: Who, amount: u32) -> Vec<u8> {
    let mut args = Vec::new();
    payment::Request {
        warehouse: 1,
        district: 4,
        customer_warehouse: 2,
        customer_district: 5,
        who,
        amount,
        date: DATE,
    }
    .encode(&mut args);
    args
}

#[test]
fn new_order_takes_from_stock_and_replies_with_the_bill() {
    let mut runner = loaded();
    let stock = |runner: &Runner, w, i| Stock::decode(&row(runner, table::STOCK, keys::stock(w, i))).unwrap();
    // The same item twice, once from elsewhere: its stock must see both.
    let lines = [(10, 1, 5), (11, 2, 3), (10, 1, 10)];
    let (before, remote_before) = (stock(&runner, 1, 10), stock(&runner, 2, 11));
    let (result, reply) = runner.run("tpcc.new_order", &order(&lines, 0));
    assert_eq!(result, Ok(()));

    let take = |quantity: u16, n: u16| if quantity >= n + 10 { quantity - n } else { quantity + 91 - n };
    let after = stock(&runner, 1, 10);
    assert_eq!(after.quantity, take(take(before.quantity, 5), 10));
    assert_eq!((after.ytd, after.orders, after.remote_orders), (15, 2, 0));
    let remote = stock(&runner, 2, 11);
    assert_eq!(remote.quantity, take(remote_before.quantity, 3));
    assert_eq!((remote.ytd, remote.orders, remote.remote_orders), (3, 1, 1));

    let o = 61;
    assert_eq!(row(&runner, table::DISTRICT_NEXT, keys::district(1, 4)), 62u32.to_le_bytes());
    let written = Order::decode(&row(&runner, table::ORDER, keys::order(1, 4, o))).unwrap();
    assert_eq!(written, Order { entry_date: DATE, customer: 7, lines: 3, all_local: 0 });
    row(&runner, table::NEW_ORDER, keys::order(1, 4, o));
    row(&runner, table::ORDER_BY_CUSTOMER, keys::order_by_customer(1, 4, 7, o));

    let (customer, w, d) = (
        row(&runner, table::CUSTOMER_INFO, keys::customer(1, 4, 7)),
        row(&runner, table::WAREHOUSE_INFO, 1),
        row(&runner, table::DISTRICT_INFO, keys::district(1, 4)),
    );
    let customer = CustomerInfo::decode(&customer).unwrap();
    let (w_tax, d_tax) = (Place::decode(&w).unwrap().tax, Place::decode(&d).unwrap().tax);
    let mut reader = Reader::new(&reply);
    assert_eq!(reader.u32(), Ok(o));
    let total = reader.u32().unwrap();
    assert_eq!(reader.u16(), Ok(customer.discount));
    assert_eq!(reader.array(), Ok(customer.credit));
    assert_eq!(reader.text(), Ok(customer.last));
    assert_eq!((reader.u16(), reader.u16()), (Ok(w_tax), Ok(d_tax)));
    let mut sum = 0;
    for (number, (item, supply, quantity)) in (1..).zip(lines) {
        let item_row = row(&runner, table::ITEM, keys::item(item));
        let expected = Item::decode(&item_row).unwrap();
        assert_eq!(reader.u24(), Ok(expected.price));
        assert_eq!(reader.text(), Ok(expected.name));
        assert!(matches!(reader.u8(), Ok(b'B' | b'G')));
        reader.u16().unwrap();
        let amount = expected.price * u32::from(quantity);
        assert_eq!(reader.u24(), Ok(amount));
        sum += u64::from(amount);
        let line = row(&runner, table::ORDER_LINE, keys::order_line(1, 4, o, number));
        let head = OrderLine::decode_head(&line).unwrap();
        assert_eq!(
            (head.item, head.supply_warehouse, head.quantity, head.amount),
            (item, supply, quantity, amount)
        );
        let info = row(&runner, table::STOCK_INFO, keys::stock(supply, item));
        assert_eq!(line[9..], StockInfo::decode(&info).unwrap().dist(4));
    }
    assert!(reader.is_empty());
    let rate = |value: u16| f64::from(value) / 10_000.0;
    let expected = sum as f64 * (1.0 - rate(customer.discount)) * (1.0 + rate(w_tax) + rate(d_tax));
    assert!((f64::from(total) - expected).abs() <= 1.0, "{total} cents, expected {expected}");
}

#[test]
fn new_order_does_not_touch_what_payment_writes() {
    let mut runner = loaded();
    runner.run("tpcc.new_order", &order(&[(10, 1, 5)], 0)).0.unwrap();
    for table in [table::WAREHOUSE_YTD, table::DISTRICT_YTD, table::CUSTOMER, table::CUSTOMER_DATA] {
        assert!(!runner.last.touches(table), "{table}");
    }
    assert!(runner.last.touches(table::DISTRICT_NEXT));
    runner.run("tpcc.new_order", &order(&[(10, 1, 5)], 500)).0.unwrap();
    assert!(!runner.last.touches(table::DISTRICT_NEXT), "fast ids leave the counter alone");
    assert_eq!(runner.run("tpcc.new_order", &order(&[(10, 1, 5)], 500)).0, Err(Abort::BadRequest));
}

#[test]
fn an_unused_item_rolls_everything_back() {
    let mut runner = loaded();
    let before = runner.view().clone();
    let (result, reply) = runner.run("tpcc.new_order", &order(&[(10, 1, 5), (2001, 1, 1)], 0));
    assert_eq!(result, Err(Abort::Rollback));
    assert_eq!(reply, b"Item number is not valid");
    assert!(runner.last.touches(table::STOCK), "the valid items were processed first");
    assert!(*runner.view() == before);
}

#[test]
fn payment_books_with_customer_district_warehouse_and_history() {
    let mut runner = loaded();
    let key = keys::customer(2, 5, 9);
    let ytd =
        |runner: &Runner, table, key| i64::from_le_bytes(row(runner, table, key)[..].try_into().unwrap());
    let before =
        (ytd(&runner, table::WAREHOUSE_YTD, 1), ytd(&runner, table::DISTRICT_YTD, keys::district(1, 4)));
    let (result, reply) = runner.run("tpcc.payment", &pay(Who::Id(9), 12_345));
    assert_eq!(result, Ok(()));
    let customer = Customer::decode(&row(&runner, table::CUSTOMER, key)).unwrap();
    assert_eq!(customer, Customer { balance: -13_345, ytd_payment: 13_345, payments: 2, deliveries: 0 });
    let after =
        (ytd(&runner, table::WAREHOUSE_YTD, 1), ytd(&runner, table::DISTRICT_YTD, keys::district(1, 4)));
    assert_eq!(after, (before.0 + 12_345, before.1 + 12_345));

    let (info, d, w) = (
        row(&runner, table::CUSTOMER_INFO, key),
        row(&runner, table::DISTRICT_INFO, keys::district(1, 4)),
        row(&runner, table::WAREHOUSE_INFO, 1),
    );
    let history = row(&runner, table::HISTORY, keys::history(key, 2));
    let history = History::decode(&history).unwrap();
    let names = [Place::decode(&w).unwrap().name, b"    ", Place::decode(&d).unwrap().name].concat();
    let expected = History { warehouse: 1, district: 4, date: DATE, amount: 12_345, data: &names };
    assert_eq!(history, expected);

    let mut reader = Reader::new(&reply);
    assert_eq!((reader.u16(), reader.i64()), (Ok(9), Ok(-13_345)));
    assert_eq!([reader.text(), reader.text(), reader.text()], [Ok(&info[..]), Ok(&d[..]), Ok(&w[..])]);
}

#[test]
fn bad_credit_is_noted_in_front_of_the_data_which_stays_within_500_bytes() {
    let mut runner = loaded();
    let is_bad = |c: &u16| {
        let info = row(&runner, table::CUSTOMER_INFO, keys::customer(2, 5, *c));
        CustomerInfo::decode(&info).unwrap().credit == *b"BC"
    };
    let c = (1..=60).find(is_bad).expect("a tenth of the customers");
    let old = row(&runner, table::CUSTOMER_DATA, keys::customer(2, 5, c));
    let mut reply = Vec::new();
    for _ in 0..20 {
        reply = runner.run("tpcc.payment", &pay(Who::Id(c), 12_345)).1;
    }
    let data = row(&runner, table::CUSTOMER_DATA, keys::customer(2, 5, c));
    let note = format!("{c} 5 2 4 1 123.45 ");
    assert!(data.starts_with(note.repeat(20).as_bytes()));
    assert_eq!(data.len(), 500.min(old.len() + 20 * note.len()));
    assert!(reply.ends_with(&data[..200]));
}

#[test]
fn a_last_name_means_the_middle_customer_by_first_name() {
    let mut runner = loaded();
    let mut of_name = std::collections::BTreeMap::<Vec<u8>, Vec<(Vec<u8>, u16)>>::new();
    for c in 1..=60 {
        let info = row(&runner, table::CUSTOMER_INFO, keys::customer(2, 5, c));
        let info = CustomerInfo::decode(&info).unwrap();
        of_name.entry(info.last.to_vec()).or_default().push((info.first.to_vec(), c));
    }
    // The first 60 names are each given once at this scale; the index must find every one.
    for name in 0..60 {
        let last = highwater_workloads::tpcc::text::last_name(name);
        let customers = of_name.get_mut(last.as_slice()).expect("a customer of each name");
        customers.sort();
        let (_, expected) = customers[(customers.len() - 1) / 2];
        let (result, reply) = runner.run("tpcc.payment", &pay(Who::LastName(name), 100));
        assert_eq!((result, Reader::new(&reply).u16()), (Ok(()), Ok(expected)));
    }
    assert_eq!(runner.run("tpcc.payment", &pay(Who::LastName(999), 100)).0, Err(Abort::BadRequest));
}

#[test]
fn order_status_shows_the_last_order_with_its_lines() {
    let mut runner = loaded();
    runner.run("tpcc.new_order", &order(&[(10, 1, 5), (20, 2, 6)], 0)).0.unwrap();
    let mut args = Vec::new();
    order_status::Request { warehouse: 1, district: 4, who: Who::Id(7) }.encode(&mut args);
    let (result, reply) = runner.run("tpcc.order_status", &args);
    assert_eq!(result, Ok(()));
    assert!(runner.last.writes.is_empty());
    assert_eq!(runner.last.scanned, 1 + 2, "one index entry and the lines");
    let mut reader = Reader::new(&reply);
    assert_eq!((reader.u16(), reader.i64()), (Ok(7), Ok(-1000)));
    reader.text().unwrap();
    assert_eq!(reader.array(), Ok(*b"OE"));
    reader.text().unwrap();
    assert_eq!((reader.u32(), reader.u48(), reader.u8()), (Ok(61), Ok(DATE), Ok(0)));
    for (item, supply, quantity) in [(10, 1, 5), (20, 2, 6)] {
        assert_eq!((reader.u16(), reader.u24(), reader.u8()), (Ok(supply), Ok(item), Ok(quantity)));
        assert!(reader.u24().unwrap() > 0);
        assert_eq!(reader.u48(), Ok(0), "not delivered");
    }
    assert!(reader.is_empty());
}

#[test]
fn delivery_takes_the_oldest_order_of_each_district() {
    let mut runner = loaded();
    let oldest = 43;
    let mut expected = Vec::new();
    for d in 1..=10 {
        let order = Order::decode(&row(&runner, table::ORDER, keys::order(1, d, oldest))).unwrap();
        let amount = |line| {
            let row = row(&runner, table::ORDER_LINE, keys::order_line(1, d, oldest, line));
            i64::from(OrderLine::decode_head(&row).unwrap().amount)
        };
        expected.push((order, (1..=order.lines).map(amount).sum::<i64>()));
    }
    let mut args = Vec::new();
    delivery::Request { warehouse: 1, carrier: 3, date: DATE }.encode(&mut args);
    let (result, reply) = runner.run("tpcc.delivery", &args);
    assert_eq!((result, reply), (Ok(()), oldest.to_le_bytes().repeat(10)));
    for (d, (order, amount)) in (1..).zip(expected) {
        let key = keys::order(1, d, oldest);
        assert!(runner.view().get(table::NEW_ORDER, &key.to_be_bytes()).is_none());
        let delivered = Delivered::decode(&row(&runner, table::DELIVERY, key)).unwrap();
        assert_eq!((delivered.carrier, delivered.date), (3, DATE));
        assert_eq!(delivered.line_mask.count_ones(), order.lines.into());
        let customer = row(&runner, table::CUSTOMER, keys::customer(1, d, order.customer));
        let customer = Customer::decode(&customer).unwrap();
        assert_eq!((customer.balance, customer.deliveries), (amount - 1000, 1));
    }
    // New-order deleted, delivery row and customer written, per district.
    assert_eq!(runner.last.writes.len(), 30);
}

#[test]
fn stock_level_counts_each_low_item_once() {
    let mut runner = loaded();
    for _ in 0..30 {
        runner.run("tpcc.new_order", &order(&[(10, 1, 1), (11, 1, 1), (12, 1, 1)], 0)).0.unwrap();
    }
    for (item, quantity) in [(10, 14), (11, 15), (12, 16)] {
        let stock = Stock { quantity, ytd: 0, orders: 0, remote_orders: 0 };
        runner.tables_mut().put(table::STOCK, keys::stock(1, item), &stock.encode());
    }
    for (threshold, next_order, expected) in [(15, 0, 1u16), (16, 0, 2), (20, 0, 3), (20, 91, 3), (10, 0, 0)]
    {
        let mut args = Vec::new();
        stock_level::Request { warehouse: 1, district: 4, threshold, next_order }.encode(&mut args);
        let (result, reply) = runner.run("tpcc.stock_level", &args);
        assert_eq!((result, reply), (Ok(()), expected.to_le_bytes().to_vec()));
        assert_eq!(runner.last.scanned, 60, "20 orders of 3 lines");
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_with_a_reason() {
    let mut runner = loaded();
    let before = runner.view().clone();
    let valid = [
        ("tpcc.new_order", order(&[(10, 1, 5)], 0)),
        ("tpcc.payment", pay(Who::Id(9), 100)),
        ("tpcc.order_status", vec![1, 0, 4, 0, 7, 0]),
        ("tpcc.delivery", vec![1, 0, 3, 1, 0, 0, 0, 0, 0]),
        ("tpcc.stock_level", vec![1, 0, 4, 15, 0, 0, 0, 0]),
        ("tpcc.load_items", vec![0; 25]),
        ("tpcc.load_stock", vec![0; 25]),
        ("tpcc.load_orders", vec![0xff; 25]),
    ];
    let mut refused = |name: &str, args: &[u8]| {
        let (result, reply) = runner.run(name, args);
        assert_eq!(result, Err(Abort::BadRequest), "{name} {args:02x?}");
        assert!(!reply.is_empty(), "{name}");
    };
    for (name, args) in &valid {
        (0..args.len()).for_each(|len| refused(name, &args[..len]));
        refused(name, &[&args[..], &[0]].concat());
        if *name != "tpcc.delivery" {
            // Warehouse 255 does not exist; a load of it has other faults.
            refused(name, &[&[0xff], &args[1..]].concat());
        }
    }
    assert!(*runner.view() == before);
}
