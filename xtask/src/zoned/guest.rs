//! Virtual machine with zoned drives, which runs a script and reports the results.
//!
//! 1. Its root file system is an archive in memory: a shell, modules, and our programs with their
//!    libraries, at the same paths as here because some programs know them.
//! 2. QEMU emulates the processor, so that it runs on any machine, some ten times slower than the
//!    machine itself.
//! 3. Output comes over the serial line. Lines that begin with [`MARK`] are results.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::archive::Archive;
use super::kernel::Kernel;
use crate::setup::run_quietly;

/// Prefix of result lines.
pub(super) const MARK: &str = "@@";

/// Last result line. Without it, the kernel crashed or stopped early.
const END: &str = "@@ end of all";

/// QEMU options. The processor lacks features that version 7.2 gets wrong: its cmpxchg16b crashes
/// kernels early, and its five-level page tables and clocks cost time.
const MACHINE: &[&str] = &[
    "-M",
    "q35",
    "-accel",
    "tcg,thread=multi",
    "-cpu",
    "max,-cx16,-la57",
    "-smp",
    "1",
    "-m",
    "3072",
    "-nodefaults",
    "-no-user-config",
    "-display",
    "none",
    "-no-reboot",
    "-serial",
    "stdio",
];

/// Kernel command line: minimal, with a clock that does not depend on the load of this machine.
const WORDS: &str = "console=ttyS0 quiet loglevel=1 panic=-1 mitigations=off nokaslr clocksource=acpi_pm tsc=unstable \
                     no_timer_check random.trust_cpu=on audit=0 apparmor=0 selinux=0 cryptomgr.notests";

/// A kernel module, and its parameters.
pub(super) type Module = (&'static str, &'static str);

/// A file of this machine, and its path in the guest.
pub(super) struct Carried {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
}

/// Parts of a guest.
pub(super) struct Guest<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) busybox: &'a Path,
    /// Modules loaded at the start, with their parameters.
    pub(super) modules: &'a [Module],
    /// Script, started after the kernel's file systems are mounted.
    pub(super) script: String,
    /// Programs that the script runs.
    pub(super) programs: &'a [PathBuf],
    /// Further files.
    pub(super) carried: &'a [Carried],
    /// Working folders.
    pub(super) folders: &'a [PathBuf],
    /// QEMU arguments for the drives.
    pub(super) drives: Vec<String>,
}

impl Guest<'_> {
    /// Boots the guest in `folder`, which holds its archive and disk images. Passes on every line
    /// of output, with QEMU's CPU time so far.
    ///
    /// # Errors
    /// The guest cannot be created or started, exceeds `limit`, or crashes.
    pub(super) fn run(
        &self,
        folder: &Path,
        limit: Duration,
        on_line: &mut OnLine<'_>,
    ) -> Result<(), String> {
        let archive = folder.join("archive");
        let made = fs::write(&archive, self.archive(folder)?);
        made.map_err(|error| format!("{}: {error}", archive.display()))?;
        let mut qemu = Command::new(QEMU);
        qemu.args(MACHINE).args(&self.drives).current_dir(folder);
        qemu.arg("-kernel").arg(&self.kernel.image).arg("-initrd").arg(&archive);
        qemu.arg("-append").arg(WORDS);
        qemu.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = qemu.spawn().map_err(|error| format!("{QEMU} did not start: {error}"))?;
        Running(child).follow(limit, on_line)
    }

    fn archive(&self, folder: &Path) -> Result<Vec<u8>, String> {
        let read =
            |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let mut archive = Archive::default();
        for mount in ["proc", "sys", "dev", "run"] {
            archive.folder(mount);
        }
        for folder in self.folders {
            archive.folder(&folder.to_string_lossy());
        }
        archive.file("bin/busybox", &read(self.busybox)?);
        archive.link("bin/sh", "busybox");
        let (mut load, mut loaded) = (String::new(), BTreeSet::new());
        for (name, parameters) in self.modules {
            for (needed, bytes) in self.kernel.modules(name)? {
                let parameters = if needed == *name { parameters } else { "" };
                // Several modules may need the same one.
                if loaded.insert(needed.clone()) {
                    archive.file(&format!("modules/{needed}.ko"), &bytes);
                    load += &format!("insmod /modules/{needed}.ko {parameters}\n");
                }
            }
        }
        archive.file("init", format!("{PRELUDE}{load}{}\n{EPILOGUE}", self.script).as_bytes());
        for program in self.programs {
            let stripped = folder.join("stripped");
            run_quietly(Command::new("strip").arg("-o").arg(&stripped).arg(program))?;
            archive.file(&program.to_string_lossy(), &read(&stripped)?);
            for library in libraries(program, Path::new("/"))? {
                archive.file(&library.to_string_lossy(), &read(&library)?);
            }
        }
        for Carried { from, to } in self.carried {
            archive.file(&to.to_string_lossy(), &read(from)?);
        }
        Ok(archive.finish())
    }
}

