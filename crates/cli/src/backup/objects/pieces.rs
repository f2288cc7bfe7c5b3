//! A file in pieces: an object never changes but as a whole, and a journal file grows.
//!
//! The piece that begins at offset 0 has the file's own name, others `NAME.at-OFFSET`, in 16 hexadecimal digits. Each begins where the one
//! before ends. Only the last one is ever replaced, by a longer one, and only while it is short: so what an idle node writes comes to few
//! objects, and little is sent twice.

use std::collections::BTreeMap;

use object_store::{ObjectMeta, UpdateVersion};

/// Between a file's name and the offset.
const AT: &str = ".at-";
/// Digits of the offset.
const DIGITS: usize = 16;

/// An object that holds a piece of a file.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Where it begins in the file.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// Which of the objects that had this name.
    pub version: UpdateVersion,
}

impl Piece {
    /// Where it ends in the file.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// The files of a folder, each with its pieces in order.
pub type Files = BTreeMap<String, Vec<Piece>>;

/// The name of the object with the piece of a file that begins there.
pub fn object_name(file: &str, offset: u64) -> String {
    match offset {
        0 => file.into(),
        _ => format!("{file}{AT}{offset:0DIGITS$x}"),
    }
}

/// Which file's piece an object of this name is, and where it begins.
fn parse(name: &str) -> (&str, u64) {
    let offset = |digits: &str| u64::from_str_radix(digits, 16).ok().filter(|offset| *offset > 0);
    match name.rsplit_once(AT).map(|(file, digits)| (file, offset(digits))) {
        Some((file, Some(offset))) if object_name(file, offset) == name => (file, offset),
        // None of ours.
        _ => (name, 0),
    }
}

/// The files that these objects are.
pub fn files(objects: impl IntoIterator<Item = ObjectMeta>) -> Files {
    let mut files = Files::new();
    for object in objects {
        let Some(name) = object.location.filename() else { continue };
        let (file, offset) = parse(name);
        let version = UpdateVersion { e_tag: object.e_tag.clone(), version: object.version.clone() };
        files.entry(file.into()).or_default().push(Piece { offset, bytes: object.size, version });
    }
    for pieces in files.values_mut() {
        pieces.sort_by_key(|piece| piece.offset);
    }
    files
}

/// Where the first piece that does not follow would have to begin; `None` if all follow.
pub fn gap(pieces: &[Piece]) -> Option<u64> {
    let mut end = 0;
    for piece in pieces {
        if piece.offset != end {
            return Some(end);
        }
        end = piece.end();
    }
    None
}

/// What there was between two listings, of which the second began when the first had ended. (A writer lists once: nobody else changes anything.)
///
/// A listing comes page by page, while somebody writes. So in one alone a piece may be as short as it was before it was replaced, or be missing,
/// and what was written after it be there: that looks like damage. But what was written before the last piece that the first listing shows was as
/// long as it gets when that listing ended. So up to there the second one tells how everything is, and behind it nothing is asked of it.
pub fn settled(first: &Files, mut second: Files, grows: impl Fn(&str) -> bool) -> Files {
    let last_of = |(name, pieces): (&String, &Vec<Piece>)| Some((name.clone(), pieces.last()?.offset));
    let last = first.iter().filter(|(name, _)| grows(name)).filter_map(last_of).max();
    second.retain(|name, pieces| {
        if grows(name) {
            pieces.retain(|piece| Some((name.clone(), piece.offset)) <= last);
        }
        !pieces.is_empty()
    });
    second
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Listings of an archive that is written to, each object as it was at a time of its own: what they come to has no hole.
    #[test]
    fn what_two_listings_come_to_has_no_hole() {
        // What is written one after the other: the file, where a piece begins, and how long it is then.
        let written: Vec<(u64, u64, u64)> = vec![
            (1, 0, 3),
            (1, 0, 8),
            (1, 8, 2),
            (1, 8, 8),
            (1, 16, 4),
            (2, 0, 1),
            (2, 0, 8),
            (2, 8, 1),
            (2, 8, 4),
            (3, 0, 2),
            (3, 0, 8),
            (3, 8, 5),
        ];
        let final_len =
            |file, offset| written.iter().filter(|w| (w.0, w.1) == (file, offset)).map(|w| w.2).max();
        let mut random = 7_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize % below
        };
        let mut holes = 0;
        for _ in 0..20_000 {
            let mut now = 0;
            let mut list = |next: &mut dyn FnMut(usize) -> usize| {
                let mut listed = Files::new();
                let mut objects: Vec<(u64, u64)> = written.iter().map(|w| (w.0, w.1)).collect();
                objects.dedup();
                for (file, offset) in objects {
                    now += if next(3) == 0 { next(written.len() + 1 - now) } else { 0 };
                    let found = written[..now].iter().rev().find(|w| (w.0, w.1) == (file, offset));
                    if let Some((_, _, bytes)) = found {
                        let version = UpdateVersion { e_tag: None, version: None };
                        let piece = Piece { offset, bytes: *bytes, version };
                        listed.entry(format!("journal-{file}")).or_default().push(piece);
                    }
                }
                listed
            };
            let whole = |files: &Files| {
                let mut pieces: Vec<(u64, u64, u64)> = Vec::new();
                for (name, of) in files {
                    let file = name.strip_prefix("journal-").unwrap().parse().unwrap();
                    pieces.extend(of.iter().map(|piece| (file, piece.offset, piece.bytes)));
                }
                let begins = |at: usize| {
                    written
                        .iter()
                        .map(|w| (w.0, w.1))
                        .collect::<std::collections::BTreeSet<_>>()
                        .into_iter()
                        .nth(at)
                };
                pieces.iter().enumerate().all(|(at, piece)| {
                    let is_last = at + 1 == pieces.len();
                    begins(at) == Some((piece.0, piece.1))
                        && (is_last || final_len(piece.0, piece.1) == Some(piece.2))
                })
            };
            let first = list(&mut next);
            holes += u32::from(!whole(&first));
            let second = list(&mut next);
            assert!(whole(&settled(&first, second.clone(), |_| true)), "{first:?} {second:?}");
        }
        assert!(holes > 1000, "one listing alone has holes: {holes}");
    }

    #[test]
    fn an_object_s_name_says_of_which_file_it_is_a_piece() {
        assert_eq!(object_name("journal-1", 0), "journal-1");
        assert_eq!(object_name("journal-1", 4096), "journal-1.at-0000000000001000");
        for (file, offset) in [("journal-1", 0), ("journal-1", 1), ("a.at-b", u64::MAX)] {
            assert_eq!(parse(&object_name(file, offset)), (file, offset));
        }
        for other in
            ["a.at-", "a.at-10", "a.at-0000000000000000", "a.at-00000000000000FF", "a.at-+000000000000001"]
        {
            assert_eq!(parse(other), (other, 0));
        }
    }

    #[test]
    fn a_piece_that_is_missing_is_known() {
        let piece =
            |offset, bytes| Piece { offset, bytes, version: UpdateVersion { e_tag: None, version: None } };
        assert_eq!(gap(&[]), None);
        assert_eq!(gap(&[piece(0, 5), piece(5, 1)]), None);
        assert_eq!(gap(&[piece(5, 1)]), Some(0));
        assert_eq!(gap(&[piece(0, 5), piece(6, 1)]), Some(5));
        assert_eq!(gap(&[piece(0, 5), piece(4, 1)]), Some(5));
    }
}
