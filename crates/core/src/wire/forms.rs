//! Forms of fields that are not their type's own.

use std::marker::PhantomData;
use std::sync::Arc;

use super::Wire;
use crate::Random;
use crate::codec::{Malformed, Reader, put_varint};

/// A form in bytes of values of a type.
pub trait Form<T> {
    /// Appends the bytes.
    fn put(value: &T, out: &mut Vec<u8>);

    /// Reads what [`put`](Form::put) wrote.
    ///
    /// # Errors
    /// The bytes are none, or fewer than it takes.
    fn take(from: &mut Reader<'_>) -> Result<T, Malformed>;

    /// The form in words.
    fn form() -> String;

    /// Some value.
    fn draw(random: &mut Random) -> T;
}

/// The type's own.
#[derive(Debug)]
pub struct Plain;

impl<T: Wire> Form<T> for Plain {
    #[inline]
    fn put(value: &T, out: &mut Vec<u8>) {
        value.put(out);
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<T, Malformed> {
        T::take(from)
    }

    fn form() -> String {
        T::form()
    }

    fn draw(random: &mut Random) -> T {
        T::draw(random)
    }
}

/// A count in front of values. A list that is longer than its count can say is a mistake of whoever built it.
pub trait Length: Wire {
    /// The count of a list.
    ///
    /// # Panics
    /// If it does not fit.
    fn of(count: usize) -> Self;

    /// As it is counted with.
    fn count(self) -> usize;
}

macro_rules! lengths {
    ($($type:ty),*) => { $(
        impl Length for $type {
            #[inline]
            fn of(count: usize) -> Self {
                count.try_into().expect("a list is no longer than its count can say")
            }

            #[inline]
            fn count(self) -> usize {
                self as usize
            }
        }
    )* };
}

lengths!(u8, u16, u32);

/// A number in LEB128: a form of `u64`, and a count.
#[derive(Debug)]
pub struct Varint(u64);

impl Wire for Varint {
    const NAME: &'static str = "varint";

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0);
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Varint, Malformed> {
        from.varint().map(Varint)
    }

    fn draw(random: &mut Random) -> Varint {
        Varint(u64::draw(random))
    }
}

impl Form<u64> for Varint {
    #[inline]
    fn put(value: &u64, out: &mut Vec<u8>) {
        put_varint(out, *value);
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<u64, Malformed> {
        from.varint()
    }

    fn form() -> String {
        Varint::NAME.into()
    }

    fn draw(random: &mut Random) -> u64 {
        u64::draw(random)
    }
}

impl Length for Varint {
    #[inline]
    fn of(count: usize) -> Varint {
        Varint(count as u64)
    }

    #[inline]
    fn count(self) -> usize {
        self.0 as usize
    }
}

/// A count of type `N`, then each value in form `F`.
#[derive(Debug)]
pub struct List<N, F = Plain>(PhantomData<(N, F)>);

impl<N: Length, T, F: Form<T>> Form<Vec<T>> for List<N, F> {
    #[inline]
    fn put(values: &Vec<T>, out: &mut Vec<u8>) {
        N::of(values.len()).put(out);
        values.iter().for_each(|value| F::put(value, out));
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Vec<T>, Malformed> {
        let count = N::take(from)?.count();
        // Grown as values come: a count is not believed.
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(F::take(from)?);
        }
        Ok(values)
    }

    fn form() -> String {
        format!("{} × {}", N::form(), F::form())
    }

    fn draw(random: &mut Random) -> Vec<T> {
        (0..random.below(4)).map(|_| F::draw(random)).collect()
    }
}

/// A value that is shared in memory, in form `F`.
#[derive(Debug)]
pub struct Shared<F = Plain>(PhantomData<F>);

impl<T, F: Form<T>> Form<Arc<T>> for Shared<F> {
    #[inline]
    fn put(value: &Arc<T>, out: &mut Vec<u8>) {
        F::put(value, out);
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Arc<T>, Malformed> {
        F::take(from).map(Arc::new)
    }

    fn form() -> String {
        F::form()
    }

    fn draw(random: &mut Random) -> Arc<T> {
        Arc::new(F::draw(random))
    }
}
