//! What the replicas of a torture have to make do with: little memory, few descriptors.

use highwater_node::config::Config;

use super::args::TortureArgs;
use super::schedule::FaultKind;

/// Room for what no budget can foresee: the binary, stacks, an allocator's slack.
const SLACK_PERCENT: u64 = 25;
/// MiB of journal between two checkpoints on small disks.
const CHECKPOINT_MB: u64 = 64;

/// What the replicas have to make do with: the kinds decide.
pub struct Limits {
    /// Config keys.
    pub set: Vec<(String, String)>,
    /// Flags of `torture-node`.
    pub flags: Vec<String>,
    /// MiB that replicas promise not to exceed.
    budget_mb: Option<u64>,
}

impl Limits {
    /// As the kinds of faults and the flags ask for.
    pub fn of(args: &TortureArgs, faults: &[FaultKind]) -> Limits {
        let (mut set, mut flags, mut budget_mb) = (args.set.clone(), Vec::new(), None);
        if faults.contains(&FaultKind::DiskFull) {
            // What fills it shall not be its own journal.
            set.insert(0, ("storage.checkpoint_mb".into(), CHECKPOINT_MB.to_string()));
        }
        if faults.contains(&FaultKind::Storms) {
            flags.extend(["--descriptors".into(), args.descriptors.to_string()]);
        }
        if faults.contains(&FaultKind::Memory) {
            let budget = ("limits.memory_mb".to_string(), args.memory_mb.to_string());
            if Config::default_toml().lines().any(|line| line.starts_with("memory_mb")) {
                set.insert(0, budget);
                budget_mb = Some(args.memory_mb);
            } else {
                // Replicas that know no budget of their own meet the system's.
                flags.extend(["--address-space-mb".into(), (2 * args.memory_mb).to_string()]);
            }
        }
        Limits { set, flags, budget_mb }
    }

    /// What is wrong with the most memory that a replica was seen to have, if anything.
    pub fn exceeded(&self, resident_bytes: u64) -> Option<String> {
        let budget = self.budget_mb?;
        let (most, resident) = (budget * (100 + SLACK_PERCENT) / 100, resident_bytes >> 20);
        (resident > most)
            .then(|| format!("a replica with a budget of {budget} MiB had {resident} MiB resident"))
    }
}
