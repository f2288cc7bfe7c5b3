//! Categories of commands that rules speak of, as bits.

macro_rules! categories {
    ($($name:ident $word:literal),* $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "numbers the categories, and is nowhere named")]
        enum Place { $($name),* }
        $(#[doc = concat!("`@", $word, "`")] pub const $name: u32 = 1 << Place::$name as u32;)*
        /// All names, in Redis's order, and behind them ours; a category's bit is its place here.
        pub const NAMES: &[&str] = &[$($word),*];
    };
}

categories! {
    KEYSPACE "keyspace",
    READ "read",
    WRITE "write",
    SET "set",
    SORTEDSET "sortedset",
    LIST "list",
    HASH "hash",
    STRING "string",
    BITMAP "bitmap",
    HYPERLOGLOG "hyperloglog",
    GEO "geo",
    STREAM "stream",
    PUBSUB "pubsub",
    ADMIN "admin",
    FAST "fast",
    SLOW "slow",
    BLOCKING "blocking",
    DANGEROUS "dangerous",
    CONNECTION "connection",
    TRANSACTION "transaction",
    SCRIPTING "scripting",
    TABLE "table",
}
