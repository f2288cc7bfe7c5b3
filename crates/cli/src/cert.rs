//! `highwater cert`: certificates for trials. An authority in a folder, and what it signs beside it.
//!
//! A cluster that matters has an authority already: its certificates do as well, and nothing here is needed.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use highwater_core::NodeId;
use highwater_node::tls::names::{coordinator_name, node_name};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use crate::failure::{EXIT_CODES, Failure, Result};

/// `highwater cert`.
#[derive(Debug, Subcommand)]
pub enum CertAction {
    /// Make an authority: ca.crt, for everybody, and ca.key, for nobody else.
    #[command(after_help = EXIT_CODES)]
    Ca(Folder),
    /// Make a node's certificate, signed by the folder's authority: node-N.crt and node-N.key.
    #[command(after_help = EXIT_CODES)]
    Node {
        /// Where the authority is.
        #[command(flatten)]
        folder: Folder,
        /// The node's id.
        #[arg(long, value_name = "N")]
        id: u8,
        /// The cluster's name, as `cluster.id` has it.
        #[arg(long, value_name = "NAME", default_value = "highwater")]
        cluster: String,
        /// A name or an IP address by which clients call it, beside localhost and 127.0.0.1; repeatable.
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
    },
    /// Make a client's certificate, signed by the folder's authority: NAME.crt and NAME.key.
    #[command(after_help = EXIT_CODES)]
    Client {
        /// Where the authority is.
        #[command(flatten)]
        folder: Folder,
        /// Whose it is.
        #[arg(long, value_name = "NAME")]
        name: String,
        /// It may coordinate transactions of this cluster through the peer ports (docs/clients.md): that is, do everything.
        #[arg(long, value_name = "CLUSTER")]
        coordinates: Option<String>,
    },
}

/// Where certificates are, and for how long they are good.
#[derive(Clone, Debug, Args)]
pub struct Folder {
    /// The folder of the authority and what it signs.
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// For how many days what is made is good; below 0: it is over already, to see what becomes of that.
    #[arg(long, value_name = "DAYS", default_value_t = 365, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-3650..=3650))]
    pub days: i64,
}

/// What the authority is called. Its certificates are known by it, so it is the same whenever it signs.
const AUTHORITY: &str = "Highwater trial authority";

/// Makes an authority and a certificate for each of so many nodes of one machine.
///
/// # Errors
/// If the folder cannot be written to.
pub fn for_trial(dir: &Path, cluster: &str, nodes: u8) -> Result<()> {
    let folder = Folder { dir: dir.to_path_buf(), days: 1 };
    make_authority(&folder)?;
    (0..nodes).try_for_each(|id| make_node(&folder, id, cluster, &[]))
}

fn make_authority(folder: &Folder) -> Result<()> {
    fs::create_dir_all(&folder.dir).map_err(|error| cannot("make", &folder.dir, error))?;
    let key = KeyPair::generate().map_err(Failure::negative)?;
    let certificate = authority(folder.days)?.self_signed(&key).map_err(Failure::negative)?;
    write(&folder.dir, "ca", &certificate.pem(), &key)
}

fn make_node(folder: &Folder, id: u8, cluster: &str, hosts: &[String]) -> Result<()> {
    let uses = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    sign(folder, &format!("node-{id}"), &names(id, cluster, hosts), &uses)
}

/// The names that a node's certificate is for: its own machine, the hosts that were named, and the node.
fn names(id: u8, cluster: &str, hosts: &[String]) -> Vec<String> {
    let mut names = vec!["localhost".to_string(), "127.0.0.1".into()];
    names.extend(hosts.iter().cloned());
    names.push(node_name(cluster, NodeId(id)));
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Says where they are.
fn told(dir: &Path, name: &str, made: Result<()>) -> Result<()> {
    made.map(|()| println!("{0}/{name}.crt and {0}/{name}.key", dir.display()))
}

/// Makes one.
pub fn run(action: &CertAction) -> Result<()> {
    match action {
        CertAction::Ca(folder) => told(&folder.dir, "ca", make_authority(folder)),
        CertAction::Node { folder, id, cluster, hosts } => {
            told(&folder.dir, &format!("node-{id}"), make_node(folder, *id, cluster, hosts))
        }
        CertAction::Client { folder, name, coordinates } => {
            let plain =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            if !plain || name.starts_with('.') || name == "ca" {
                return Err(Failure::usage(
                    "--name is made of letters, digits, '-', '_' and '.', and is not \"ca\"",
                ));
            }
            let own: Vec<String> = coordinates.iter().map(|cluster| coordinator_name(cluster)).collect();
            told(&folder.dir, name, sign(folder, name, &own, &[ExtendedKeyUsagePurpose::ClientAuth]))
        }
    }
}

fn authority(days: i64) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new()).map_err(Failure::negative)?;
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    good_for(&mut params, days);
    Ok(params)
}

fn good_for(params: &mut CertificateParams, days: i64) {
    let now = OffsetDateTime::now_utc();
    // Clocks of other machines may be behind.
    params.not_before = now - Duration::days(if days < 0 { 1 - days } else { 1 });
    params.not_after = now + Duration::days(days);
}

fn sign(folder: &Folder, name: &str, hosts: &[String], uses: &[ExtendedKeyUsagePurpose]) -> Result<()> {
    let path = folder.dir.join("ca.key");
    let pem = fs::read_to_string(&path).map_err(|error| {
        Failure::cannot_start(format!(
            "cannot read {}: {error}; `highwater cert ca` makes it",
            path.display()
        ))
    })?;
    let ca_key = KeyPair::from_pem(&pem)
        .map_err(|error| Failure::cannot_start(format!("{} is no key: {error}", path.display())))?;
    let issuer = Issuer::new(authority(folder.days)?, ca_key);
    let mut params = CertificateParams::new(hosts.to_vec()).map_err(Failure::usage)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = uses.to_vec();
    good_for(&mut params, folder.days);
    let key = KeyPair::generate().map_err(Failure::negative)?;
    let certificate = params.signed_by(&key, &issuer).map_err(Failure::negative)?;
    write(&folder.dir, name, &certificate.pem(), &key)
}

/// A certificate anybody may read, and a key nobody else may. What is there is replaced as a whole.
fn write(dir: &Path, name: &str, certificate: &str, key: &KeyPair) -> Result<()> {
    for (end, text, mode) in [("key", key.serialize_pem(), 0o600), ("crt", certificate.to_string(), 0o644)] {
        let (path, fresh) = (dir.join(format!("{name}.{end}")), dir.join(format!(".{name}.{end}.new")));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&fresh);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| fs::rename(&fresh, &path)).map_err(|error| cannot("write", &path, error))?;
    }
    Ok(())
}

fn cannot(what: &str, path: &Path, error: std::io::Error) -> Failure {
    Failure::cannot_start(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once: `cert node --host 127.0.0.1`, as security.md had it, made a certificate that was not for `localhost`.
    #[test]
    fn hosts_are_added_to_those_of_the_own_machine() {
        let named = |hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            names(1, "shop", &hosts).join(" ")
        };
        let node = "node-1.shop.highwater.internal";
        assert_eq!(named(&[]), format!("localhost 127.0.0.1 {node}"));
        assert_eq!(named(&["127.0.0.1"]), format!("localhost 127.0.0.1 {node}"));
        assert_eq!(
            named(&["db1.example", "10.0.0.1"]),
            format!("localhost 127.0.0.1 db1.example 10.0.0.1 {node}")
        );
    }
}
