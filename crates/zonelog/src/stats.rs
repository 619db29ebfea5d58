//! Counters of a log. They only grow; ratios are for the reader to compute.

/// Counters of one log since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes of records appended by the fill stream. Denominator of write amplification.
    pub appended_bytes: u64,
    /// Bytes of records that reclaim rewrote.
    pub rewritten_bytes: u64,
    /// Rewrites refused because no zone had room, tombstones included.
    pub rewrites_refused: u64,
    /// Bytes written to the device: headers, padding, footers and marks included. Numerator of
    /// write amplification.
    pub device_written_bytes: u64,
    /// Segments written. `appended_bytes` over it is the mean fill of a segment.
    pub segments: u64,
    /// Segments written before they were full, because their linger time ran out.
    pub segments_lingered: u64,
    /// Bytes read from the device for records. Numerator of read amplification; the denominator is
    /// the bytes that readers got.
    pub device_read_bytes: u64,
    /// Tombstones written, rewrites by reclaim included.
    pub tombstones: u64,
    /// Zones reset.
    pub zones_reset: u64,
    /// Appends that waited for reclaim because no empty zone was left for their stream.
    pub foreground_waits: u64,
    /// Failed writes of segments, footers and marks. A failed segment loses its records.
    pub write_errors: u64,
    /// Failed reads of records. Timeouts are excluded: the device wrapper that gives a read up
    /// counts them.
    pub read_errors: u64,
    /// Zones with blocks that could not be read when the log was opened.
    pub zones_unreadable: u64,
    /// Starts that found zones lost, so that all records are suspect.
    pub losses: u64,
    /// Reads that failed because the checksum of a granule did not match.
    pub check_errors: u64,
}
