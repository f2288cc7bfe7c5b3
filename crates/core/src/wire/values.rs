//! The forms of numbers and ids.

use std::sync::Arc;

use super::Wire;
use crate::codec::{Malformed, Reader};
use crate::{Ballot, EntryIndex, Epoch, Incarnation, Level, NodeId, ProcedureId, Random, Timestamp, Voter};

macro_rules! numbers {
    ($($type:ident),*) => { $(
        impl Wire for $type {
            const NAME: &'static str = stringify!($type);

            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(Self::from_le_bytes(from.array()?))
            }

            fn draw(random: &mut Random) -> Self {
                let any = random.bits();
                random.pick(&[0, 1, any & 0xff, any, u64::MAX]) as Self
            }
        }
    )* };
}

numbers!(u8, u16, u32, u64);

/// Ids are their numbers.
macro_rules! ids {
    ($($type:ident($number:ident)),*) => { $(
        impl Wire for $type {
            const NAME: &'static str = stringify!($number);

            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            #[inline]
            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                $number::take(from).map($type)
            }

            fn draw(random: &mut Random) -> Self {
                $type($number::draw(random))
            }
        }
    )* };
}

ids!(Epoch(u64), Timestamp(u64), Incarnation(u64), NodeId(u8), Level(u8), ProcedureId(u16));

/// No stream ever gets so long, so a larger index came from a broken peer. It is refused here, and the arithmetic on indexes everywhere else
/// cannot overflow.
const MAX_INDEX: u64 = 1 << 62;

impl Wire for EntryIndex {
    const NAME: &'static str = "u64";

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u64()? {
            index if index <= MAX_INDEX => Ok(EntryIndex(index)),
            _ => Err(Malformed("index")),
        }
    }

    fn draw(random: &mut Random) -> Self {
        EntryIndex(u64::draw(random).min(MAX_INDEX))
    }
}

impl Wire for bool {
    const NAME: &'static str = "bool";

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(from.u8()? != 0)
    }

    fn draw(random: &mut Random) -> Self {
        random.one_in(2)
    }
}

impl Wire for Ballot {
    const NAME: &'static str = "ballot";

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.epoch.put(out);
        self.node.put(out);
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Ballot { epoch: Wire::take(from)?, node: Wire::take(from)? })
    }

    fn draw(random: &mut Random) -> Self {
        Ballot { epoch: Wire::draw(random), node: Wire::draw(random) }
    }
}

impl Wire for Voter {
    const NAME: &'static str = "voter";

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.node.put(out);
        self.incarnation.put(out);
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Voter { node: Wire::take(from)?, incarnation: Wire::take(from)? })
    }

    fn draw(random: &mut Random) -> Self {
        Voter { node: Wire::draw(random), incarnation: Wire::draw(random) }
    }
}

impl<T: Wire> Wire for Option<T> {
    const NAME: &'static str = T::NAME;

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        bool::take(from)?.then(|| T::take(from)).transpose()
    }

    fn form() -> String {
        format!("option {}", T::form())
    }

    fn draw(random: &mut Random) -> Self {
        bool::draw(random).then(|| T::draw(random))
    }
}

impl<T: Wire> Wire for Arc<T> {
    const NAME: &'static str = T::NAME;

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        T::take(from).map(Arc::new)
    }

    fn form() -> String {
        T::form()
    }

    fn draw(random: &mut Random) -> Self {
        Arc::new(T::draw(random))
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    const NAME: &'static str = A::NAME;

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?))
    }

    fn form() -> String {
        format!("({} | {})", A::form(), B::form())
    }

    fn draw(random: &mut Random) -> Self {
        (A::draw(random), B::draw(random))
    }
}
