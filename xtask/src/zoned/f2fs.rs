//! F2FS as a peer: a cache on a file of F2FS on a ZNS drive, compared with a cache on the drive
//! itself.
//!
//! 1. Boot a kernel with F2FS, with a ZNS drive and a conventional one for the metadata of F2FS.
//! 2. Run the same workload twice: on a file that takes nearly all space of F2FS, and on the same
//!    drive directly.
//! 3. Compare per round the bytes that the cache wrote, by its own count, with the bytes that the
//!    drives received, by the kernel's count. Write docs/results/f2fs.md.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::guest::{Guest, MARK, Module};
use super::{built, kernel, make_images, plan, program, tools, write_page};

const PATH: &str = "docs/results/f2fs.md";

/// Time limit: five times what it takes on two idle processors.
const LIMIT: Duration = Duration::from_secs(90 * 60);

/// F2FS loads crc32 by name, which its module does not list as a dependency.
const MODULES: [Module; 4] =
    [("nvme", ""), ("mq-deadline", ""), ("crc32_generic", ""), ("f2fs", "")];

const ZONES: u64 = 128;
const ZONE_SIZE_MIB: u64 = 8;
const ZONE_CAPACITY_MIB: u64 = 6;

/// Capacity of the zones, in MiB.
const USABLE_MIB: u64 = ZONES * ZONE_CAPACITY_MIB;

/// Size of the conventional drive, in MiB: the metadata of F2FS fill it, so that data go to the
/// zones.
const PLAIN_MIB: u64 = 64;

/// Unit that a cache on a file overwrites at once, in MiB: the smallest that it accepts.
const REGION_MIB: u64 = 2;

/// Size of the file, in percent of the free space that F2FS reports. With 95, F2FS cleans so much
/// that each byte written costs ten.
const SHARE: u64 = 80;

/// Keys of the workload, as a multiple of the values that the file holds.
const KEYS: u64 = 8;

/// Read-through workload with zipf keys.
const WORKLOAD: &str = "--shards 1 --chunk 64KiB --value 64KiB --dist zipf:0.9 --policy zone-lru --tasks 8 \
                        --warmup-seconds 0 --seconds 30 --segments 1 --json";

/// Default number of times that the cache overwrites its capacity. The first half is warm-up: by
/// then F2FS has been cleaning for a while.
const TIMES: u64 = 4;

/// Waits for the drives, and names them by their kind. Then runs rounds of the workload, and prints
/// for each: bytes that the cache wrote, sectors that both drives received (the seventh word of
/// `stat`), blocks that F2FS has moved, and the hit ratio.
const SCRIPT: &str = r#"
for wait in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/nvme0n1 ] && [ -b /dev/nvme0n2 ] && break; sleep 1; done
for queue in /sys/block/nvme*/queue; do
  name=${queue%/queue}; name=${name##*/}
  case $(cat $queue/zoned) in
    host-managed) zoned=$name; echo mq-deadline > $queue/scheduler;;
    *) plain=$name;;
  esac
done
given() { set -- $(cat /sys/block/$1/stat); echo $(($7 * 512)); }
moved() { cat /sys/fs/f2fs/*/moved_blocks_foreground /sys/fs/f2fs/*/moved_blocks_background 2>/dev/null | awk '{ sum += $1 } END { print sum + 0 }'; }
told() { tr ',{}' '\n' < /run/report | sed -n "s/^ *\"$1\": *\([0-9.]*\).*/\1/p" | head -n 1; }
rounds() {
  total=0; flags='--format --prefill-seconds 1800 --prefill-rate max'
  while [ $((total >> 20)) -lt $((TIMES * $3)) ]; do
    sync; zoned_before=$(given $zoned); plain_before=$(given $plain)
    ZONAL bench --device "$2" --keys $((KEYS * size * 16)) WORKLOAD $flags > /run/report 2> /run/errors || { cat /run/errors; return; }
    sync
    wrote=$(told device_written_bytes_since_open)
    echo "MARK round $1 $wrote $(($(given $zoned) - zoned_before)) $(($(given $plain) - plain_before)) $(moved) $(told hit_ratio)"
    [ "${wrote:-0}" -gt 0 ] || return
    total=$((total + wrote)); flags='--prefill-seconds 0'
  done
}
mkdir /run/f2fs
mkfs.f2fs -f -m -c /dev/$zoned /dev/$plain && mount -t f2fs /dev/$plain /run/f2fs && {
  size=$(($(df -m /run/f2fs | awk 'END { print $4 }') * SHARE / 100))
  df -m /run/f2fs
  echo "MARK file $size"
  rounds f2fs "file:/run/f2fs/cache?size=${size}MiB&zone=REGIONMiB" $size
  df -m /run/f2fs
  umount /run/f2fs
  ZONAL device format zns:/dev/$zoned --yes --shards 1 && rounds zones zns:/dev/$zoned USABLE
}
"#;

