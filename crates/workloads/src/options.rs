//! Building a workload from its name and key-value options, as a command line or a configuration file has them.

use std::fmt;
use std::str::FromStr;

use crate::workload::Workload;
use crate::{bank, retwis, row64, tpcc, ycsb, ycsb_t};

/// A workload and its configuration.
///
/// ```
/// use highwater_workloads::Options;
///
/// let options = Options::parse("tpcc", [("warehouses", "2"), ("fast_ids", "true")])?;
/// assert_eq!(options.build().name(), "tpcc");
///
/// let error = Options::parse("ycsb", [("key", "5")]).unwrap_err();
/// assert!(error.to_string().contains("keys, value_bytes, read_fraction"));
/// # Ok::<(), highwater_workloads::OptionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Options {
    /// TPC-C.
    Tpcc(tpcc::Config),
    Ycsb(ycsb::Config),
    Bank(bank::Config),
    YcsbT(row64::Config),
    Retwis(row64::Config),
}

/// Why a workload cannot be built. Says what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// No workload has this name.
    UnknownWorkload(String),
    /// The workload has no such option.
    UnknownOption {
        workload: &'static str,
        /// What was given.
        key: String,
        /// What it has.
        known: &'static [&'static str],
    },
    /// The option does not take this value.
    BadValue {
        /// The option.
        key: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        expected: String,
    },
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::UnknownWorkload(name) => {
                write!(f, "no workload {name:?}; there are {}", Options::NAMES.join(", "))
            }
            OptionError::UnknownOption { workload, key, known } => {
                write!(f, "{workload} has no option {key:?}; it has {}", known.join(", "))
            }
            OptionError::BadValue { key, value, expected } => {
                write!(f, "{key} cannot be {value:?}; expected {expected}")
            }
        }
    }
}

impl std::error::Error for OptionError {}

const TPCC: &[&str] = &["warehouses", "fast_ids", "scale", "seed", "layout"];
const YCSB: &[&str] = &["keys", "value_bytes", "read_fraction", "ops", "distribution", "theta"];
const BANK: &[&str] =
    &["accounts", "initial_balance", "sample_fraction", "audit_fraction", "sample", "max_transfer"];
const ROW64: &[&str] = &["keys", "zipf"];

