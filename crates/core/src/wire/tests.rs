use super::*;
use crate::{Ballot, EntryIndex, Epoch, NodeId, Timestamp};

wire! {
    /// One message of each shape.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Shape: "shape" where Shape::ascends {
        /// Named fields.
        Range = 1 {
            /// Its begin.
            from: EntryIndex,
            /// Its end.
            upto: EntryIndex,
        },
        /// One field, which is a struct.
        One = 4 (part: Part),
        /// None.
        Nothing = 200,
    }
}

wire! {
    /// A struct of every form.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Part: "part" {
        ballot: Ballot,
        list: Vec<Timestamp> as List<u16>,
        lists: std::sync::Arc<Vec<Vec<u32>>> as Shared<List<u8, List<u32>>>,
        number: u64 as Varint,
        maybe: Option<(Epoch, bool)>,
        sized: Bytes as Sized32,
        rest: Bytes as ToEnd,
    }
}

wire! {
    /// Flags in one byte.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Marks: "marks" flags {
        low = 1,
        /// Bit 2 means nothing.
        high = 128,
    }
}

impl Shape {
    fn ascends(&self) -> bool {
        !matches!(self, Shape::Range { from, upto } if from > upto)
    }
}

fn part() -> Part {
    Part {
        ballot: Ballot { epoch: Epoch(2), node: NodeId(3) },
        list: vec![Timestamp(5)],
        lists: vec![vec![], vec![7]].into(),
        number: 300,
        maybe: Some((Epoch(9), true)),
        sized: Bytes::from_static(b"ab"),
        rest: Bytes::from_static(b"cd"),
    }
}

#[test]
fn bytes_are_the_declared_fields_in_their_order() {
    let mut bytes = Vec::new();
    Shape::One(part()).encode(&mut bytes);
    let parts: [&[u8]; 8] = [
        &[4],
        &[2, 0, 0, 0, 0, 0, 0, 0, 3],
        &[1, 0, 5, 0, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0],
        &[0xac, 2],
        &[1, 9, 0, 0, 0, 0, 0, 0, 0, 1],
        &[2, 0, 0, 0, b'a', b'b'],
        b"cd",
    ];
    assert_eq!(bytes, parts.concat());
    assert_eq!(Shape::decode(&mut Reader::new(&bytes)), Ok(Shape::One(part())));
}

#[test]
fn every_shape_and_form_reads_what_it_wrote() {
    check::<Shape>(2000);
    check::<Part>(500);
    check::<Marks>(8);
}

#[test]
fn flags_are_bits_and_unknown_ones_are_left_to_later_builds() {
    let mut bytes = Vec::new();
    Marks { low: true, high: true }.put(&mut bytes);
    assert_eq!(bytes, [129]);
    assert_eq!(Marks::take_from(&mut Reader::new(&[130])), Ok(Marks { low: false, high: true }));
    assert_eq!(Marks::form(), "u8 (1 low, 128 high)");
}

/// A count of four thousand million, and no value behind it.
#[test]
fn what_is_announced_is_not_believed() {
    let huge = [&[2, 0, 0, 0, 0, 0, 0, 0, 3][..], &[0, 0], &[1, 255, 255, 255, 255]].concat();
    assert!(Part::decode(&mut Reader::new(&huge)).is_err());
}

#[test]
fn tags_and_values_that_make_no_sense_are_refused_by_name() {
    let refused = |bytes: &[u8]| Shape::decode(&mut Reader::new(bytes)).unwrap_err().0;
    assert_eq!(refused(&[7]), "tag of a shape");
    let backward = [&[1], &9u64.to_le_bytes()[..], &8u64.to_le_bytes()].concat();
    assert_eq!(refused(&backward), "shape");
    let beyond = [&[1], &0u64.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat();
    assert_eq!(refused(&beyond), "index");
    assert_eq!(Shape::take_whole(&Bytes::from_static(&[200, 0])), Err(Malformed("shape")));
}

#[test]
fn long_fields_share_the_memory_they_came_in() {
    let mut bytes = Vec::new();
    part().encode(&mut bytes);
    let whole = Bytes::from(bytes);
    let shared = Part::take_whole(&whole).expect("it was just written");
    assert!(whole.as_ptr_range().contains(&shared.rest.as_ptr()));
    let copied = Part::decode(&mut Reader::new(&whole)).expect("it was just written");
    assert!(!whole.as_ptr_range().contains(&copied.rest.as_ptr()));
}

#[test]
fn kinds_are_described() {
    let lines: Vec<String> = Shape::kinds().iter().chain(&Part::kinds()).map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "  1 Range          from u64 | upto u64",
            "  4 One            part",
            "200 Nothing        ",
            "    Part           ballot | list u16 × u64 | lists u8 × u32 × u32 | number varint | \
             maybe option (u64 | bool) | sized u32 bytes | rest to the end",
        ]
    );
}
