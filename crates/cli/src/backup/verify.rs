//! `highwater backup verify`.

use std::io::{self, Write};

use highwater_disk::journal::read;
use highwater_node::storage::DataDirectory;
use highwater_node::storage::archive::{Archive, Chain};
use serde_json::json;

use super::args::VerifyArgs;
use super::moment::{find, span, state};
use super::place::folder;
use crate::checkpoint;
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// Runs the command.
pub fn run(args: &VerifyArgs) -> Result<()> {
    let mut progress = Progress::new();
    let archive = Archive::open(&folder(&args.archive)?).map_err(Failure::unreadable)?;
    let chains = archive.chains().map_err(Failure::unreadable)?;
    if chains.is_empty() {
        return Err(Failure::unreadable("the archive is empty"));
    }
    let mut damage = Vec::new();
    for chain in &chains {
        progress.step(&format!("chain {}", chain.number));
        damage.extend(damage_of(chain, &mut progress)?);
    }
    progress.step("computing the state of the moment");
    let found = find(&archive, &args.moment);
    let state = found.and_then(|found| Ok((found.moment, state(&found).map_err(Failure::negative)?)));
    progress.clear();
    drop(progress);
    let (moment, digest, rows) = match &state {
        Ok((moment, (store, _))) => {
            let digest = store.digest();
            (Some(moment.0), Some(format!("{:032x}", digest.hash)), digest.rows.iter().sum::<u64>())
        }
        Err(_) => (None, None, 0),
    };
    let text = if args.json {
        let report = json!({
            "whole": damage.is_empty(), "chains": chains.len(), "damage": damage, "moment": moment, "digest": digest,
            "rows": rows,
        });
        report.to_string() + "\n"
    } else {
        let mut text: String = damage.iter().map(|why| format!("DAMAGED   {why}\n")).collect();
        if let (Some(moment), Some(digest)) = (moment, &digest) {
            text.push_str(&format!("moment    {moment}: {rows} rows\ndigest    {digest}\n"));
        }
        if damage.is_empty() && state.is_ok() {
            text.push_str(&format!("verdict   {} chain(s), whole\n", chains.len()));
        }
        text
    };
    io::stdout().lock().write_all(text.as_bytes()).map_err(Failure::negative)?;
    if !damage.is_empty() {
        return Err(Failure::negative(format!("{} file(s) of the archive are damaged", damage.len())));
    }
    state.map(drop)
}

/// What is wrong with a chain's files.
fn damage_of(chain: &Chain, progress: &mut Progress) -> Result<Vec<String>> {
    let directory = DataDirectory::read_only(&chain.path).map_err(Failure::unreadable)?;
    let unusable = span(chain).err();
    let mut damage = checkpoint::damage_of(&directory, progress).map_err(Failure::unreadable)?;
    if let Err(error) = read(&directory, &mut |_| {}) {
        damage.push(error.to_string());
    }
    if damage.is_empty() {
        damage.extend(unusable);
    }
    Ok(damage.into_iter().map(|why| format!("{}: {why}", chain.path.display())).collect())
}
