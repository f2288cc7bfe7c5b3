//! One replica, or several in one process.

use std::net::SocketAddr;
use std::sync::Arc;

use highwater_core::Abort;
use highwater_node::Opened;

use crate::builder::Builder;
use crate::error::{Error, OpenError};
use crate::hosted::NoProcedures;
use crate::replicas::{Replica, Replicas};
use crate::tx::{ReadTx, Tx};

/// A replica in this program: alone, or of a cluster whose others run elsewhere. Threads share it by reference. Dropping it ends it in good
/// order; [`close`](Database::close) says how that went.
pub struct Database(pub(crate) Replicas);

impl Database {
    /// Alone, in memory: what it holds ends with it.
    pub fn builder() -> Builder<NoProcedures> {
        Builder::new()
    }

    /// Runs a closure as a transaction: strictly serializable (with an engine that is), all or nothing, and on a majority when this returns,
    /// as durable as the builder was told.
    ///
    /// It runs on a worker's thread, so it owns what it needs. If other transactions are in the way it runs again from its start: what
    /// it changes beside the database happens as often. A worker runs nothing else meanwhile: it should be short, and wait for nobody. To
    /// take back what it wrote it returns `Err(Abort::Rollback)`.
    ///
    /// # Errors
    /// [`Error`], by what one can do. A replica that does not serve yet, or no longer, is asked again for the builder's
    /// [`patience`](Builder::patience), and so is one where others were in the way again and again.
    pub fn transaction<R: Send + 'static>(
        &self,
        code: impl FnMut(&mut Tx<'_>) -> Result<R, Abort> + Send + 'static,
    ) -> Result<R, Error> {
        self.0.closure(None, code)
    }

    /// The same for one that only reads, on this replica's own snapshot: serializable, of a moment some milliseconds ago, without asking
    /// the leader. It cannot write: a [`ReadTx`] has nothing to write with.
    ///
    /// # Errors
    /// As [`transaction`](Database::transaction).
    pub fn read<R: Send + 'static>(
        &self,
        mut code: impl FnMut(&mut ReadTx<'_>) -> Result<R, Abort> + Send + 'static,
    ) -> Result<R, Error> {
        self.0.closure(Some(0), move |tx| code(tx))
    }

    /// Calls a registered procedure; its reply.
    ///
    /// # Errors
    /// As [`transaction`](Database::transaction).
    pub fn call(&self, procedure: &str, args: &[u8]) -> Result<Vec<u8>, Error> {
        self.0.call(None, procedure, args)
    }

    /// Where Redis clients find it.
    pub fn resp_address(&self) -> SocketAddr {
        self.running().opened().node.resp_address()
    }

    /// Where `highwater status --admin` finds it.
    pub fn admin_address(&self) -> SocketAddr {
        self.running().opened().node.admin_address()
    }

    /// Ends it in good order: what is under way is answered, for up to a second.
    ///
    /// # Errors
    /// If it did not end so, or had ended before by itself: why.
    pub fn close(self) -> Result<(), OpenError> {
        Ok(self.0.close()?)
    }

    fn running(&self) -> Arc<Replica> {
        self.0.get(0).expect("it runs until it is closed")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.0.close();
    }
}

/// Opens a replica again.
pub(crate) type Reopen = Box<dyn Fn(u8) -> Result<Opened, OpenError> + Send + Sync>;

/// All replicas of a cluster in one process, over the loopback interface: for tests. They are whole ones, and fail one by one.
pub struct Cluster {
    pub(crate) replicas: Replicas,
    pub(crate) reopen: Reopen,
}

impl Cluster {
    /// As [`Database::transaction`], on whichever replica leads: failover is waited for. A transaction that was under way at a leader that
    /// ended is [`Error::Unknown`].
    ///
    /// # Errors
    /// As there.
    pub fn transaction<R: Send + 'static>(
        &self,
        code: impl FnMut(&mut Tx<'_>) -> Result<R, Abort> + Send + 'static,
    ) -> Result<R, Error> {
        self.replicas.closure(None, code)
    }

    /// As [`Database::read`], on that replica.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If there is no such replica, as all methods that name one.
    pub fn read<R: Send + 'static>(
        &self,
        replica: usize,
        mut code: impl FnMut(&mut ReadTx<'_>) -> Result<R, Abort> + Send + 'static,
    ) -> Result<R, Error> {
        self.replicas.closure(Some(replica), move |tx| code(tx))
    }

    /// As [`Database::call`], on whichever replica leads.
    ///
    /// # Errors
    /// As there.
    pub fn call(&self, procedure: &str, args: &[u8]) -> Result<Vec<u8>, Error> {
        self.replicas.call(None, procedure, args)
    }

    /// How many replicas it has, running or not.
    pub fn replicas(&self) -> usize {
        self.replicas.count()
    }

    /// Who took the last transaction: the leader, if it still leads.
    pub fn leader(&self) -> usize {
        self.replicas.likely()
    }

    /// Where Redis clients find a replica; `None`: it does not run.
    pub fn resp_address(&self, replica: usize) -> Option<SocketAddr> {
        Some(self.replicas.get(replica)?.opened().node.resp_address())
    }

    /// Ends a replica at once, as a crash does. `false`: it did not run.
    pub fn kill(&self, replica: usize) -> bool {
        self.replicas.kill(replica)
    }

    /// Starts a replica again that was killed: from its disk, if it has one; else it copies the state from the others, and does not vote
    /// before it has: who kills another one meanwhile may be left without a majority. Nothing, if it runs.
    ///
    /// # Errors
    /// As [`Builder::cluster`].
    pub fn restart(&self, replica: usize) -> Result<(), OpenError> {
        if self.replicas.get(replica).is_none() {
            let opened = (self.reopen)(replica as u8)?;
            self.replicas.replace(replica, Some(Arc::new(Replica::new(opened))));
        }
        Ok(())
    }

    /// Ends all replicas in good order.
    ///
    /// # Errors
    /// If one did not end so: why.
    pub fn close(self) -> Result<(), OpenError> {
        Ok(self.replicas.close()?)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.replicas.close();
    }
}
