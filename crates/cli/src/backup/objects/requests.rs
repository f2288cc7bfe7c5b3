//! Requests to a store, each until it is done: what has a condition is surely not done twice.

use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, PutResult, Result, UpdateVersion,
};

/// Between two tries that the library leaves to us.
const PAUSE: Duration = Duration::from_millis(250);

/// What has to be so for an object to be written.
#[derive(Clone, Debug)]
pub enum Condition {
    /// There is none of this name.
    Absent,
    /// It is still this one.
    Still(UpdateVersion),
}

/// Writes an object as a whole, if the condition holds. A store that knows no conditions is asked without.
///
/// The library does not repeat a request of which it does not know what became. Here it is repeated for as long as `patience` says: whether
/// it was this very writer who made the condition false shows in the object.
///
/// # Errors
/// [`AlreadyExists`](Error::AlreadyExists) or [`Precondition`](Error::Precondition) if the condition does not hold; the store's.
pub async fn put(
    store: &dyn ObjectStore,
    path: &Path,
    bytes: Bytes,
    condition: Condition,
    patience: Duration,
) -> Result<UpdateVersion> {
    let began = Instant::now();
    loop {
        let mode = match &condition {
            Condition::Absent => PutMode::Create,
            Condition::Still(version) => PutMode::Update(version.clone()),
        };
        match store.put_opts(path, PutPayload::from(bytes.clone()), mode.into()).await {
            Ok(put) => return Ok(version(put)),
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                return store.put(path, PutPayload::from(bytes)).await.map(version);
            }
            Err(error @ (Error::AlreadyExists { .. } | Error::Precondition { .. })) => {
                return match same(store, path, &bytes).await? {
                    Some(version) => Ok(version),
                    None => Err(error),
                };
            }
            Err(Error::Generic { .. }) if began.elapsed() < patience => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error),
        }
    }
}

fn version(put: PutResult) -> UpdateVersion {
    UpdateVersion { e_tag: put.e_tag, version: put.version }
}

/// Which version of the object has these bytes, if it has them.
async fn same(store: &dyn ObjectStore, path: &Path, bytes: &Bytes) -> Result<Option<UpdateVersion>> {
    let found = match store.get(path).await {
        Err(Error::NotFound { .. }) => return Ok(None),
        found => found?,
    };
    if found.meta.size != bytes.len() as u64 {
        return Ok(None);
    }
    let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
    Ok((found.bytes().await? == *bytes).then_some(version))
}