/// Boots the guest, prints the result, and writes the page.
pub(crate) fn compare(root: &Path, words: &[&str]) -> ExitCode {
    let times = match words {
        [] => Some(TIMES),
        [times] => times.parse().ok().filter(|times| *times >= 2),
        _ => None,
    };
    let Some(times) = times else {
        eprintln!("write how often the cache is to write what it holds: 2 or more");
        return ExitCode::from(2);
    };
    if let Err(why) = super::ready(root) {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    // Read first, because the checkout may change during the run.
    let commit = crate::commit(root);
    let page = measure(root, times).and_then(|(kernel, told)| told.page(&kernel, &commit));
    match page {
        Ok(text) => {
            println!("\n{text}");
            crate::exit_code(write_page(root, PATH, &text))
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the guest. Returns the kernel's name and the guest's output.
fn measure(root: &Path, times: u64) -> Result<(String, Told), String> {
    let kernel = kernel::kernel(root, &kernel::WHOLE)?;
    let folder = root.join("target/zoned/f2fs");
    let images = [("drive1", (ZONES * ZONE_SIZE_MIB) << 20), ("drive2", PLAIN_MIB << 20)];
    make_images(&folder, &images)?;
    let zonal = zonal(root)?;
    let blocks = "bus=nvme0,logical_block_size=4096,physical_block_size=4096";
    let zoned = format!(
        "{blocks},zoned=on,zoned.zone_size={ZONE_SIZE_MIB}M,zoned.zone_capacity={ZONE_CAPACITY_MIB}M,\
         zoned.max_open=14,zoned.max_active=14"
    );
    let guest = Guest {
        kernel: &kernel,
        busybox: &kernel::busybox(root)?,
        modules: &MODULES,
        script: script(&zonal, times),
        programs: std::slice::from_ref(&zonal),
        carried: &tools::F2FS.carried(root)?,
        folders: &[],
        drives: plan::namespaces(&[&zoned, blocks]),
    };
    println!("kernel {}", kernel.release);
    let mut told = Told { times, ..Told::default() };
    guest.run(&folder, LIMIT, &mut |line, processor| {
        println!("{:>5} s| {line}", processor.as_secs());
        told.hear(line);
    })?;
    for (image, _) in images {
        // They take space, and the next run creates its own.
        let _ = fs::remove_file(folder.join(image));
    }
    Ok((kernel.release, told))
}

/// Binary that cargo has built beside the tests: a test program is in `deps`, below it.
fn zonal(root: &Path) -> Result<PathBuf, String> {
    let test = program(&built(root)?, "binary").ok_or("cargo does not say where the tests are")?;
    let profile = test.parent().and_then(Path::parent).ok_or("the tests lie nowhere")?;
    Ok(profile.join("zonal"))
}

fn script(zonal: &Path, times: u64) -> String {
    let words = [
        ("WORKLOAD", WORKLOAD.to_owned()),
        ("TIMES", times.to_string()),
        ("SHARE", SHARE.to_string()),
        ("USABLE", USABLE_MIB.to_string()),
        ("REGION", REGION_MIB.to_string()),
        ("KEYS", KEYS.to_string()),
        ("MARK", MARK.to_owned()),
        ("ZONAL", zonal.display().to_string()),
    ];
    words.iter().fold(SCRIPT.to_owned(), |script, (word, text)| script.replace(word, text))
}

/// Output of the guest.
#[derive(Default)]
struct Told {
    /// Number of times that each cache overwrites its capacity.
    times: u64,
    file_mib: u64,
    f2fs: Vec<Round>,
    zones: Vec<Round>,
}

/// A round of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Round {
    /// Bytes written, by the cache's own count.
    wrote: u64,
    /// Bytes that the zoned drive received, by the kernel's count.
    zoned: u64,
    /// Bytes that the conventional drive received.
    plain: u64,
    /// Blocks of 4 KiB that F2FS has moved since it was mounted.
    moved: u64,
    /// Hit ratio of the gets.
    hit_ratio: f64,
}

impl Round {
    fn of(words: &[&str]) -> Option<Self> {
        let [wrote, zoned, plain, moved, hit_ratio] = words else { return None };
        Some(Self {
            wrote: wrote.parse().ok()?,
            zoned: zoned.parse().ok()?,
            plain: plain.parse().ok()?,
            moved: moved.parse().ok()?,
            hit_ratio: hit_ratio.parse().ok()?,
        })
    }
}

/// Consecutive rounds.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    wrote: u64,
    zoned: u64,
    plain: u64,
    moved: u64,
    /// Of the last round.
    hit_ratio: f64,
}

impl Sum {
    /// Requires: `before` blocks had been moved when the first round began.
    fn of(rounds: &[Round], before: u64) -> Self {
        let sum = |of: fn(&Round) -> u64| rounds.iter().map(of).sum();
        let last = rounds.last().copied().unwrap_or_default();
        Self {
            wrote: sum(|round| round.wrote),
            zoned: sum(|round| round.zoned),
            plain: sum(|round| round.plain),
            moved: last.moved.saturating_sub(before),
            hit_ratio: last.hit_ratio,
        }
    }

    fn row(&self, title: &str, span: &str) -> String {
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        let each = |bytes: u64| bytes as f64 / self.wrote.max(1) as f64;
        let cells = [
            title.to_owned(),
            span.to_owned(),
            mib(self.wrote),
            mib(self.zoned),
            mib(self.plain),
            mib(self.moved << 12),
            format!("{:.2}", each(self.zoned)),
            format!("{:.2}", each(self.zoned + self.plain)),
            format!("{:.1} %", 100.0 * self.hit_ratio),
        ];
        format!("| {} |\n", cells.join(" | "))
    }
}

impl Told {
    fn hear(&mut self, line: &str) {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [MARK, "file", mib] => self.file_mib = mib.parse().unwrap_or(0),
            [MARK, "round", "f2fs", ref words @ ..] => self.f2fs.extend(Round::of(words)),
            [MARK, "round", "zones", ref words @ ..] => self.zones.extend(Round::of(words)),
            _ => (),
        }
    }

    /// Splits the rounds: warm-up until half of the bytes are written, and the rest.
    ///
    /// # Errors
    /// The cache did not write that much.
    fn split(&self, rounds: &[Round], holds_mib: u64) -> Result<(Sum, Sum), String> {
        let bytes = holds_mib << 20;
        let mut wrote = 0;
        let is_early = |round: &&Round| {
            let began = wrote;
            wrote += round.wrote;
            2 * began < self.times * bytes
        };
        let early = rounds.iter().take_while(is_early).count();
        let moved = rounds[..early].last().map_or(0, |round| round.moved);
        let whole: u64 = rounds.iter().map(|round| round.wrote).sum();
        if whole < self.times * bytes || bytes == 0 || early == rounds.len() {
            return Err(format!("the cache wrote {} MiB and no more", whole >> 20));
        }
        Ok((Sum::of(&rounds[..early], 0), Sum::of(&rounds[early..], moved)))
    }

    fn table(&self) -> Result<String, String> {
        let mut text = String::from(
            "| a cache on | while | it wrote | the zoned drive was given | the drive beside it | F2FS moved | given for each byte, zoned drive | \
             both | hits at the end |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        let caches =
            [("a file of F2FS", &self.f2fs, self.file_mib), ("the zones", &self.zones, USABLE_MIB)];
        for (title, rounds, holds_mib) in caches {
            let (early, late) = self.split(rounds, holds_mib)?;
            text += &early.row(title, "it filled, and went on");
            text += &late.row(title, "afterwards");
        }
        Ok(text)
    }

    fn page(&self, kernel: &str, commit: &str) -> Result<String, String> {
        let (file, usable) = (self.file_mib, USABLE_MIB);
        let mut text = format!(
            "# A cache on zoned F2FS, beside one on the zones\n\n\
             Written by `cargo xtask zoned-f2fs {}` (see `make zoned-f2fs`) from commit {commit}, under Linux {kernel} in QEMU: a ZNS namespace of {ZONES} zones of \
             {ZONE_SIZE_MIB} MiB, of which {ZONE_CAPACITY_MIB} can be written, 14 of them active, and a plain namespace of {PLAIN_MIB} MiB, which F2FS needs for \
             its metadata. It is the baseline \"ZNS-F2FS\" of a published study of caches on zones ([papers.md](papers.md)), with our cache in place of CacheLib.\n\n",
            self.times
        );
        let _ = write!(
            text,
            "- **A file of F2FS**: `mkfs.f2fs -m -c` as it comes, and a cache on a file of {file} MiB, {SHARE} % of what F2FS says is free and {} % of the {usable} MiB \
             that the zones hold; regions of {REGION_MIB} MiB, of which the one that was read longest ago is written over.\n\
             - **The zones**: the same namespace as `zns:`, all {usable} MiB of it, a zone in place of a region.\n\
             - **The workload**: `zonal-lab bench {WORKLOAD}`, the same keys on both: {KEYS} times what the file holds. Filled first; then rounds of half a minute until \
             the cache has written {} times what it holds, each with a cache that is opened again.\n\
             - **What is counted**: bytes that the cache wrote by its own count (`device_written_bytes_since_open`), and sectors that the kernel gave the drives \
             meanwhile (`/sys/block/*/stat`), after a `sync`: F2FS's data, nodes, cleaning and checkpoints.\n\n",
            100 * file / usable,
            self.times
        );
        text += &self.table()?;
        text += &format!(
            "\n## What is not concluded\n\n\
             - **Nothing about speed.** The processor is emulated, and so is the drive.\n\
             - **Not what F2FS costs on a large drive.** {ZONES} zones are few for a file system that keeps six of them open and reserves some for cleaning: here \
             the file takes {} % of the zones, in the study 93 % of 904 zones of 1077 MiB. More spare room means less cleaning, so a large drive that \
             is as full may amplify more; and a zone is {} regions here and 67 there, which changes how mixed a zone is.\n\
             - **Not the study's figures** (2.1 to 2.8 bytes for each): its workloads, its sizes, its regions of 16 MiB and its kernel are others.\n\
             - **Nothing about other policies on the file**: one that writes its regions over in turn leaves whole zones behind, and F2FS little to move.\n\
             - **Nothing below the drive**: a ZNS drive moves nothing by itself, and QEMU's has no flash.\n",
            100 * file / usable,
            ZONE_CAPACITY_MIB / REGION_MIB
        );
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_count_from_when_the_file_has_been_written_twice() {
        let mut told = Told { times: 4, ..Told::default() };
        told.hear("@@ file 1");
        for line in ["2097152 2097152 4096 0 0.5", "2097152 5242880 0 512 0.625"] {
            told.hear(&format!("@@ round f2fs {line}"));
        }
        told.hear("@@ round zones 1048576 1048576 0 0 0.5");
        told.hear("@@ round zones and nothing more");
        let (early, late) = told.split(&told.f2fs, told.file_mib).unwrap();
        let expected =
            Sum { wrote: 2 << 20, zoned: 2 << 20, plain: 4096, moved: 0, hit_ratio: 0.5 };
        assert_eq!(early, expected);
        let expected =
            Sum { wrote: 2 << 20, zoned: 5 << 20, plain: 0, moved: 512, hit_ratio: 0.625 };
        assert_eq!(late, expected);
        let row =
            "| a file | afterwards | 2 MiB | 5 MiB | 0 MiB | 2 MiB | 2.50 | 2.50 | 62.5 % |\n";
        assert_eq!(late.row("a file", "afterwards"), row);
        let short = told.split(&told.zones, 1);
        assert_eq!(short, Err("the cache wrote 1 MiB and no more".into()));
    }

    #[test]
    fn the_script_has_no_word_left_to_fill_in() {
        let script = script(Path::new("/z"), 4);
        let left = script.split(|c: char| !c.is_ascii_uppercase()).find(|word| 3 < word.len());
        assert_eq!(left, None, "{script}");
    }
}
