//! Where the asynchronous world ends: a thread that runs the requests, and a way for other threads to wait for one.

use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A runtime on a thread of its own. It ends when this is dropped, and with it whatever runs there.
#[derive(Debug)]
pub struct Calls {
    handle: Handle,
    _ends: oneshot::Sender<()>,
}

impl Calls {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Calls> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, (ends, ended)) = (runtime.handle().clone(), oneshot::channel::<()>());
        // Nothing is ever sent: what comes is that the sender is gone.
        thread::Builder::new().name("objects".into()).spawn(move || runtime.block_on(ended).unwrap_or(()))?;
        Ok(Calls { handle, _ends: ends })
    }

    /// Waits for a request. Not to be called by one.
    pub fn wait<T>(&self, request: impl Future<Output = T>) -> T {
        self.handle.block_on(request)
    }

    /// Has a request run while the caller goes on.
    pub fn begin<T: Send + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(request)
    }
}
