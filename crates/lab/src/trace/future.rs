//! What comes next, for those who may know it.

use super::replay::BATCH;
use super::spread::NumberMap;
use super::{NEVER, Op, Request, Trace, TraceError};

/// For each request of a trace, when the same object is read next.
#[derive(Debug, Default)]
pub(super) struct Future {
    next: Vec<u32>,
}

impl Future {
    /// Reads the trace once. It takes four bytes for each request, and some 30 for each object meanwhile.
    pub(super) fn of(trace: &Trace, on_progress: &dyn Fn(f64)) -> Result<Self, TraceError> {
        let mut reader = trace.open()?;
        let (mut next, mut last) = (Vec::new(), NumberMap::default());
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            reader.batch(&mut batch, BATCH)?;
            if batch.is_empty() {
                return Ok(Self { next });
            }
            for Request { id, op, .. } in &batch {
                let position = u32::try_from(next.len()).ok().filter(|at| *at != NEVER);
                let Some(position) = position else {
                    return Err(reader.error(format!(
                        "policies that know the future take traces of up to {NEVER} requests"
                    )));
                };
                next.push(NEVER);
                match op {
                    Op::Read => {
                        if let Some(last) = last.insert(*id, position) {
                            next[zonal_base::index(u64::from(last))] = position;
                        }
                    }
                    Op::Invalidate => drop(last.remove(id)),
                }
            }
            on_progress(reader.done());
        }
    }

    /// Writes into a batch that begins at this position what comes next.
    pub(super) fn tell(&self, batch: &mut [Request], position: usize) {
        let known = self.next.get(position..).unwrap_or_default();
        for (request, next) in batch.iter_mut().zip(known) {
            request.next = *next;
        }
    }
}
