//! Next-access positions of a trace, for clairvoyant policies such as Belady's.

use super::replay::BATCH;
use super::spread::NumberMap;
use super::{NEVER, Op, Request, Trace, TraceError};

/// For each request of a trace, the position of the next read of the same object.
#[derive(Debug, Default)]
pub(super) struct Future {
    next: Vec<u32>,
}

impl Future {
    /// Reads the whole trace once. Takes four bytes per request, and some 30 per object meanwhile.
    pub(super) fn of(trace: &Trace, on_progress: &dyn Fn(f64)) -> Result<Self, TraceError> {
        let mut reader = trace.open()?;
        let (mut next, mut last) = (Vec::new(), NumberMap::default());
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            reader.batch(&mut batch, BATCH)?;
            if batch.is_empty() {
                return Ok(Self { next });
            }
            for Request { id, op, .. } in batch.iter().map(|request| request.as_object()) {
                let position = u32::try_from(next.len()).ok().filter(|at| *at != NEVER);
                let Some(position) = position else {
                    return Err(reader.error(format!(
                        "policies that know the future support traces of up to {NEVER} requests"
                    )));
                };
                next.push(NEVER);
                match op {
                    Op::Read => {
                        if let Some(last) = last.insert(id, position) {
                            next[zonal_base::index(u64::from(last))] = position;
                        }
                    }
                    Op::Invalidate => drop(last.remove(&id)),
                }
            }
            on_progress(reader.done());
        }
    }

    /// Sets the next positions in a batch that begins at `position`.
    pub(super) fn tell(&self, batch: &mut [Request], position: usize) {
        let known = self.next.get(position..).unwrap_or_default();
        for (request, next) in batch.iter_mut().zip(known) {
            request.next = *next;
        }
    }
}
