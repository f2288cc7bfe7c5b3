//! Whether this machine's time-stamp counter may order commits.
//!
//! What the order of commits needs: a reading on one core that happens after a reading on another is not smaller. The
//! flags `constant_tsc` and `nonstop_tsc` say that each core's counter runs at one rate and never stops; they do not
//! say that the counters of two *sockets* started together. Linux knows more. It compares the counters of all cores
//! when it brings them up, watches them while it runs, and on a fault takes `tsc` off its list of clock sources. So:
//!
//! - **The kernel keeps its own time with it**: it needs the same property as we do. Good, whatever the machine.
//! - **On the kernel's list but not in use** (an older kernel that prefers `kvm-clock`, or an operator's choice): no
//!   fault was found, but nobody depends on it. Good on one socket, where all cores count one crystal and one reset.
//!   A virtual machine may show one socket and run on two; there the flag `nonstop_tsc` carries the weight, which a
//!   hypervisor gives only if the counters of its own machine are in step and the guest will not be moved to another.
//! - **Not on the list, or no list to be seen**: no. The operating system's clock is slower but right.

use std::fs;

/// What is known of a machine's counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Every core has `constant_tsc`, `nonstop_tsc` and `rdtscp`.
    pub steady: bool,
    /// The kernel's clock source; empty if unknown.
    pub current: String,
    /// Those that it could use.
    pub available: Vec<String>,
    /// How many sockets are in use, if that is known.
    pub sockets: Option<usize>,
}

const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";
const CPUS: &str = "/sys/devices/system/cpu";

impl Machine {
    /// This one, as Linux describes it. What cannot be read counts against the counter.
    pub fn this() -> Machine {
        let read = |path: String| fs::read_to_string(path).unwrap_or_default();
        Machine {
            steady: all_cores_steady(&read("/proc/cpuinfo".into())),
            current: read(format!("{CLOCK_SOURCES}/current_clocksource")).trim().into(),
            available: read(format!("{CLOCK_SOURCES}/available_clocksource"))
                .split_whitespace()
                .map(str::to_string)
                .collect(),
            sockets: sockets(),
        }
    }

    /// Whether the counter may order commits, and why (not).
    pub fn vouches_for_tsc(&self) -> Result<&'static str, &'static str> {
        if !self.steady {
            return Err("not every core has constant_tsc, nonstop_tsc and rdtscp");
        }
        if self.current == "tsc" {
            return Ok("the kernel keeps time with it");
        }
        if !self.available.iter().any(|source| source == "tsc") {
            return Err("the kernel does not list it as a clock source");
        }
        match self.sockets {
            Some(1) => Ok("the kernel lists it as a clock source, and there is one socket"),
            Some(_) => Err("the kernel does not keep time with it, and there are several sockets"),
            None => Err("the kernel does not keep time with it, and the number of sockets is unknown"),
        }
    }
}

/// Whether the counter can be read in order with other instructions. The same on all cores.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_rdtscp() -> bool {
    use std::arch::x86_64::__cpuid;
    const EXTENDED: u32 = 0x8000_0000;
    __cpuid(EXTENDED).eax > EXTENDED && __cpuid(EXTENDED + 1).edx >> 27 & 1 == 1
}

/// Whether every core of `/proc/cpuinfo` has the flags.
fn all_cores_steady(cpuinfo: &str) -> bool {
    let mut cores = cpuinfo.lines().filter(|line| line.starts_with("flags")).peekable();
    let steady = |core: &str| {
        ["constant_tsc", "nonstop_tsc", "rdtscp"]
            .into_iter()
            .all(|wanted| core.split_whitespace().any(|flag| flag == wanted))
    };
    cores.peek().is_some() && cores.all(steady)
}

/// Distinct packages over all cores that are in use; `None` if one does not say.
fn sockets() -> Option<usize> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(CPUS).ok()? {
        let path = entry.ok()?.path();
        let name = path.file_name()?.to_str()?;
        let is_core = name.strip_prefix("cpu").is_some_and(|id| id.parse::<u32>().is_ok());
        // A core that is switched off has no topology.
        if is_core && path.join("topology").exists() {
            packages
                .push(fs::read_to_string(path.join("topology/physical_package_id")).ok()?.trim().to_string());
        }
    }
    packages.sort_unstable();
    packages.dedup();
    // Some hypervisors and boards say -1: they do not know.
    (!packages.is_empty() && packages.iter().all(|id| !id.starts_with('-'))).then_some(packages.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(current: &str, available: &str, sockets: Option<usize>) -> Machine {
        let available = available.split_whitespace().map(str::to_string).collect();
        Machine { steady: true, current: current.into(), available, sockets }
    }

    #[test]
    fn the_kernel_s_own_clock_is_good_on_any_machine() {
        for sockets in [Some(1), Some(8), None] {
            assert!(machine("tsc", "tsc hpet acpi_pm", sockets).vouches_for_tsc().is_ok());
        }
    }

    /// Once: `constant_tsc` and `nonstop_tsc` do not vouch for several sockets: where sockets disagree, commit timestamps
    /// could contradict real time. The counter is used only where the kernel vouches for it, too.
    #[test]
    fn a_counter_that_the_kernel_only_lists_is_good_on_one_socket() {
        let guest = |sockets| machine("kvm-clock", "kvm-clock tsc acpi_pm", sockets).vouches_for_tsc();
        assert!(guest(Some(1)).is_ok());
        assert!(guest(Some(2)).is_err_and(|why| why.contains("several sockets")));
        assert!(guest(None).is_err_and(|why| why.contains("unknown")));
    }

    #[test]
    fn a_counter_that_the_kernel_gave_up_is_not_used() {
        let found_faulty = machine("hpet", "hpet acpi_pm", Some(1));
        assert!(found_faulty.vouches_for_tsc().is_err_and(|why| why.contains("does not list")));
        let no_sysfs = machine("", "", None);
        assert!(no_sysfs.vouches_for_tsc().is_err());
    }

    #[test]
    fn the_kernel_s_word_is_not_enough_without_the_flags() {
        let machine = Machine { steady: false, ..machine("tsc", "tsc", Some(1)) };
        assert!(machine.vouches_for_tsc().is_err_and(|why| why.contains("nonstop_tsc")));
    }

    #[test]
    fn every_core_must_have_the_flags() {
        let good = "flags\t\t: fpu constant_tsc nonstop_tsc rdtscp\n";
        assert!(all_cores_steady(&format!("processor : 0\n{good}\nprocessor : 1\n{good}")));
        assert!(!all_cores_steady(&format!("{good}flags\t\t: fpu constant_tsc rdtscp\n")));
        assert!(!all_cores_steady("flags\t\t: constant_tsc_not nonstop_tsc rdtscp\n"));
        assert!(!all_cores_steady(""));
    }
}
