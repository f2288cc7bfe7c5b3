//! Where an archive is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_node::storage::archive::{FolderPlace, Place};

use crate::failure::{Failure, Result};

/// The place that this is.
pub fn place(place: &str) -> Result<Arc<dyn Place>> {
    Ok(Arc::new(FolderPlace::new(folder(place)?)))
}

/// A folder, or a `file://` URL.
fn folder(place: &str) -> Result<PathBuf> {
    match place.split_once("://") {
        Some(("file", path)) if path.starts_with('/') => Ok(Path::new(path).to_path_buf()),
        Some(("file", path)) => Err(Failure::usage(format!("file://{path} names no place"))
            .hint("a file:// URL has a whole path: file:///var/backups")),
        Some((scheme, _)) => Err(Failure::usage(format!("{scheme}:// is not supported"))
            .hint("a folder or file:///path; what is in an archive never changes but at the end of its newest file, so any tool can copy it to an object store")),
        None => Ok(Path::new(place).to_path_buf()),
    }
}
