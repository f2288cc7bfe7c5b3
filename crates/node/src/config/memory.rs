//! How much memory there is: for `limits.memory_mb = 0`.
//!
//! The least of what the machine has, what the cgroups of this process (and those above them) may use, in either version
//! of that interface, and what the limit of its address space leaves. Of that a node takes three quarters: the rest is for the kernel,
//! for stacks, and for what the allocator holds and nobody uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// For the stacks of some threads, and what the system maps for itself.
const STACKS_BYTES: u64 = 32 << 20;

/// Memory that a node takes if it is not told, in bytes.
///
/// The same all the process's life, whatever it has taken since.
pub fn available() -> u64 {
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND.get_or_init(look)
}

fn look() -> u64 {
    let found =
        [machine(), cgroup(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup")), address_space()];
    // A machine that says nothing about itself: what any machine has.
    found.into_iter().flatten().min().unwrap_or(1 << 30) / 4 * 3
}

fn machine() -> Option<u64> {
    total(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// `MemTotal` of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// What the limit of the address space leaves beside what is taken already, and what the threads' stacks will take.
fn address_space() -> Option<u64> {
    let limit = address_limit()?;
    let taken = fs::read_to_string("/proc/self/statm").ok().and_then(|statm| pages(&statm)).unwrap_or(0);
    Some(limit.saturating_sub(taken * rustix::param::page_size() as u64 + STACKS_BYTES))
}

/// The limit of the address space (`ulimit -v`), if there is one.
pub fn address_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// The first number of `/proc/self/statm`.
fn pages(statm: &str) -> Option<u64> {
    statm.split(' ').next()?.parse().ok()
}

/// The least limit along the paths that `of` (`/proc/self/cgroup`) names below `root`.
fn cgroup(of: &Path, root: &Path) -> Option<u64> {
    let paths = fs::read_to_string(of).ok()?;
    paths.lines().filter_map(|line| limit_of(line, root)).min()
}

/// Of one line: `0::/path` in version 2, `4:memory:/path` in version 1.
fn limit_of(line: &str, root: &Path) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (root, file) = match controllers {
        "" => (root.to_path_buf(), "memory.max"),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            (root.join("memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    // In a container the path may be the host's, and only the root be there: then that one says it.
    let below: PathBuf = root.join(path.trim_start_matches('/'));
    let limits = below.ancestors().take_while(|at| at.starts_with(&root)).filter_map(|at| {
        let text = fs::read_to_string(at.join(file)).ok()?;
        text.trim().parse::<u64>().ok()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_along_the_path_counts_in_both_versions() {
        let root = std::env::temp_dir().join(format!("highwater-cgroups-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/memory.max", "5000\n");
        write("a/b/memory.max", "max\n");
        write("memory/x/memory.limit_in_bytes", "7000\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        let limit = |line: &str| {
            write("self", line);
            cgroup(&root.join("self"), &root)
        };
        assert_eq!(limit("0::/a/b\n"), Some(5000));
        assert_eq!(limit("0::/elsewhere\n"), None);
        assert_eq!(limit("3:cpu:/a\n2:memory,foo:/x/y\n"), Some(7000));
        assert_eq!(limit("2:memory:/x\n0::/a\n"), Some(5000));
        assert_eq!(limit("nonsense"), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn this_machine_has_some() {
        assert!(available() > 1 << 20);
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
        assert_eq!(total("nothing"), None);
        assert_eq!((pages("123 4 5"), pages("")), (Some(123), None));
    }
}
