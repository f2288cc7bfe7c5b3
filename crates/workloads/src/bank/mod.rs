//! A bank: accounts with balances, transfers between two of them, audits over many. Whatever runs, the total stays.
//!
//! Transfers and samples choose accounts uniformly. A transfer that its account cannot cover rolls back. An audit of
//! all accounts reports their sum, so that a client can check isolation from outside: it must always be the total.

mod procedures;

use highwater_core::{Procedure, Registry, Transaction, View};

use crate::bytes::Sink;
use crate::random::{Rng, mix};
use crate::tables::BANK;
use crate::workload::{Check, Findings, Generator, Requests, Workload};
pub use procedures::{Audit, Load, MAX_AUDIT, MAX_SAMPLE, Sample, Transfer};

/// Registers this module's procedures.
pub fn register<T: Transaction>(registry: &mut Registry<T>) {
    registry.register::<Load>();
    registry.register::<Transfer>();
    registry.register::<Sample>();
    registry.register::<Audit>();
}

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// How many accounts, 2 to [`MAX_AUDIT`].
    pub accounts: u64,
    /// What each holds at the start.
    pub initial_balance: u32,
    /// Share of transactions that read a random sample.
    pub sample_fraction: f64,
    /// Share of transactions that read every account. What is left transfers.
    pub audit_fraction: f64,
    /// Accounts of a sample, 1 to [`MAX_SAMPLE`].
    pub sample: usize,
    /// Transfers move 1 to this much.
    pub max_transfer: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            accounts: 10_000,
            initial_balance: 1000,
            sample_fraction: 0.2,
            audit_fraction: 0.001,
            sample: 8,
            max_transfer: 100,
        }
    }
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Bank {
    config: Config,
}

impl Bank {
    /// The workload of a valid configuration.
    pub fn new(config: Config) -> Bank {
        Bank { config }
    }

    /// What all accounts hold together, at any time.
    pub fn total(&self) -> i64 {
        self.config.accounts as i64 * i64::from(self.config.initial_balance)
    }
}

impl Workload for Bank {
    fn name(&self) -> &'static str {
        "bank"
    }

    fn load(&self, part: usize, parts: usize) -> Requests {
        assert!(part < parts, "loader {part} of {parts}");
        const AT_ONCE: u64 = 1000;
        let Config { accounts, initial_balance, .. } = self.config;
        let chunks = (0..accounts).step_by(AT_ONCE as usize).skip(part).step_by(parts);
        Box::new(chunks.map(move |first| {
            let mut args = Vec::new();
            args.put_u64(first);
            args.put_u32(AT_ONCE.min(accounts - first) as u32);
            args.put_u32(initial_balance);
            (Load::NAME, args)
        }))
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Box<dyn Generator> {
        let rng = Rng::new(mix(seed ^ mix(worker as u64 + 1)));
        Box::new(BankGenerator { rng, config: self.config })
    }

    fn kinds(&self) -> &'static [&'static str] {
        &[Transfer::NAME, Sample::NAME, Audit::NAME]
    }

    fn check(&self, view: &dyn View) -> Vec<Check> {
        let (mut rows, mut total, mut negative) =
            (Findings::new("bank-accounts"), Findings::new("bank-total"), Findings::new("bank-nonnegative"));
        let (mut count, mut sum) = (0, 0);
        view.for_each(BANK, &mut |key, row| {
            let balance = row.try_into().map(i64::from_le_bytes);
            rows.expect(balance.is_ok(), || format!("account {key:02x?}: malformed row {row:02x?}"));
            let balance = balance.unwrap_or(0);
            negative.expect(balance >= 0, || format!("account {key:02x?}: balance {balance}"));
            count += 1;
            sum += i128::from(balance);
        });
        let accounts = self.config.accounts;
        rows.expect(count == accounts, || format!("{count} accounts, {accounts} were loaded"));
        total.expect(sum == self.total().into(), || format!("the total is {sum}, expected {}", self.total()));
        vec![rows.finish(), total.finish(), negative.finish()]
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        vec![
            ("accounts", self.config.accounts.to_string()),
            ("initial_balance", self.config.initial_balance.to_string()),
            ("sample_fraction", self.config.sample_fraction.to_string()),
            ("audit_fraction", self.config.audit_fraction.to_string()),
            ("sample", self.config.sample.to_string()),
            ("max_transfer", self.config.max_transfer.to_string()),
        ]
    }
}

struct BankGenerator {
    rng: Rng,
    config: Config,
}

impl Generator for BankGenerator {
    fn next(&mut self, args: &mut Vec<u8>) -> usize {
        args.clear();
        let Config { accounts, sample_fraction, audit_fraction, sample, max_transfer, .. } = self.config;
        let ticket = self.rng.unit();
        if ticket < audit_fraction {
            args.put_u64(0);
            args.put_u64(accounts);
            return 2;
        }
        if ticket < audit_fraction + sample_fraction {
            (0..sample).for_each(|_| args.put_u64(self.rng.below(accounts)));
            return 1;
        }
        let from = self.rng.below(accounts);
        let to = (from + 1 + self.rng.below(accounts - 1)) % accounts;
        args.put_u64(from);
        args.put_u64(to);
        args.put_u32(self.rng.within(1, max_transfer.into()) as u32);
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Runner;

    fn small() -> Bank {
        Bank::new(Config { accounts: 50, initial_balance: 20, audit_fraction: 0.01, ..Config::default() })
    }

    #[test]
    fn a_mix_keeps_the_total_and_some_transfers_are_not_covered() {
        let bank = small();
        let mut runner = Runner::loaded(&bank);
        let outcomes = runner.run_mix(&bank, 3, 5000);
        assert!(outcomes[&("bank.transfer", "committed")] > 500, "{outcomes:?}");
        assert!(outcomes[&("bank.transfer", "rolled back")] > 500, "{outcomes:?}");
        assert!(outcomes[&("bank.sample", "committed")] > 800, "{outcomes:?}");
        assert_eq!(outcomes.len(), 4, "{outcomes:?}");
        assert!(runner.failing(&bank).is_empty());
        let mut args = Vec::new();
        args.put_u64(0);
        args.put_u64(50);
        assert_eq!(runner.run("bank.audit", &args), (Ok(()), bank.total().to_le_bytes().to_vec()));
    }

    #[test]
    fn every_condition_can_fail() {
        let bank = small();
        let failing = |tamper: &dyn Fn(&mut Runner)| {
            let mut runner = Runner::loaded(&bank);
            tamper(&mut runner);
            runner.failing(&bank)
        };
        assert_eq!(failing(&|_| ()), [""; 0]);
        assert_eq!(failing(&|r| r.tables_mut().put(BANK, 3, &21i64.to_le_bytes())), ["bank-total"]);
        assert_eq!(failing(&|r| r.tables_mut().put(BANK, 99, &0i64.to_le_bytes())), ["bank-accounts"]);
        let swindle = |r: &mut Runner| {
            r.tables_mut().put(BANK, 3, &(-1i64).to_le_bytes());
            r.tables_mut().put(BANK, 4, &41i64.to_le_bytes());
        };
        assert_eq!(failing(&swindle), ["bank-nonnegative"]);
    }
}