/// Receives a line, and the CPU time of the guest so far.
pub(super) type OnLine<'a> = dyn FnMut(&str, Duration) + 'a;

/// Program of a virtual machine.
pub(super) const QEMU: &str = "qemu-system-x86_64";

const PRELUDE: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin TMPDIR=/run HOME=/run
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
exec >/dev/console 2>&1 </dev/null
ifconfig lo 127.0.0.1 up
ulimit -c 0
";

const EPILOGUE: &str = "echo '@@ end of all'
sync
poweroff -f
";

/// Libraries of a program and its loader: first those below `root`, then this machine's.
pub(super) fn libraries(program: &Path, root: &Path) -> Result<Vec<PathBuf>, String> {
    let folders =
        ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"].map(|folder| root.join(folder));
    let folders = std::env::join_paths(folders).map_err(|error| error.to_string())?;
    let listed = run_quietly(Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", folders))?;
    match listed.lines().find(|line| line.ends_with("not found")) {
        Some(missing) => Err(format!("{}: {}", program.display(), missing.trim())),
        None => Ok(listed.lines().filter_map(path).collect()),
    }
}

/// Path in a line of `ldd`; the kernel's own library has none.
fn path(line: &str) -> Option<PathBuf> {
    line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from)
}

/// A virtual machine, killed on drop.
struct Running(Child);

impl Running {
    fn follow(mut self, limit: Duration, on_line: &mut OnLine<'_>) -> Result<(), String> {
        let output = self.0.stdout.take().ok_or("it has no output")?;
        let (sender, lines) = channel();
        let reader = std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|read| 0 < read) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        let (begin, mut has_ended) = (Instant::now(), false);
        loop {
            match lines.recv_timeout(limit.saturating_sub(begin.elapsed())) {
                Ok(line) => {
                    has_ended |= line == END;
                    on_line(&line, self.processor_time());
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("it did not end within {} s", limit.as_secs()));
                }
            }
        }
        let _ = reader.join();
        match has_ended {
            true => Ok(()),
            false => Err("its kernel ended before the script did".into()),
        }
    }
}

impl Running {
    /// CPU time of the virtual machine; zero if the system does not report it.
    fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        processor_time(&stat).unwrap_or_default()
    }
}

/// User and system time in `/proc/PID/stat`: words 14 and 15, in hundredths of a second. Word 2 is
/// a name in parentheses.
fn processor_time(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11).map_while(|word| word.parse::<u64>().ok());
    Some(Duration::from_millis(10 * (times.next()? + times.next()?)))
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_of_a_process_is_that_of_user_and_system() {
        let stat = "41 (a (b) 9) S 1 41 41 0 -1 4194304 1000 0 3 0 1250 75 8 9 20 0 4 0 777 1 2";
        assert_eq!(processor_time(stat), Some(Duration::from_millis(13_250)));
        assert_eq!(processor_time(""), None);
    }
}
