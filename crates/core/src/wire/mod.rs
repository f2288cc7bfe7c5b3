//! Messages whose bytes are declared, not written: [`wire!`](crate::wire!) takes a type's fields in their order on the wire, each with its tag where there
//! are several kinds, and gives its encoding, its decoding, its description and samples of it.
//!
//! ```text
//! message   tag u8 | fields            a struct has no tag
//! number    little endian, as long as its type
//! bool      u8: 0 is false, all else is true
//! option    u8: 0 is none; or 1 | the value
//! list      count | the values         how long the count is the field says: [`List`]
//! ```
//!
//! A field is its type's [`Wire`] form, or the [`Form`] that it names with `as`. A struct of `flags` is one byte. What has no such form writes its [`Wire`] by
//! hand, and is a field like others.
//!
//! Nothing that is read is trusted: no count reserves memory, no length is believed before the bytes are there, and a type can refuse what its parts allow
//! (`where`).

mod forms;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod values;

use crate::Random;
use crate::codec::{Malformed, Reader};

pub use forms::{Form, Length, List, Plain, Shared, Varint};

/// A value with one form in bytes.
pub trait Wire: Sized {
    /// The name under which it is described, and missed in errors.
    const NAME: &'static str;

    /// Appends the bytes.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads what [`put`](Wire::put) wrote.
    ///
    /// # Errors
    /// The bytes are none, or fewer than it takes.
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// The form in words.
    fn form() -> String {
        Self::NAME.into()
    }

    /// Some value of the type, edges oftener than chance would have them.
    fn draw(random: &mut Random) -> Self;
}

/// The description of one kind of message: its tag, its name, and its fields in order, each with its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// In front of it; `None`: a struct, which has none.
    pub tag: Option<u8>,
    /// Its name in the code.
    pub name: &'static str,
    /// Name and form of each field; told once where they are the same word.
    pub fields: Vec<(&'static str, String)>,
}

impl Kind {
    /// The description of a struct whose [`Wire`] is written by hand.
    pub fn of(name: &'static str, fields: impl IntoIterator<Item = (&'static str, String)>) -> Kind {
        Kind { tag: None, name, fields: fields.into_iter().collect() }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = |(name, form): &(&str, String)| match name == form {
            true => form.clone(),
            false => format!("{name} {form}"),
        };
        let fields: Vec<String> = self.fields.iter().map(words).collect();
        match self.tag {
            Some(tag) => write!(f, "{tag:3} {:14} {}", self.name, fields.join(" | ")),
            None => write!(f, "    {:14} {}", self.name, fields.join(" | ")),
        }
    }
}

