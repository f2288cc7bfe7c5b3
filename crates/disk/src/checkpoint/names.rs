//! The names of a checkpoint's files.
//!
//! | name | is |
//! |---|---|
//! | `checkpoint-0007.manifest` | checkpoint 7, published |
//! | `checkpoint-0007.part-3` | its part 3; parts are numbered from 0 |
//! | `checkpoint-0007.manifest-new` | a manifest before it got its name |

use std::fmt;

/// What a file of a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Manifest,
    /// A manifest that is not published.
    NewManifest,
    Part(u16),
}

/// The name of a file of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Which checkpoint.
    pub number: u64,
    /// Which of its files.
    pub kind: Kind,
}

impl Name {
    /// The name that this is. Others' files may be in the same folder: what is not written exactly as we write it is none.
    pub fn parse(text: &str) -> Option<Name> {
        let (number, kind) = text.strip_prefix("checkpoint-")?.split_once('.')?;
        let kind = match kind {
            "manifest" => Kind::Manifest,
            "manifest-new" => Kind::NewManifest,
            part => Kind::Part(part.strip_prefix("part-")?.parse().ok()?),
        };
        let name = Name { number: number.parse().ok()?, kind };
        // The last number has no next one.
        (name.to_string() == text && name.number < u64::MAX).then_some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint-{:04}.", self.number)?;
        match self.kind {
            Kind::Manifest => f.write_str("manifest"),
            Kind::NewManifest => f.write_str("manifest-new"),
            Kind::Part(part) => write!(f, "part-{part}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_nobodys() {
        for kind in [Kind::Manifest, Kind::NewManifest, Kind::Part(0), Kind::Part(u16::MAX)] {
            for number in [1, 9999, 10_000, u64::MAX - 1] {
                let name = Name { number, kind };
                assert_eq!(Name::parse(&name.to_string()), Some(name));
            }
        }
        let others = [
            "checkpoint-1.manifest",
            "checkpoint-00001.manifest",
            "checkpoint-0001.manifest.bak",
            "checkpoint-0001.part-+1",
            "checkpoint-0001.part-65536",
            "checkpoint-18446744073709551615.manifest",
            "journal-0001",
            "",
        ];
        for other in others {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }
}
