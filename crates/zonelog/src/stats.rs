//! Counters of a log. They only grow; readers form ratios.

/// Counters of one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes of records appended by the fill stream. Denominator of write amplification.
    pub appended_bytes: u64,
    /// Bytes of records that reclaim kept and wrote again.
    pub rewritten_bytes: u64,
    /// Records that reclaim wanted to keep and had no room for.
    pub rewrites_refused: u64,
    /// Bytes sent to the device: headers, padding, footers and marks included. Numerator of write
    /// amplification.
    pub device_written_bytes: u64,
    /// Segments written. `appended_bytes` over it is the mean fill of a segment.
    pub segments: u64,
    /// Segments that were written before they were full because their first record had waited long enough.
    pub segments_lingered: u64,
    /// Bytes asked of the device by reads of records. Denominator: bytes handed out.
    pub device_read_bytes: u64,
    /// Tombstones written, repeats by reclaim included.
    pub tombstones: u64,
    /// Zones emptied.
    pub zones_reset: u64,
    /// Times that an append found no empty zone and waited for reclaim.
    pub foreground_waits: u64,
    /// Writes that the device failed; each loses its segment.
    pub write_errors: u64,
    /// Reads that the device failed.
    pub read_errors: u64,
    /// Zones of which something could not be read when the log was opened.
    pub zones_unreadable: u64,
    /// Granules whose check did not fit.
    pub check_errors: u64,
}
