//! The controller: it takes one command at a time, and each kind costs it something else.

use zonal_base::Nanos;

/// Something that serves one after the other, in the order in which they come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    free_at: Nanos,
}

impl Server {
    /// Serves for `cost` as soon as everything before is served; says when that is done.
    pub(crate) fn serve(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        self.free_at = self.free_at.max(now) + cost;
        self.free_at
    }

    /// When everything that it was given is served.
    pub(crate) const fn free_at(&self) -> Nanos {
        self.free_at
    }
}
