//! NBD export: a volume with its name and counters.

use std::time::Instant;

use bytes::Bytes;
use zonal_base::LatencyHistogram;

use crate::handshake::Offer;
use crate::read_modify_write::ByteVolume;
use crate::reply::RequestOutcome;
use crate::request::{EXTENTS_MAX, NbdCommand, Request};
use crate::stats::{Counts, ExportLatencies, ExportStats};
use crate::volume::{Volume, VolumeError};

/// A volume that clients select by name.
#[derive(Debug)]
pub struct Export<V> {
    name: String,
    description: String,
    volume: ByteVolume<V>,
    counts: Counts,
}

impl<V: Volume> Export<V> {
    /// Creates an export. The name may be empty. The description is for people who list exports.
    #[must_use]
    pub fn new(name: String, description: String, volume: V) -> Self {
        Self { name, description, volume: ByteVolume::new(volume), counts: Counts::default() }
    }

    /// Name on the network.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The volume behind the export.
    #[must_use]
    pub const fn volume(&self) -> &V {
        self.volume.volume()
    }

    /// Counters of the export.
    #[must_use]
    pub fn stats(&self) -> ExportStats {
        self.counts.snapshot()
    }

    /// Latencies of the export's requests.
    #[must_use]
    pub const fn latencies(&self) -> &ExportLatencies {
        &self.counts.latencies
    }

    pub(crate) const fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn size(&self) -> zonal_base::Bytes {
        self.volume().blocks().bytes()
    }

    pub(crate) fn offer(&self) -> Offer {
        let (name, description) = (self.name.clone(), self.description.clone());
        Offer { name, description, size: self.size().0 }
    }

    /// Runs a request. `data` is the payload of a write.
    pub(crate) async fn carry_out(&self, request: &Request, data: Bytes) -> RequestOutcome {
        let arrived_at = Instant::now();
        let outcome = self.ask(request, data).await;
        let counts = &self.counts;
        let (count, bytes) = match (&outcome, request.command) {
            (Err(_), _) => (&counts.failures, None),
            (Ok(_), NbdCommand::Read { .. }) => (&counts.reads, Some(&counts.read_bytes)),
            (Ok(_), NbdCommand::Write(_)) => (&counts.writes, Some(&counts.written_bytes)),
            (Ok(_), NbdCommand::Clear(_)) => (&counts.clears, Some(&counts.cleared_bytes)),
            (Ok(_), NbdCommand::Flush) => (&counts.flushes, None),
            (Ok(_), NbdCommand::Status { .. }) => (&counts.statuses, None),
        };
        count.add(1);
        if let (Ok(_), Some(latency)) = (&outcome, self.latency(request.command)) {
            latency.record(arrived_at.elapsed().into());
        }
        if let Some(bytes) = bytes {
            bytes.add(request.length.into());
        }
        outcome.unwrap_or_else(RequestOutcome::Failed)
    }

    const fn latency(&self, command: NbdCommand) -> Option<&LatencyHistogram> {
        let latencies = self.latencies();
        match command {
            NbdCommand::Read { .. } => Some(&latencies.reads),
            NbdCommand::Write(_) => Some(&latencies.writes),
            NbdCommand::Clear(_) => Some(&latencies.clears),
            NbdCommand::Flush => Some(&latencies.flushes),
            NbdCommand::Status { .. } => None,
        }
    }

    async fn ask(&self, request: &Request, data: Bytes) -> Result<RequestOutcome, VolumeError> {
        let volume = &self.volume;
        let bytes = request.offset..request.offset + u64::from(request.length);
        match request.command {
            NbdCommand::Read { .. } if bytes.is_empty() => {}
            NbdCommand::Read { .. } => return volume.read(bytes).await.map(RequestOutcome::Read),
            NbdCommand::Write(ack) => volume.write(bytes.start, data, ack).await?,
            NbdCommand::Clear(ack) => volume.clear(bytes, ack).await?,
            NbdCommand::Flush => volume.flush().await?,
            NbdCommand::Status { one } => {
                let extents_max = if one { 1 } else { EXTENTS_MAX };
                return volume.status(bytes, extents_max).await.map(RequestOutcome::Status);
            }
        }
        Ok(RequestOutcome::Done)
    }
}
