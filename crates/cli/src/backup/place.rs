//! Where an archive is: a folder, or a store of objects.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use highwater_node::storage::archive::{FolderPlace, Place};

use crate::failure::{Failure, Result};

/// Schemes that are understood, for people.
pub const SCHEMES: &str = "file://, s3://, gs:// and az:// are";

/// The place that this is: a path, or a URL. `patience` in seconds: how long a store's failing requests are tried again.
///
/// # Errors
/// [`Usage`](crate::failure::Kind::Usage) if it names no place, [`CannotStart`](crate::failure::Kind::CannotStart) if this build has no
/// stores of objects.
pub fn place(place: &str, patience: f64) -> Result<Arc<dyn Place>> {
    if !(0.0..=86_400.0).contains(&patience) {
        return Err(Failure::usage("--patience is 0 to 86400 seconds"));
    }
    match place.split_once("://") {
        None => Ok(Arc::new(FolderPlace::new(place))),
        Some(("file", path)) => Ok(Arc::new(FolderPlace::new(folder(path)?))),
        Some((scheme, _)) => in_a_store(place, scheme, Duration::from_secs_f64(patience)),
    }
}

/// The path of a `file://` URL.
fn folder(path: &str) -> Result<PathBuf> {
    let path = path.strip_prefix("localhost/").map_or_else(|| path.to_string(), |rest| format!("/{rest}"));
    if !path.starts_with('/') {
        return Err(Failure::usage(format!("file://{path} names no place"))
            .hint("a file:// URL has a whole path: file:///var/backups"));
    }
    let decoded = decoded(&path).filter(|bytes| !bytes.contains(&0) && !path.contains(['?', '#']));
    let decoded = decoded.ok_or_else(|| Failure::usage(format!("file://{path} names no place")))?;
    Ok(OsString::from_vec(decoded).into())
}

/// `%20` and its like become the bytes that they stand for.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Some(bytes)
}

#[cfg(feature = "object-stores")]
fn in_a_store(place: &str, _scheme: &str, patience: Duration) -> Result<Arc<dyn Place>> {
    let url = url::Url::parse(place).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    Ok(Arc::new(super::objects::Objects::open(&url, patience).map_err(Failure::usage)?))
}

/// Says how to get a build that could.
#[cfg(not(feature = "object-stores"))]
fn in_a_store(place: &str, scheme: &str, _patience: Duration) -> Result<Arc<dyn Place>> {
    match scheme {
        "s3" | "s3a" | "gs" | "az" | "azure" | "abfs" | "abfss" | "adl" | "http" | "https" => {
            Err(Failure::cannot_start(format!("{place} is in a store of objects, and this build has none"))
                .hint("build with: cargo build --release --features object-stores"))
        }
        _ => Err(Failure::usage(format!("{place}: {scheme}:// is not supported ({SCHEMES})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    fn refusal(name: &str) -> (Kind, String) {
        let failure = place(name, 1.0).err().unwrap_or_else(|| panic!("{name} is a place"));
        (failure.kind, failure.to_string())
    }

    #[test]
    fn a_file_url_is_a_folder() {
        let folder = |url: &str| folder(url).unwrap();
        assert_eq!(folder("/var/backups"), PathBuf::from("/var/backups"));
        assert_eq!(folder("localhost/var/my%20backups%C3%A9"), PathBuf::from("/var/my backupsé"));
        for bad in [
            "file://var",
            "file://",
            "file:///a?b",
            "file:///a#b",
            "file:///a%",
            "file:///a%2",
            "file:///a%zz",
            "file:///a%00",
        ] {
            assert_eq!(refusal(bad).0, Kind::Usage, "{bad}");
        }
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let (kind, text) = refusal("ftp://host/path");
        assert!(kind == Kind::Usage && text.contains("ftp:// is not supported"), "{text}");
        assert!(place("s3://bucket/path", f64::NAN).is_err() && place("backups", -1.0).is_err());
    }

    #[cfg(not(feature = "object-stores"))]
    #[test]
    fn a_build_without_stores_names_the_feature() {
        for url in ["s3://bucket/prefix", "gs://bucket", "az://container/prefix", "https://host/container"] {
            let (kind, text) = refusal(url);
            assert!(kind == Kind::CannotStart && text.contains("--features object-stores"), "{text}");
        }
    }
}
