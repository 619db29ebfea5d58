//! Jobs in a file: its keys, and the experiments that they make.

use serde::Deserialize;
use zonal_base::Bytes;

use super::several::{Several, Text, only, spread};
use crate::experiment::Drive;
use crate::jobs::{Buffer, Jobs, WriteOrder};

/// Keys of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Raw {
    pub(super) title: String,
    jobs: Several<u64>,
    #[serde(default = "four_kib")]
    write: Several<Text<Bytes>>,
    #[serde(default = "uniform")]
    workload: Several<Text<WriteOrder>>,
    #[serde(default = "large_reads")]
    read: Several<Text<Bytes>>,
    #[serde(default = "nothing")]
    read_rate: Several<Text<Bytes>>,
    #[serde(default = "depth")]
    depth: Several<u64>,
    #[serde(default = "alone")]
    buffer: Several<Text<Buffer>>,
    drive: Several<Text<Drive>>,
    #[serde(default = "a_tenth")]
    spare_percent: Several<u8>,
    smaller: Several<u64>,
    #[serde(default = "first_seed")]
    seed: Several<u64>,
}

fn four_kib() -> Several<Text<Bytes>> {
    only(Text(Bytes::kib(4)))
}

fn uniform() -> Several<Text<WriteOrder>> {
    only(Text(WriteOrder::Uniform))
}

fn large_reads() -> Several<Text<Bytes>> {
    only(Text(Bytes::kib(64)))
}

fn nothing() -> Several<Text<Bytes>> {
    only(Text(Bytes(0)))
}

fn depth() -> Several<u64> {
    only(32)
}

fn alone() -> Several<Text<Buffer>> {
    only(Text(Buffer::None))
}

fn a_tenth() -> Several<u8> {
    only(10)
}

fn first_seed() -> Several<u64> {
    only(1)
}

impl Raw {
    /// Every combination, in the order of the keys.
    pub(super) fn combinations(&self) -> Vec<Jobs> {
        let mut all = vec![Jobs {
            jobs: self.jobs.0[0],
            write: self.write.0[0].0,
            order: self.workload.0[0].0,
            read: self.read.0[0].0,
            read_rate: self.read_rate.0[0].0,
            depth: self.depth.0[0],
            buffer: self.buffer.0[0].0,
            drive: self.drive.0[0].0,
            spare_percent: self.spare_percent.0[0],
            smaller: self.smaller.0[0],
            seed: self.seed.0[0],
        }];
        spread(&mut all, &self.jobs, |one, jobs| one.jobs = *jobs);
        spread(&mut all, &self.write, |one, write| one.write = write.0);
        spread(&mut all, &self.workload, |one, order| one.order = order.0);
        spread(&mut all, &self.read, |one, read| one.read = read.0);
        spread(&mut all, &self.read_rate, |one, rate| one.read_rate = rate.0);
        spread(&mut all, &self.depth, |one, depth| one.depth = *depth);
        spread(&mut all, &self.buffer, |one, buffer| one.buffer = buffer.0);
        spread(&mut all, &self.drive, |one, drive| one.drive = drive.0);
        spread(&mut all, &self.spare_percent, |one, percent| one.spare_percent = *percent);
        spread(&mut all, &self.smaller, |one, smaller| one.smaller = *smaller);
        spread(&mut all, &self.seed, |one, seed| one.seed = *seed);
        // In a list of buffers, those without a buffer or with a write-back cache are left out for
        // a zoned drive.
        all.retain(|one| self.buffer.0.len() == 1 || one.can_be_written());
        all
    }
}
