//! Where an archive is: a folder, or a store of objects.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use highwater_node::storage::archive::{FolderPlace, Place};
use url::Url;

use super::objects::Objects;
use crate::failure::{Failure, Result};

/// The place that this is: a path, or a URL. `patience` in seconds: how long a store's failing requests are tried again.
///
/// # Errors
/// [`Usage`](crate::failure::Kind::Usage) if it names no place.
pub fn place(place: &str, patience: f64) -> Result<Arc<dyn Place>> {
    if !(0.0..=86_400.0).contains(&patience) {
        return Err(Failure::usage("--patience is 0 to 86400 seconds"));
    }
    let Some((scheme, rest)) = place.split_once("://") else { return Ok(Arc::new(FolderPlace::new(place))) };
    if scheme == "file" && !rest.starts_with('/') {
        return Err(Failure::usage(format!("file://{rest} names no place"))
            .hint("a file:// URL has a whole path: file:///var/backups"));
    }
    let url = Url::parse(place).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    if scheme == "file" {
        return Ok(Arc::new(FolderPlace::new(path(&url)?)));
    }
    let objects = Objects::open(&url, Duration::from_secs_f64(patience)).map_err(Failure::usage)?;
    Ok(Arc::new(objects))
}

fn path(url: &Url) -> Result<PathBuf> {
    url.to_file_path().map_err(|()| Failure::usage(format!("{url} names no place")))
}
