use super::testing::check;
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
        lists: Vec<Vec<u32>> as List<u8, List<u32>>,
        maybe: Option<Epoch>,
        shared: std::sync::Arc<bool>,
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
        lists: vec![vec![], vec![7]],
        maybe: Some(Epoch(9)),
        shared: true.into(),
    }
}

#[test]
fn bytes_are_the_declared_fields_in_their_order() {
    let mut bytes = Vec::new();
    Shape::One(part()).encode(&mut bytes);
    let parts: [&[u8]; 6] = [
        &[4],
        &[2, 0, 0, 0, 0, 0, 0, 0, 3],
        &[1, 0, 5, 0, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0],
        &[1, 9, 0, 0, 0, 0, 0, 0, 0],
        &[1],
    ];
    assert_eq!(bytes, parts.concat());
    let mut inner = Vec::new();
    part().encode(&mut inner);
    assert_eq!(inner, bytes[1..]);
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
    assert_eq!(Marks::take(&mut Reader::new(&[130])), Ok(Marks { low: false, high: true }));
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
            "    Part           ballot | list u16 × u64 | lists u8 × u32 × u32 | maybe option u64 | \
             shared bool",
        ]
    );
}
