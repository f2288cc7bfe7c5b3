//! The tables that a folder's records are of: enough to notice that a process hosts other ones, before it reads a record by the wrong table.
//!
//! The log names tables by number, and a journal says nothing of them. So the [identity](crate::identity) has a print of each: of its name and of how its keys are
//! stored. A later build may have more tables behind the last one, and in [reserved](RESERVED) places.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::library::RESERVED;
use highwater_core::{KeyKind, Schema, TableSpec};

/// As the print of a place that is kept for a later build's table.
const FREE: u32 = 0;
/// Most bytes, as it is written.
pub(crate) const MAX_BYTES: usize = 1 + 255 * 4;

/// Prints of tables, by id. Empty: they are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables(Vec<u32>);

impl Tables {
    /// Those of a schema.
    pub fn of(schema: &Schema) -> Tables {
        Tables(schema.iter().map(|(_, table)| print(table)).collect())
    }

    /// Whether whoever hosts a schema may read the records.
    ///
    /// # Errors
    /// Not, and why, in words.
    pub fn fit(&self, schema: &Schema) -> Result<(), String> {
        let own = Tables::of(schema);
        if self.0.len() > own.0.len() {
            return Err(format!("it has {} tables, and this process hosts {}", self.0.len(), own.0.len()));
        }
        let differs = |(theirs, own): (&u32, &u32)| theirs != own && *theirs != FREE;
        match self.0.iter().zip(&own.0).position(differs).and_then(|at| schema.iter().nth(at)) {
            Some((id, table)) => Err(format!(
                "its table {} is another one than {:?}, which this process hosts",
                id.0, table.name
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::try_from(self.0.len()).expect("a schema holds at most 255 tables"));
        self.0.iter().for_each(|print| out.extend_from_slice(&print.to_le_bytes()));
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Tables, Malformed> {
        let count = reader.u8()?;
        (0..count).map(|_| reader.u32()).collect::<Result<_, _>>().map(Tables)
    }
}

fn print(table: &TableSpec) -> u32 {
    if table.name == RESERVED {
        return FREE;
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[u8::from(table.keys == KeyKind::Bytes)]);
    crc.update(table.name.as_bytes());
    crc.finalize().max(FREE + 1)
}

#[cfg(test)]
mod tests {
    use highwater_core::IndexKind;

    use super::*;

    fn schema(names: &[&'static str]) -> Schema {
        let table = |name: &&'static str| TableSpec { name, keys: KeyKind::U64, index: IndexKind::Hash };
        Schema::new(names.iter().map(table).collect())
    }

    #[test]
    fn a_folder_is_read_by_its_own_tables_and_by_those_of_later_builds() {
        let written = Tables::of(&schema(&["a", RESERVED, "b"]));
        let mut bytes = Vec::new();
        written.encode(&mut bytes);
        assert_eq!(Tables::decode(&mut Reader::new(&bytes)).unwrap(), written);
        for fits in [&["a", RESERVED, "b"][..], &["a", "new", "b"], &["a", RESERVED, "b", "c"]] {
            assert_eq!(written.fit(&schema(fits)), Ok(()), "{fits:?}");
        }
        for other in [&["a", RESERVED][..], &["a", RESERVED, "c"], &["b", RESERVED, "b"], &[]] {
            assert!(written.fit(&schema(other)).is_err(), "{other:?}");
        }
        assert_eq!(Tables::default().fit(&schema(&[])), Ok(()), "nothing is known");
    }
}
