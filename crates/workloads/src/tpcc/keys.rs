//! How composite keys are packed into 64 bits, most significant part first, so that integers sort like their parts.
//!
//! ```text
//! warehouse           w:16
//! district            w:16 d:4
//! customer            w:16 d:4 c:12
//! history             w:16 d:4 c:12 payment:32  the customer's and the payment's number among the customer's
//! order, new-order    w:16 d:4 0:12 o:32
//! order by customer   w:16 d:4 c:12 o:32
//! order line          w:16 d:4 0:4 o:36 l:4
//! item                i:17
//! stock               w:16 i:17
//! ```
//!
//! The log writes the low bytes in which a key differs from the transaction's previous one. So keys of warehouses,
//! districts and stock are kept short, while all keys around an order have the district in the same place.
//!
//! HISTORY has no primary key in the specification. The payment's number makes one: C_PAYMENT_CNT is read and
//! incremented by the same transaction, so that it is unique per customer by serializability.

#[inline]
pub fn warehouse(w: u16) -> u64 {
    w.into()
}

#[inline]
pub fn district(w: u16, d: u8) -> u64 {
    u64::from(w) << 4 | u64::from(d)
}

#[inline]
pub fn customer(w: u16, d: u8, c: u16) -> u64 {
    district(w, d) << 12 | u64::from(c)
}

/// HISTORY, from the customer's key and the customer's payment count, this payment included.
#[inline]
pub fn history(customer: u64, payment: u32) -> u64 {
    customer << 32 | u64::from(payment)
}

/// ORDER and NEW-ORDER.
#[inline]
pub fn order(w: u16, d: u8, o: u32) -> u64 {
    district(w, d) << 44 | u64::from(o)
}

/// The index of orders by customer.
#[inline]
pub fn order_by_customer(w: u16, d: u8, c: u16, o: u32) -> u64 {
    customer(w, d, c) << 32 | u64::from(o)
}

/// ORDER-LINE; lines count from 1, so that line 0 bounds scans.
#[inline]
pub fn order_line(w: u16, d: u8, o: u32, line: u8) -> u64 {
    district(w, d) << 44 | u64::from(o) << 4 | u64::from(line)
}

#[inline]
pub fn item(i: u32) -> u64 {
    i.into()
}

#[inline]
pub fn stock(w: u16, i: u32) -> u64 {
    u64::from(w) << 17 | u64::from(i)
}

/// The district's key in the key of an order, a new-order, an order by customer or an order line.
#[inline]
pub fn district_of(order: u64) -> u64 {
    order >> 44
}

/// The order's number in the key of an order, a new-order or an order by customer.
#[inline]
pub fn order_number(order: u64) -> u32 {
    order as u32
}

/// The order's key in the key of an order line.
#[inline]
pub fn order_of_line(line: u64) -> u64 {
    (line >> 44) << 44 | (line & ((1 << 44) - 1)) >> 4
}

/// The line's number in the key of an order line.
#[inline]
pub fn line_number(line: u64) -> u8 {
    (line & 0xf) as u8
}

/// The customer's key in the key of a history row or an order by customer.
#[inline]
pub fn customer_of(key: u64) -> u64 {
    key >> 32
}

/// The customer's C_ID in his key.
#[inline]
pub fn customer_number(customer: u64) -> u16 {
    (customer & 0xfff) as u16
}

/// Warehouse and number of a district.
#[inline]
pub fn parts_of_district(district: u64) -> (u16, u8) {
    (warehouse_of(district) as u16, (district & 0xf) as u8)
}

/// The district's key in a customer's.
#[inline]
pub fn district_of_customer(customer: u64) -> u64 {
    customer >> 12
}

/// The warehouse's key in a district's.
#[inline]
pub fn warehouse_of(district: u64) -> u64 {
    district >> 4
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Parts = (u16, u8, u16, u32, u8);

    fn parts() -> impl Strategy<Value = Parts> {
        (1u16.., 1u8..=10, 1u16..=3000, 1u32.., 0u8..=15)
    }

    proptest! {
        #[test]
        fn keys_sort_like_their_parts((w, d, c, o, l) in parts(), (w2, d2, c2, o2, l2) in parts()) {
            prop_assert_eq!((w, d, o).cmp(&(w2, d2, o2)), order(w, d, o).cmp(&order(w2, d2, o2)));
            let (a, b) = (order_line(w, d, o, l), order_line(w2, d2, o2, l2));
            prop_assert_eq!((w, d, o, l).cmp(&(w2, d2, o2, l2)), a.cmp(&b));
            let (a, b) = (order_by_customer(w, d, c, o), order_by_customer(w2, d2, c2, o2));
            prop_assert_eq!((w, d, c, o).cmp(&(w2, d2, c2, o2)), a.cmp(&b));
            prop_assert_eq!((w, d, c).cmp(&(w2, d2, c2)), customer(w, d, c).cmp(&customer(w2, d2, c2)));
        }

        #[test]
        fn parts_come_back_out((w, d, c, o, l) in parts()) {
            prop_assert_eq!(district_of(order(w, d, o)), district(w, d));
            prop_assert_eq!(order_number(order(w, d, o)), o);
            prop_assert_eq!(district_of(order_by_customer(w, d, c, o)), district(w, d));
            prop_assert_eq!(customer_of(order_by_customer(w, d, c, o)), customer(w, d, c));
            prop_assert_eq!(customer_of(history(customer(w, d, c), o)), customer(w, d, c));
            prop_assert_eq!(order_of_line(order_line(w, d, o, l)), order(w, d, o));
            prop_assert_eq!(line_number(order_line(w, d, o, l)), l);
            prop_assert_eq!(district_of_customer(customer(w, d, c)), district(w, d));
            prop_assert_eq!(warehouse_of(district(w, d)), warehouse(w));
        }

        #[test]
        fn stocks_do_not_collide((w, ..) in parts(), (w2, ..) in parts(), i in 1u32..=100_001, i2 in 1u32..=100_001) {
            prop_assert_eq!((w, i) == (w2, i2), stock(w, i) == stock(w2, i2));
        }
    }
}
