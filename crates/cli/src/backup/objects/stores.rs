//! From a URL to a store: which one, and with whose credentials.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::Url;

use crate::backup::place::SCHEMES;

/// The store, and where the archive is in it. Everything but the place comes from the environment, by the names that each cloud's users
/// know. A request that fails is tried again until `patience` is over.
///
/// # Errors
/// In words.
pub fn open(url: &Url, patience: Duration) -> Result<(Arc<dyn ObjectStore>, Path), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{url}: {error}");
    let unknown = || format!("{}:// is not supported ({SCHEMES})", url.scheme());
    let (scheme, path) = ObjectStoreScheme::parse(url).map_err(|_| unknown())?;
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.,
        },
        max_retries: usize::MAX,
        retry_timeout: patience,
    };
    // Two libraries could do TLS; this is the one that is built in. Whoever came first is right, too.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store: Arc<dyn ObjectStore> = match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let store = AmazonS3Builder::from_env().with_url(url.as_str()).with_retry(retry).build();
            Arc::new(store.map_err(|error| wrong(&error))?)
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let store =
                GoogleCloudStorageBuilder::from_env().with_url(url.as_str()).with_retry(retry).build();
            Arc::new(store.map_err(|error| wrong(&error))?)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let store = MicrosoftAzureBuilder::from_env().with_url(url.as_str()).with_retry(retry).build();
            Arc::new(store.map_err(|error| wrong(&error))?)
        }
        _ => return Err(unknown()),
    };
    Ok((store, path))
}
