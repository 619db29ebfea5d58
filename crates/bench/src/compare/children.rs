//! Child processes: starts the compared programs, waits for them, and reads their results.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use zonal_base::Bytes;

use super::held_disk::HeldDisk;

/// Starts the programs, and knows the folder of their files.
pub(crate) struct Children {
    zonal: PathBuf,
    this: PathBuf,
    folder: PathBuf,
    size: Bytes,
    /// Command lines so far, without duplicates, in order.
    commands: RefCell<Vec<String>>,
    /// Control group that newly started programs join, if any.
    members: RefCell<Option<PathBuf>>,
}

/// Joins the control group `$0`, then executes its arguments.
const JOIN: &str = r#"echo $$ > "$0" && exec "$@""#;

/// A file or folder of a program under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramFile {
    pub(super) name: &'static str,
    /// Size; `None`: the size of the comparison.
    size: Option<Bytes>,
}

impl ProgramFile {
    /// File with the size of the comparison.
    pub(crate) const fn whole(name: &'static str) -> Self {
        Self { name, size: None }
    }

    pub(crate) const fn sized(name: &'static str, size: Bytes) -> Self {
        Self { name, size: Some(size) }
    }
}

/// Builds the release programs of this workspace. Returns the path of `zonal`.
pub(crate) fn build_zonal() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["build", "--release", "--package", "zonal", "--package", "zonal-laboratory"];
    let built = Command::new(cargo).args(words).status();
    match built {
        Ok(status) if status.success() => {
            let this = std::env::current_exe().map_err(|error| error.to_string())?;
            Ok(this.with_file_name("zonal"))
        }
        Ok(status) => Err(format!("cargo build: {status}")),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

impl Children {
    pub(crate) fn new(zonal: PathBuf, folder: &Path, size: Bytes) -> Result<Self, String> {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        Ok(Self {
            zonal,
            this,
            folder,
            size,
            commands: RefCell::default(),
            members: RefCell::default(),
        })
    }

    pub(crate) const fn size(&self) -> Bytes {
        self.size
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Total length of the files of all programs, in bytes.
    pub(crate) fn taken(&self) -> u64 {
        length_of(&self.folder)
    }

    /// Removes the files of the programs.
    pub(crate) fn clear(&self) {
        // A remaining folder only takes space until the next run.
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = std::fs::create_dir_all(&self.folder);
    }

    /// Limits the write rate of the programs that `work` starts, in bytes per second.
    pub(crate) fn held_to<T>(
        &self,
        bytes_per_s: Bytes,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let held = HeldDisk::to(bytes_per_s, &self.folder)?;
        self.members.replace(Some(held.members()));
        let outcome = work();
        self.members.replace(None);
        outcome
    }

    /// Command for a program, with the current control group.
    fn command(&self, program: &Path) -> Command {
        let Some(members) = &*self.members.borrow() else { return Command::new(program) };
        let mut command = Command::new("sh");
        command.args(["-c", JOIN]).arg(members).arg(program);
        command
    }

    /// Command lines so far.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.commands.borrow().clone()
    }

    /// Runs `zonal-lab bench` on a file.
    pub(crate) fn zonal(&self, place: ProgramFile, flags: &str) -> Result<Value, String> {
        json_of(&mut self.zonal_command(place, &format!("{flags} --json")))
    }

    pub(crate) fn zonal_command(&self, place: ProgramFile, flags: &str) -> Command {
        let size = place.size.unwrap_or(self.size);
        let device = format!("file:{}?size={size}", self.path(place.name).display());
        let mut command = self.command(&self.zonal.with_file_name("zonal-lab"));
        command.args(["bench", "--device", &device]).args(flags.split_whitespace());
        self.note(&command);
        command
    }

    /// Runs block writes without NBD.
    pub(crate) fn block_writes(&self, flags: &str) -> Result<Value, String> {
        let mut command = Command::new(&self.this);
        command.arg("block-writes").arg("--folder").arg(&self.folder);
        command.args(flags.split_whitespace());
        self.note(&command);
        json_of(&mut command)
    }

    /// Command for `zonal serve` or `zonal block`.
    pub(crate) fn serve_command(&self) -> Command {
        Command::new(&self.zonal)
    }

    /// Runs the same workload on foyer.
    pub(crate) fn foyer(&self, place: ProgramFile, flags: &str) -> Result<Value, String> {
        let size = place.size.unwrap_or(self.size).to_string();
        let mut command = self.command(&self.this);
        command.arg("foyer").arg("--folder").arg(self.path(place.name)).args(["--size", &size]);
        command.args(flags.split_whitespace()).arg("--json");
        self.note(&command);
        json_of(&mut command)
    }

    /// Runs random reads of a file with fio. Returns its report on reads.
    pub(crate) fn fio(&self, name: &str, flags: &str) -> Result<Value, String> {
        let mut command = Command::new("fio");
        command.arg("--name=read").arg(format!("--filename={}", self.path(name).display()));
        command.args(["--rw=randread", "--direct=1", "--ioengine=io_uring", "--readonly"]);
        command.args(["--time_based", "--norandommap", "--output-format=json"]);
        command.args(flags.split_whitespace());
        self.note(&command);
        let report = json_of(&mut command)?;
        Ok(report.pointer("/jobs/0/read").cloned().unwrap_or_default())
    }

    /// Records a command line.
    pub(crate) fn note(&self, command: &Command) {
        let mut arguments = command.get_args();
        // The control group is recorded once; the program comes after `-c`, the script and the
        // group.
        let (held, program) = match *self.members.borrow() {
            None => ("", Some(command.get_program())),
            Some(_) => ("held: ", arguments.nth(3)),
        };
        let name = program.and_then(|program| Path::new(program).file_name()).unwrap_or_default();
        let words: Vec<_> =
            std::iter::once(name).chain(arguments).map(OsStr::to_string_lossy).collect();
        let folder = self.folder.display().to_string();
        let words = words.join(" ").replace(&format!("{folder}/"), "").replace(&folder, ".");
        let text = format!("{held}{words}");
        let mut commands = self.commands.borrow_mut();
        if !commands.contains(&text) {
            commands.push(text);
        }
    }
}

/// Standard output of a program that must succeed, as JSON.
pub(crate) fn json_of(command: &mut Command) -> Result<Value, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{name}: {e}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}: {}", output.status, errors.trim()));
    }
    // fio's nbd engine prints a line of its own before the JSON.
    let begin = output.stdout.iter().position(|byte| *byte == b'{').unwrap_or(0);
    serde_json::from_slice(&output.stdout[begin..]).map_err(|error| format!("{name}: {error}"))
}

fn length_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let length = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => length_of(&entry.path()),
        Ok(found) => found.len(),
        // The file was removed meanwhile.
        Err(_) => 0,
    };
    entries.map(length).sum()
}

/// Number in a report, by its path.
pub(crate) fn number(report: &Value, path: &str) -> Result<f64, String> {
    let value = report.pointer(path).and_then(Value::as_f64);
    value.ok_or_else(|| format!("the report has no number at {path}"))
}

/// User and system time of a process, in seconds.
pub(crate) fn cpu_seconds(child: &Child) -> Result<f64, String> {
    let path = format!("/proc/{}/stat", child.id());
    let stat = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    // The name in parentheses may contain spaces: fields are counted from its end.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let fields = rest.split_whitespace().skip(11).take(2);
    let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Bytes that a process wrote to devices or to the page cache.
pub(crate) fn written_bytes(child: &Child) -> Result<f64, String> {
    let path = format!("/proc/{}/io", child.id());
    let io = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let of_line = |line: &str| line.strip_prefix("write_bytes: ")?.parse().ok();
    io.lines().find_map(of_line).ok_or_else(|| format!("{path} has no write_bytes"))
}
