//! Small disks for the replicas, and how they are filled.
//!
//! Each replica gets a tmpfs of its own, mounted in a mount namespace that only this command and its children see: it goes with the
//! last of them, however they end. Whoever may not mount has no such disks, and is told so.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result};

/// Set for the process inside its own mount namespace.
const INSIDE: &str = "HIGHWATER_TORTURE_MOUNTS";
/// What fills a disk.
const FILLER: &str = "filler";
/// Bytes written at a time to fill it.
const PIECE: usize = 1 << 20;

/// Begins this command anew in a mount namespace of its own; returns if it is there, and why not if that cannot be.
///
/// To be called before anything was started or written.
pub fn enter() -> std::result::Result<(), String> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let unshare = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--"]).arg(program);
        command
    };
    // Asked first: once this process is replaced there is no way back.
    let mut asks = unshare(Path::new("mount"));
    asks.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(std::env::temp_dir());
    let asked = asks.stdin(Stdio::null()).output().map_err(|error| format!("unshare: {error}"))?;
    if !asked.status.success() {
        return Err(String::from_utf8_lossy(&asked.stderr).trim().to_string());
    }
    let binary = std::env::current_exe().map_err(|error| error.to_string())?;
    let error = unshare(&binary).args(std::env::args_os().skip(1)).env(INSIDE, "1").exec();
    Err(format!("unshare: {error}"))
}

/// A new disk of so many MiB at `path`, which is made.
pub fn mount(path: &Path, mib: u64) -> Result<()> {
    fs::create_dir(path).map_err(|error| Failure::cannot_start(format!("{}: {error}", path.display())))?;
    let size = format!("size={mib}m,mode=0700");
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).stdin(Stdio::null());
    let output = command.output().map_err(|error| Failure::cannot_start(format!("mount: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::cannot_start(format!("mount: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// Takes all disks below a directory away, so that it can be removed.
pub fn unmount_below(directory: &Path) {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    for place in places.filter(|place| place.starts_with(directory)) {
        // What stays goes with the namespace.
        let _ = Command::new("umount").arg("--lazy").arg(&place).stderr(Stdio::null()).status();
    }
}

/// Takes all room that a disk has at the moment.
pub fn fill(disk: &Path) -> Result<()> {
    let path = disk.join(FILLER);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let mut file = file.map_err(|error| Failure::negative(format!("{}: {error}", path.display())))?;
    let mut piece = vec![0xf1; PIECE];
    // Smaller and smaller pieces, to the last page.
    while !piece.is_empty() {
        if file.write_all(&piece).is_err() {
            piece.truncate(if piece.len() > 4096 { piece.len() / 4 } else { 0 });
        }
    }
    Ok(())
}

/// Gives it back.
pub fn make_room(disk: &Path) -> Result<()> {
    let path = disk.join(FILLER);
    fs::remove_file(&path).map_err(|error| Failure::negative(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a file of limited length, which is as good a full disk as any.
    #[test]
    fn room_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILLER), b"full").unwrap();
        make_room(folder.path()).unwrap();
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
        assert!(make_room(folder.path()).is_err(), "nothing was taken");
        unmount_below(folder.path());
    }
}
