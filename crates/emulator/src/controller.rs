//! Drive controller: a serial server that handles one command at a time, at a cost per kind of command.

use zonal_base::Nanos;

/// FIFO server: handles one request after the other, in the order of arrival.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    free_at: Nanos,
}

impl Server {
    /// Queues a request that takes `cost`, and returns the time at which it is done.
    pub(crate) fn serve(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        self.free_at = self.free_at.max(now) + cost;
        self.free_at
    }

    /// Time at which all queued requests are done.
    pub(crate) const fn free_at(&self) -> Nanos {
        self.free_at
    }
}