/// Declares a type and its bytes: see [`wire`](mod@crate::wire).
///
/// ```
/// use highwater_core::codec::Reader;
/// use highwater_core::wire::List;
/// use highwater_core::{Epoch, wire};
///
/// wire! {
///     /// What two nodes say to each other.
///     #[derive(Clone, Debug, PartialEq, Eq)]
///     pub enum Talk: "talk" {
///         /// Is anybody there?
///         Hello = 1 {
///             /// In this epoch.
///             epoch: Epoch,
///         },
///         /// These are.
///         Here = 2 (nodes: Vec<u8> as List<u16>),
///         /// Nobody is.
///         Silence = 7,
///     }
/// }
///
/// let mut bytes = Vec::new();
/// Talk::Here(vec![4, 5]).encode(&mut bytes);
/// assert_eq!(bytes, [2, 2, 0, 4, 5]);
/// assert_eq!(Talk::decode(&mut Reader::new(&bytes)), Ok(Talk::Here(vec![4, 5])));
/// assert_eq!(Talk::kinds()[0].to_string(), "  1 Hello          epoch u64");
/// ```
#[macro_export]
macro_rules! wire {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident : $what:literal $(where $sound:path)? {
            $(
                $(#[$vmeta:meta])*
                $variant:ident = $tag:literal
                $( { $( $(#[$fmeta:meta])* $field:ident : $ty:ty $(as $form:ty)? ),* $(,)? } )?
                $( ( $inner:ident : $ity:ty $(as $iform:ty)? ) )?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $( $(#[$vmeta])* $variant $( { $( $(#[$fmeta])* $field: $ty ),* } )? $( ( $ity ) )? ),*
        }

        impl $crate::wire::Wire for $name {
            const NAME: &'static str = $what;

            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(
                        Self::$variant $( { $( $field ),* } )? $( { 0: $inner } )? => {
                            out.push($tag);
                            $( $( <$crate::wire_form!($($form)?) as $crate::wire::Form<$ty>>::put($field, out); )* )?
                            $( <$crate::wire_form!($($iform)?) as $crate::wire::Form<$ity>>::put($inner, out); )?
                        }
                    )*
                }
            }

            #[inline]
            fn take(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::Malformed> {
                let value = match from.u8()? {
                    $(
                        $tag => {
                            $( $( let $field = <$crate::wire_form!($($form)?) as $crate::wire::Form<$ty>>::take(from)?; )* )?
                            $( let $inner = <$crate::wire_form!($($iform)?) as $crate::wire::Form<$ity>>::take(from)?; )?
                            Self::$variant $( { $( $field ),* } )? $( { 0: $inner } )?
                        }
                    )*
                    _ => return Err($crate::codec::Malformed(concat!("tag of a ", $what))),
                };
                $( if !$sound(&value) { return Err($crate::codec::Malformed($what)); } )?
                Ok(value)
            }

            fn draw(random: &mut $crate::Random) -> Self {
                let kinds: &[fn(&mut $crate::Random) -> Self] = &[
                    $( |_random| Self::$variant
                        $( { $( $field: <$crate::wire_form!($($form)?) as $crate::wire::Form<$ty>>::draw(_random) ),* } )?
                        $( { 0: <$crate::wire_form!($($iform)?) as $crate::wire::Form<$ity>>::draw(_random) } )?
                    ),*
                ];
                loop {
                    let value = random.pick(kinds)(random);
                    $( if !$sound(&value) { continue; } )?
                    break value;
                }
            }
        }

        $crate::wire_codec!($name);

        impl $name {
            /// Each kind, as documents describe it.
            $vis fn kinds() -> Vec<$crate::wire::Kind> {
                vec![ $(
                    $crate::wire::Kind {
                        tag: Some($tag),
                        name: stringify!($variant),
                        fields: vec![
                            $( $( (stringify!($field), <$crate::wire_form!($($form)?) as $crate::wire::Form<$ty>>::form()) ),* )?
                            $( (stringify!($inner), <$crate::wire_form!($($iform)?) as $crate::wire::Form<$ity>>::form()) )?
                        ],
                    }
                ),* ]
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident : $what:literal $(where $sound:path)? {
            $( $(#[$fmeta:meta])* $fvis:vis $field:ident : $ty:ty $(as $form:ty)? ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[$fmeta])* $fvis $field: $ty ),*
        }

        impl $crate::wire::Wire for $name {
            const NAME: &'static str = $what;

            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                $( <$crate::wire_form!($($form)?) as $crate::wire::Form<$ty>>::put(&self.$field, out); )*
            }

            #[inline]
            fn take(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::Malformed> {
                $( let $field = <$crate::wire_form!($($form)?) as $crate::wire::Form<$ty>>::take(from)?; )*
                let value = Self { $( $field ),* };
                $( if !$sound(&value) { return Err($crate::codec::Malformed($what)); } )?
                Ok(value)
            }

            fn draw(random: &mut $crate::Random) -> Self {
                loop {
                    let value = Self { $( $field: <$crate::wire_form!($($form)?) as $crate::wire::Form<$ty>>::draw(random) ),* };
                    $( if !$sound(&value) { continue; } )?
                    break value;
                }
            }
        }

        $crate::wire_codec!($name);

        impl $name {
            /// The one kind of it, as documents describe it.
            $vis fn kinds() -> Vec<$crate::wire::Kind> {
                vec![$crate::wire::Kind {
                    tag: None,
                    name: stringify!($name),
                    fields: vec![ $( (stringify!($field), <$crate::wire_form!($($form)?) as $crate::wire::Form<$ty>>::form()) ),* ],
                }]
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident : $what:literal flags {
            $( $(#[$fmeta:meta])* $fvis:vis $field:ident = $bit:literal ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[$fmeta])* $fvis $field: bool ),*
        }

        impl $crate::wire::Wire for $name {
            const NAME: &'static str = $what;

            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.push(0 $( | if self.$field { $bit } else { 0 } )*);
            }

            #[inline]
            fn take(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::Malformed> {
                let flags = from.u8()?;
                Ok(Self { $( $field: flags & $bit != 0 ),* })
            }

            fn form() -> String {
                let flags: &[(&str, u8)] = &[ $( (stringify!($field), $bit) ),* ];
                let flags: Vec<String> = flags.iter().map(|(name, bit)| format!("{bit} {name}")).collect();
                format!("u8 ({})", flags.join(", "))
            }

            fn draw(random: &mut $crate::Random) -> Self {
                Self { $( $field: <bool as $crate::wire::Wire>::draw(random) ),* }
            }
        }
    };
}

/// The form that a field names, or else its type's own.
#[doc(hidden)]
#[macro_export]
macro_rules! wire_form {
    () => {
        $crate::wire::Plain
    };
    ($form:ty) => {
        $form
    };
}

/// [`Wire`](crate::wire::Wire) by the names under which others use it.
#[doc(hidden)]
#[macro_export]
macro_rules! wire_codec {
    ($name:ident) => {
        impl $name {
            /// Appends its bytes.
            #[inline]
            pub fn encode(&self, out: &mut Vec<u8>) {
                $crate::wire::Wire::put(self, out);
            }

            /// Reads what [`encode`](Self::encode) wrote.
            ///
            /// # Errors
            /// If it was something else.
            #[inline]
            pub fn decode(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::Malformed> {
                $crate::wire::Wire::take(reader)
            }
        }
    };
}

#[cfg(test)]
mod tests;
