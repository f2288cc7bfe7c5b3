//! `highwater hot-keys` and `highwater slow`: what one replica has noticed of its transactions.

use std::path::PathBuf;

use clap::Args;
use highwater_node::admin::protocol::{AdminRequest, AdminResponse};

use crate::admin::{AdminClient, failure_at};
use crate::failure::{Failure, Result};
use crate::numbers::micros;
use crate::status::host_and_port;
use crate::status::place::{PATIENCE, Place};

/// Whom to ask.
#[derive(Debug, Args)]
pub struct WatchingArgs {
    /// Ask the replica of this config.
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// Ask the replica at this admin address; names are resolved.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub admin: Option<String>,
    /// Print the answer as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// `highwater hot-keys`.
#[derive(Debug, Args)]
pub struct HotKeysArgs {
    #[command(flatten)]
    at: WatchingArgs,
    /// Forget them then.
    #[arg(long)]
    reset: bool,
}

/// Shows the keys at which transactions meet.
pub fn hot_keys(args: &HotKeysArgs) -> Result<()> {
    let AdminResponse::HotKeys { keys } = args.at.ask(&AdminRequest::HotKeys { reset: args.reset })? else {
        return Err(Failure::negative("the replica answered something else"));
    };
    if args.at.json {
        println!("{}", serde_json::to_string(&keys).map_err(Failure::negative)?);
        return Ok(());
    }
    if keys.is_empty() {
        println!("no conflicts at any key");
        return Ok(());
    }
    println!("{:>10}  {:>8}  {:<12}  key", "conflicts", "or less", "table");
    for key in keys {
        println!("{:>10}  {:>8}  {:<12}  {}", key.conflicts, key.error, key.table, key.key);
    }
    Ok(())
}

/// Shows slow transactions.
pub fn slow(args: &WatchingArgs) -> Result<()> {
    let AdminResponse::Slow { slow } = args.ask(&AdminRequest::Slow)? else {
        return Err(Failure::negative("the replica answered something else"));
    };
    if args.json {
        println!("{}", serde_json::to_string(&slow).map_err(Failure::negative)?);
        return Ok(());
    }
    if slow.is_empty() {
        println!("no slow transactions");
        return Ok(());
    }
    println!("{:>8}  {:>10}  {:>10}  {:<22}  command", "number", "executed", "released", "client");
    for one in slow {
        let released = one.released_us.map_or("-".into(), |us| micros(us as f64));
        let words: Vec<_> = one.words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let took = micros(one.took_us as f64);
        println!("{:>8}  {took:>10}  {released:>10}  {:<22}  {}", one.number, one.client, words.join(" "));
    }
    Ok(())
}

impl WatchingArgs {
    fn ask(&self, request: &AdminRequest) -> Result<AdminResponse> {
        let place = match &self.admin {
            Some(admin) => Place::Replica(admin.clone()),
            None => Place::of_config(self.config.as_deref())?,
        };
        let admin = place.admin();
        let answer =
            AdminClient::connect_to(admin, PATIENCE).and_then(|mut client| client.answer_to(request));
        answer.map_err(|error| failure_at(admin, error))
    }
}