impl Options {
    /// The names that [`Options::parse`] accepts.
    pub const NAMES: [&'static str; 5] = ["tpcc", "ycsb", "bank", "ycsb-t", "retwis"];

    /// The defaults of a workload.
    pub fn default_of(name: &str) -> Result<Options, OptionError> {
        match name {
            "tpcc" => Ok(Options::Tpcc(tpcc::Config::default())),
            "ycsb" => Ok(Options::Ycsb(ycsb::Config::default())),
            "bank" => Ok(Options::Bank(bank::Config::default())),
            "ycsb-t" => Ok(Options::YcsbT(row64::Config::default())),
            "retwis" => Ok(Options::Retwis(row64::Config::default())),
            _ => Err(OptionError::UnknownWorkload(name.to_owned())),
        }
    }

    /// The defaults of a workload with some options set, checked together.
    pub fn parse<'a>(
        name: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Options, OptionError> {
        let mut parsed = Options::default_of(name)?;
        for (key, value) in options {
            match &mut parsed {
                Options::Tpcc(config) => set_tpcc(config, key, value)?,
                Options::Ycsb(config) => set_ycsb(config, key, value)?,
                Options::Bank(config) => set_bank(config, key, value)?,
                Options::YcsbT(config) => set_row64("ycsb-t", config, key, value)?,
                Options::Retwis(config) => set_row64("retwis", config, key, value)?,
            }
        }
        parsed.validate()?;
        Ok(parsed)
    }

    /// The workload.
    ///
    /// # Panics
    /// If a configuration that did not come from [`Options::parse`] is out of range.
    pub fn build(&self) -> Box<dyn Workload> {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        match *self {
            Options::Tpcc(config) => Box::new(tpcc::Tpcc::new(config)),
            Options::Ycsb(config) => Box::new(ycsb::Ycsb::new(config)),
            Options::Bank(config) => Box::new(bank::Bank::new(config)),
            Options::YcsbT(config) => Box::new(ycsb_t::YcsbT::new(config)),
            Options::Retwis(config) => Box::new(retwis::Retwis::new(config)),
        }
    }

    /// What no single option can say: ranges, and options that must fit each other.
    pub fn validate(&self) -> Result<(), OptionError> {
        match self {
            Options::Tpcc(c) => {
                within("warehouses", c.warehouses.into(), 1, u16::MAX.into())?;
                let scale = c.scale > 0.0 && c.scale <= 1.0;
                ensure(scale, "scale", c.scale, "a number above 0 and up to 1")
            }
            Options::Ycsb(c) => {
                within("ops", c.ops as u64, 1, ycsb::MAX_OPS as u64)?;
                within("keys", c.keys, c.ops as u64, u32::MAX.into())?;
                let (min, max) = (ycsb::MIN_VALUE_BYTES as u64, ycsb::MAX_VALUE_BYTES as u64);
                within("value_bytes", c.value_bytes as u64, min, max)?;
                fraction("read_fraction", c.read_fraction)?;
                match c.distribution {
                    ycsb::Distribution::Zipfian { theta } => skew("theta", theta),
                    ycsb::Distribution::Uniform => Ok(()),
                }
            }
            Options::Bank(c) => {
                within("accounts", c.accounts, 2, bank::MAX_AUDIT)?;
                within("sample", c.sample as u64, 1, bank::MAX_SAMPLE as u64)?;
                within("max_transfer", c.max_transfer.into(), 1, u32::MAX.into())?;
                fraction("sample_fraction", c.sample_fraction)?;
                fraction("audit_fraction", c.audit_fraction)?;
                let rest = 1.0 - c.sample_fraction;
                let fits = c.audit_fraction <= rest;
                ensure(
                    fits,
                    "audit_fraction",
                    c.audit_fraction,
                    &format!("at most {rest}, what samples leave"),
                )
            }
            Options::YcsbT(c) => {
                within("keys", c.keys, 1, u32::MAX.into())?;
                skew("zipf", c.zipf)
            }
            Options::Retwis(c) => {
                within("keys", c.keys, retwis::MIN_KEYS, u32::MAX.into())?;
                ensure(c.keys.is_multiple_of(2), "keys", c.keys, "an even number: rows come in pairs")?;
                skew("zipf", c.zipf)
            }
        }
    }
}

fn set_tpcc(config: &mut tpcc::Config, key: &str, value: &str) -> Result<(), OptionError> {
    match key {
        "warehouses" => config.warehouses = parse("warehouses", value, "a whole number from 1 to 65535")?,
        "fast_ids" => config.fast_ids = parse("fast_ids", value, "true or false")?,
        "scale" => config.scale = parse("scale", value, "a number above 0 and up to 1")?,
        "seed" => config.seed = parse("seed", value, "a whole number")?,
        "layout" => config.layout = parse("layout", value, "split or silo")?,
        _ => return Err(OptionError::UnknownOption { workload: "tpcc", key: key.to_owned(), known: TPCC }),
    }
    Ok(())
}

fn set_ycsb(config: &mut ycsb::Config, key: &str, value: &str) -> Result<(), OptionError> {
    use ycsb::Distribution::{Uniform, Zipfian};
    match key {
        "keys" => config.keys = parse("keys", value, "a whole number")?,
        "value_bytes" => config.value_bytes = parse("value_bytes", value, "a whole number of bytes")?,
        "read_fraction" => config.read_fraction = parse("read_fraction", value, "a number from 0 to 1")?,
        "ops" => config.ops = parse("ops", value, "a whole number")?,
        "distribution" => {
            config.distribution = match (value, config.distribution) {
                ("uniform", _) => Uniform,
                // The skew may have been given before.
                ("zipfian", Zipfian { theta }) => Zipfian { theta },
                ("zipfian", Uniform) => Zipfian { theta: 0.99 },
                _ => return bad_value("distribution", value, "uniform or zipfian"),
            }
        }
        "theta" => {
            config.distribution = Zipfian { theta: parse("theta", value, "a number from 0 to below 1")? }
        }
        _ => return Err(OptionError::UnknownOption { workload: "ycsb", key: key.to_owned(), known: YCSB }),
    }
    Ok(())
}

fn set_bank(config: &mut bank::Config, key: &str, value: &str) -> Result<(), OptionError> {
    match key {
        "accounts" => config.accounts = parse("accounts", value, "a whole number")?,
        "initial_balance" => config.initial_balance = parse("initial_balance", value, "a whole number")?,
        "sample_fraction" => {
            config.sample_fraction = parse("sample_fraction", value, "a number from 0 to 1")?
        }
        "audit_fraction" => config.audit_fraction = parse("audit_fraction", value, "a number from 0 to 1")?,
        "sample" => config.sample = parse("sample", value, "a whole number")?,
        "max_transfer" => config.max_transfer = parse("max_transfer", value, "a whole number")?,
        _ => return Err(OptionError::UnknownOption { workload: "bank", key: key.to_owned(), known: BANK }),
    }
    Ok(())
}

fn set_row64(
    workload: &'static str,
    config: &mut row64::Config,
    key: &str,
    value: &str,
) -> Result<(), OptionError> {
    match key {
        "keys" => config.keys = parse("keys", value, "a whole number")?,
        "zipf" => config.zipf = parse("zipf", value, "a number from 0 to below 1")?,
        _ => return Err(OptionError::UnknownOption { workload, key: key.to_owned(), known: ROW64 }),
    }
    Ok(())
}

fn parse<V: FromStr>(key: &'static str, value: &str, expected: &str) -> Result<V, OptionError> {
    // 1_000_000 reads better than 1000000.
    value.replace('_', "").parse().or_else(|_| bad_value(key, value, expected))
}

fn bad_value<V>(key: &'static str, value: &str, expected: &str) -> Result<V, OptionError> {
    Err(OptionError::BadValue { key, value: value.to_owned(), expected: expected.to_owned() })
}

fn ensure(holds: bool, key: &'static str, value: impl ToString, expected: &str) -> Result<(), OptionError> {
    if holds { Ok(()) } else { bad_value(key, &value.to_string(), expected) }
}

fn within(key: &'static str, value: u64, low: u64, high: u64) -> Result<(), OptionError> {
    ensure((low..=high).contains(&value), key, value, &format!("a whole number from {low} to {high}"))
}

fn fraction(key: &'static str, value: f64) -> Result<(), OptionError> {
    ensure((0.0..=1.0).contains(&value), key, value, "a number from 0 to 1")
}

fn skew(key: &'static str, value: f64) -> Result<(), OptionError> {
    ensure((0.0..1.0).contains(&value), key, value, "a number from 0 to below 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_option_is_accepted() {
        let values = |key| match key {
            "fast_ids" => "true",
            "layout" => "silo",
            "distribution" => "zipfian",
            "keys" => "1_000",
            _ if key.ends_with("fraction") || key == "scale" || key == "theta" || key == "zipf" => "0.5",
            _ => "8",
        };
        for (name, keys) in
            [("tpcc", TPCC), ("ycsb", YCSB), ("bank", BANK), ("ycsb-t", ROW64), ("retwis", ROW64)]
        {
            let options = Options::parse(name, keys.iter().map(|key| (*key, values(key)))).unwrap();
            assert_ne!(options, Options::default_of(name).unwrap());
            assert_eq!(options.build().name(), name);
        }
    }

    #[test]
    fn errors_say_what_would_do() {
        let message = |name, key, value| Options::parse(name, [(key, value)]).unwrap_err().to_string();
        assert_eq!(
            message("tcpc", "x", "1"),
            r#"no workload "tcpc"; there are tpcc, ycsb, bank, ycsb-t, retwis"#
        );
        assert_eq!(
            message("tpcc", "warehouse", "1"),
            r#"tpcc has no option "warehouse"; it has warehouses, fast_ids, scale, seed, layout"#
        );
        assert_eq!(
            message("tpcc", "warehouses", "0"),
            r#"warehouses cannot be "0"; expected a whole number from 1 to 65535"#
        );
        assert_eq!(message("tpcc", "layout", "Silo"), r#"layout cannot be "Silo"; expected split or silo"#);
        assert_eq!(
            message("ycsb", "theta", "1"),
            r#"theta cannot be "1"; expected a number from 0 to below 1"#
        );
        assert_eq!(
            message("bank", "audit_fraction", "0.9"),
            r#"audit_fraction cannot be "0.9"; expected at most 0.8, what samples leave"#
        );
        assert_eq!(message("ycsb-t", "theta", "0.5"), r#"ycsb-t has no option "theta"; it has keys, zipf"#);
        assert_eq!(
            message("ycsb-t", "zipf", "1"),
            r#"zipf cannot be "1"; expected a number from 0 to below 1"#
        );
        assert_eq!(
            message("retwis", "keys", "9"),
            r#"keys cannot be "9"; expected a whole number from 10 to 4294967295"#
        );
        assert_eq!(
            message("retwis", "keys", "11"),
            r#"keys cannot be "11"; expected an even number: rows come in pairs"#
        );
        assert_eq!(message("bank", "sample", "many"), r#"sample cannot be "many"; expected a whole number"#);
    }
}
