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

#[cfg(test)]
mod tests {
    use super::*;

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
