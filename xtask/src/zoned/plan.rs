//! Plan: drives of a guest, and the suites that run on each.

use super::guest::Module;

/// A zoned drive of the guest.
pub(super) struct Drive {
    /// Name in tables and on command lines.
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) path: &'static str,
    /// Environment variables of the tests, besides the drive.
    pub(super) environment: &'static str,
}

/// A suite of tests on a drive.
pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) program: Program,
    /// Arguments that select its tests.
    pub(super) tests: &'static str,
    /// Drives that it runs on; empty: all. `contract` and `rules` test the differences between
    /// drives, and run on each. Other suites run where a drive is special: few zones, zones that
    /// fail, or conventional zones in front.
    pub(super) drives: &'static [&'static str],
    pub(super) needs: Needs,
}

/// Tools that a suite needs besides its program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// fio, if this machine has it.
    Fio,
    /// The kernel's NBD driver with its client, and tools that create and check file systems.
    FileSystems,
}

impl Suite {
    /// True if the suite runs on the drive.
    pub(super) fn is_for(&self, drive: &Drive) -> bool {
        self.drives.is_empty() || self.drives.contains(&drive.name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// Tests of `hostdev`.
    Devices,
    /// Tests of `zonal`.
    Binary,
    /// Tests of `zonal-lab`.
    Lab,
}

/// Size of each namespace's image: 64 zones of 4 MiB. Images are sparse.
pub(super) const IMAGE_BYTES: u64 = 256 << 20;

/// Options of every zoned namespace: zones of 4 MiB with a capacity of 3 MiB.
const NAMESPACE: &str = "bus=nvme0,logical_block_size=4096,physical_block_size=4096,zoned=on,\
                         zoned.zone_size=4M,zoned.zone_capacity=3M";

/// QEMU arguments of the drives that QEMU emulates.
pub(super) fn qemu_words() -> Vec<String> {
    namespaces(&[
        &format!("{NAMESPACE},zoned.max_open=14,zoned.max_active=14"),
        "bus=nvme0",
        &format!("{NAMESPACE},zoned.max_open=6,zoned.max_active=14"),
        &format!("{NAMESPACE},zoned.max_open=10,zoned.max_active=14"),
    ])
}

/// Namespaces of a controller `nvme0`, each with an image: `drive1` and so on.
pub(super) fn namespaces(namespaces: &[&str]) -> Vec<String> {
    let mut words = vec!["-device".to_owned(), "nvme,serial=zonal,id=nvme0".to_owned()];
    for (number, namespace) in (1..).zip(namespaces) {
        words.push("-drive".to_owned());
        words.push(format!(
            "file=drive{number},if=none,id=d{number},format=raw,cache=unsafe,aio=threads"
        ));
        words.push("-device".to_owned());
        words.push(format!("nvme-ns,drive=d{number},nsid={number},{namespace}"));
    }
    words
}

pub(super) const IMAGES: [&str; 4] = ["drive1", "drive2", "drive3", "drive4"];

/// Modules of the guest's kernel: scheduler, null_blk and encryption. [`PREPARE`] configures them.
pub(super) const MODULES: [Module; 8] = [
    ("mq-deadline", ""),
    ("dm-crypt", ""),
    ("aesni-intel", ""),
    ("xts", ""),
    ("algif_skcipher", ""),
    ("null_blk", "nr_devices=0"),
    ("sd_mod", ""),
    (
        "scsi_debug",
        "zbc=host-managed zone_size_mb=4 zone_cap_mb=3 zone_nr_conv=4 dev_size_mb=256 sector_size=4096 \
         zone_max_open=8 delay=0",
    ),
];

/// Modules of [`Needs::FileSystems`]; ext4 is built into the kernel.
pub(super) const FILE_SYSTEMS: [Module; 2] = [("nbd", "nbds_max=1"), ("xfs", "")];

/// Creates two null_blk drives: one with zones that can fail, and one with conventional zones in
/// front. Then waits for all drives, names the namespaces by their kind, because their numbers
/// depend on the order of detection, and encrypts one as docs/operations/encryption.md does.
pub(super) const PREPARE: &str = "
mount -t configfs none /sys/kernel/config
null_blk() {
  mkdir /sys/kernel/config/nullb/$1 && cd /sys/kernel/config/nullb/$1 || return
  for setting in blocksize=4096 zoned=1 zone_size=4 zone_capacity=3 size=128 memory_backed=1 $2; do
    echo ${setting#*=} > ${setting%=*}
  done
  echo 1 > power
  cd /
}
null_blk nb0 'zone_max_open=8 zone_max_active=8'
null_blk nb1 zone_nr_conv=5
# Kernels before 6.3 do not take zones away.
[ -e /sys/kernel/config/nullb/nb0/zone_offline ] && take=ZONAL_TEST_NULL_BLK=/sys/kernel/config/nullb/nb0
for wait in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/nvme0n4 ] && [ -b /dev/sda ] && break; sleep 1; done
for queue in /sys/block/nvme*/queue; do
  name=${queue%/queue}
  ln -s ${name##*/} /dev/$(cat $queue/zoned)-$(cat $queue/max_open_zones 2>/dev/null)
done
for queue in /sys/block/*/queue; do
  [ $(cat $queue/zoned) = none ] || echo mq-deadline > $queue/scheduler
done
dd if=/dev/urandom of=/run/key bs=64 count=1 2>/dev/null
cryptsetup luksFormat --batch-mode --type luks2 --sector-size 4096 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \\
  --header /run/header --key-file /run/key /dev/host-managed-10
cryptsetup open --persistent --perf-no_read_workqueue --perf-no_write_workqueue \\
  --header /run/header --key-file /run/key /dev/host-managed-10 zonal
";

pub(super) const DRIVES: [Drive; 7] = [
    Drive {
        name: "zns",
        what: "NVMe ZNS in QEMU, 14 active zones of which all may be open",
        path: "/dev/host-managed-14",
        environment: "ZONAL_TEST_PLAIN_DEVICE=/dev/none-",
    },
    Drive {
        name: "zns-append",
        what: "the same, written by NVMe commands of its own (`append=on`)",
        path: "/dev/host-managed-14",
        environment: "ZONAL_TEST_ZONED_OPTIONS=append=on",
    },
    Drive {
        name: "zns-6-open",
        what: "NVMe ZNS in QEMU, 14 active zones of which 6 may be open",
        path: "/dev/host-managed-6",
        environment: "",
    },
    Drive {
        name: "encrypted",
        what: "dm-crypt (LUKS2 with a detached header) over NVMe ZNS in QEMU, 10 of 14 active zones open",
        path: "/dev/mapper/zonal",
        environment: "",
    },
    Drive {
        name: "null_blk",
        what: "null_blk, 8 active zones of which all may be open; under 6.12 its zones go offline and read-only, too",
        path: "/dev/nb0",
        environment: "$take",
    },
    Drive {
        name: "mixed",
        what: "null_blk without limits, behind 5 conventional zones",
        path: "/dev/nb1",
        environment: "",
    },
    Drive {
        name: "smr",
        what: "host-managed SMR (scsi_debug), 8 open zones, behind 4 conventional ones",
        path: "/dev/sda",
        environment: "",
    },
];

pub(super) const SUITES: [Suite; 7] = [
    Suite {
        name: "contract",
        what: "the conformance suite of all devices: whole and one of two shards, io_uring and threads, each scheduler",
        program: Program::Devices,
        tests: "zoned::tests::a_zoned_drive_keeps zoned::tests::so_does_each",
        drives: &[],
        needs: Needs::Nothing,
    },
    Suite {
        name: "rules",
        what: "limits, failed writes, zones that others change or that go away, restarts, refusals",
        program: Program::Devices,
        tests: "zoned::tests:: --skip a_zoned_drive_keeps --skip so_does_each",
        drives: &[],
        needs: Needs::Nothing,
    },
    Suite {
        name: "crash",
        what: "`zonal serve` under traffic, killed and recovered; every answer checked",
        program: Program::Binary,
        tests: "crash::so_does_one_on_a_zoned_drive",
        drives: &["zns", "smr"],
        needs: Needs::Nothing,
    },
    Suite {
        name: "cache",
        what: "`zonal serve`, `device info` and `format`, `inspect`; zones that go away under a cache",
        program: Program::Binary,
        tests: "zoned:: --skip block::",
        drives: &["zns", "zns-6-open", "encrypted", "null_blk", "smr"],
        needs: Needs::Nothing,
    },
    Suite {
        name: "block",
        what: "`zonal block` with its capacity there: killed under writes and trims, and written by fio until zones are collected; every block checked",
        program: Program::Binary,
        tests: "block::zoned::",
        drives: &["zns", "zns-append", "smr"],
        needs: Needs::Fio,
    },
    Suite {
        name: "linux",
        what: "ext4 and XFS of the guest's own kernel on that, over its NBD driver: filled, trimmed, checked by their own tools, also after `kill -9`",
        program: Program::Binary,
        tests: "block::linux::",
        drives: &["zns"],
        needs: Needs::FileSystems,
    },
    Suite {
        name: "cost",
        what: "`zonal-lab characterize`: opening and closing of zones, first and later writes and appends",
        program: Program::Lab,
        tests: "characterize::a_zoned_drive",
        drives: &["zns-append"],
        needs: Needs::Nothing,
    },
];
