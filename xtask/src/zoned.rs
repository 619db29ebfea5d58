//! Zoned drives under real kernels, in virtual machines: `cargo xtask test-zoned`, the stage
//! `zoned`, and `cargo xtask zoned-f2fs`.
//!
//! Uses: `setup` for its tools. Read in this order: `plan` (suites and drives), `guest`, `kernel`,
//! `tools`, `archive`, `page`; `f2fs` is a separate comparison.
//!
//! 1. Build and find the tests.
//! 2. Boot each kernel with all drives, run the suites, and collect the results.
//! 3. A full run writes docs/results/zoned.md.

mod archive;
mod f2fs;
mod guest;
mod kernel;
mod page;
mod plan;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) use f2fs::compare as compare_with_f2fs;
use guest::{Carried, Guest, MARK, Module};
use kernel::{RELEASES, Release};
use plan::{DRIVES, Drive, Needs, Program, SUITES, Suite};

/// Time limit of one kernel: ten times what it takes on two idle cores.
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// Value of `ZONAL_KILL_ROUNDS` for the suite `crash`, which kills a sixth as often.
const KILLS: u32 = 18;

/// Result of a suite on a drive.
pub(crate) struct Verdict {
    kernel: String,
    drive: &'static str,
    suite: &'static str,
    is_good: bool,
    /// CPU time of this machine.
    took: Duration,
}

/// Cost of a guest from start to end.
pub(crate) struct Cost {
    kernel: String,
    /// CPU time of this machine.
    processor: Duration,
    /// Idle time of the guest's processor.
    idle: Duration,
}

/// Results and costs of a kernel's suites.
#[derive(Default)]
pub(crate) struct Outcome {
    verdicts: Vec<Verdict>,
    costs: Vec<Cost>,
    /// All suites ended.
    is_whole: bool,
}

impl Outcome {
    fn is_good(&self) -> bool {
        self.is_whole && self.verdicts.iter().all(|verdict| verdict.is_good)
    }
}

/// Fetches the parts of a guest: kernels, a shell and programs. Returns their folder.
pub(crate) fn fetch(root: &Path) -> Result<String, String> {
    if std::env::consts::ARCH != "x86_64" {
        return Err("the kernels that are booted are for x86_64".into());
    }
    kernel::busybox(root)?;
    for release in &RELEASES {
        kernel::kernel(root, release)?;
    }
    tools::ENCRYPTION.fetch(root)?;
    tools::FILE_SYSTEMS.fetch(root)?;
    Ok(".tools/guest".into())
}

/// Runs all suites on their drives under every kernel, or the named ones. A full run writes the
/// page of results.
pub(crate) fn named(root: &Path, names: &[&str]) -> ExitCode {
    let chosen = match Choice::of(names) {
        Ok(chosen) => chosen,
        Err(unknown) => {
            let known = Choice::known().join(", ");
            eprintln!("there is no kernel, drive or suite `{unknown}`; there are {known}");
            return ExitCode::from(2);
        }
    };
    if let Err(why) = ready(root) {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    let releases: Vec<_> =
        RELEASES.iter().filter(|release| chosen.takes(release.version)).collect();
    // Read first, because the checkout may change during the run.
    let (commit, begin) = (crate::commit(root), Instant::now());
    let outcome = run(root, &releases, &chosen.steps());
    println!("\n{}\n{}", page::table(&outcome.verdicts), page::costs(&outcome.costs));
    println!("It took {} s here.", begin.elapsed().as_secs());
    let mut is_good = outcome.is_good();
    if names.is_empty() && outcome.is_whole {
        let text = page::text(&outcome, &commit);
        is_good &= write_page(root, page::PATH, &text);
    }
    crate::exit_code(is_good)
}

/// Writes a page of results. False if it cannot be written.
fn write_page(root: &Path, path: &str, text: &str) -> bool {
    let written = fs::write(root.join(path), text);
    written.inspect_err(|error| eprintln!("{path}: {error}")).is_ok()
}

/// Selection of kernels, drives and suites: the named ones, or all of a kind without a name.
struct Choice<'a>(&'a [&'a str]);

type Step = (&'static Drive, &'static Suite);

impl<'a> Choice<'a> {
    /// # Errors
    /// A name that matches nothing.
    fn of(names: &'a [&'a str]) -> Result<Self, &'a str> {
        let unknown = names.iter().find(|name| !Self::known().contains(name));
        unknown.map_or(Ok(Self(names)), |unknown| Err(*unknown))
    }

    fn kinds() -> [Vec<&'static str>; 3] {
        [
            RELEASES.iter().map(|release| release.version).collect(),
            DRIVES.iter().map(|drive| drive.name).collect(),
            SUITES.iter().map(|suite| suite.name).collect(),
        ]
    }

    fn known() -> Vec<&'static str> {
        Self::kinds().concat()
    }

    fn takes(&self, name: &str) -> bool {
        let kinds = Self::kinds();
        let others = kinds.iter().find(|kind| kind.contains(&name));
        let is_narrowed =
            others.is_some_and(|kind| kind.iter().any(|other| self.0.contains(other)));
        !is_narrowed || self.0.contains(&name)
    }

    fn steps(&self) -> Vec<Step> {
        let drives = DRIVES.iter().filter(|drive| self.takes(drive.name));
        let of = |drive| {
            let suites = SUITES.iter().filter(|suite| self.takes(suite.name));
            suites.filter(move |suite| suite.is_for(drive)).map(move |suite| (drive, suite))
        };
        drives.flat_map(of).collect()
    }
}

/// Short run, one minute: the newest kernel, the contract and a few kills. A missing tool is an
/// error.
pub(crate) fn short(root: &Path) -> Result<bool, String> {
    ready(root)?;
    let steps = Choice(&["zns", "contract", "crash"]).steps();
    let newest: Vec<_> = RELEASES.last().into_iter().collect();
    Ok(run(root, &newest, &steps).is_good())
}

fn ready(root: &Path) -> Result<(), String> {
    crate::setup::ready(root, "qemu")?;
    crate::setup::ready(root, "guest").map(drop)
}

/// Runs suites on drives, under all kernels at the same time.
fn run(root: &Path, releases: &[&Release], steps: &[Step]) -> Outcome {
    let programs = match Programs::build(root, steps) {
        Ok(programs) => programs,
        Err(why) => {
            eprintln!("{why}");
            return Outcome::default();
        }
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let run = |release| run_under(root, release, (&programs, steps));
        let threads: Vec<_> = releases
            .iter()
            .map(|release| (release.version, scope.spawn(move || run(release))))
            .collect();
        threads.into_iter().map(|(version, thread)| (version, thread.join())).collect()
    });
    let mut all = Outcome { is_whole: true, ..Outcome::default() };
    for (version, outcome) in outcomes {
        match outcome.unwrap_or_else(|_| Err("the thread that watched it ended".into())) {
            Ok((verdicts, cost)) => {
                all.verdicts.extend(verdicts);
                all.costs.push(cost);
            }
            Err(why) => {
                eprintln!("kernel {version}: {why}");
                all.is_whole = false;
            }
        }
    }
    all
}

/// Sparse images of the drives, of the stated sizes.
fn make_images(folder: &Path, images: &[(&str, u64)]) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    for (name, bytes) in images {
        let made = fs::File::create(folder.join(name));
        made.and_then(|file| file.set_len(*bytes)).map_err(failed)?;
    }
    Ok(())
}

/// Runs suites on drives under one kernel.
fn run_under(
    root: &Path,
    release: &Release,
    (programs, steps): (&Programs, &[Step]),
) -> Result<(Vec<Verdict>, Cost), String> {
    let (kernel, version) = (kernel::kernel(root, release)?, release.version);
    let folder = root.join("target/zoned").join(version);
    make_images(&folder, &plan::IMAGES.map(|name| (name, plan::IMAGE_BYTES)))?;
    let script: String = steps.iter().map(|step| programs.step(step)).collect();
    let guest = Guest {
        kernel: &kernel,
        busybox: &kernel::busybox(root)?,
        modules: &programs.modules,
        script: format!("{}{}{script}{TELL_IDLE}", plan::PREPARE, programs.exports),
        programs: &programs.all,
        carried: &programs.carried,
        folders: &programs.folders,
        drives: plan::qemu_words(),
    };
    println!("{version}| kernel {}: {} suites on drives", kernel.release, steps.len());
    let (mut verdicts, mut begun) = (Vec::new(), Duration::ZERO);
    let (processor, idle) = (Duration::ZERO, Duration::ZERO);
    let mut cost = Cost { kernel: kernel.release.clone(), processor, idle };
    guest.run(&folder, LIMIT, &mut |line, processor| {
        println!("{version}| {line}");
        cost.processor = processor;
        let Some(rest) = line.strip_prefix(MARK) else { return };
        match rest.trim().split_once(' ') {
            Some(("begin", _)) => begun = processor,
            Some(("idle", seconds)) => {
                cost.idle = seconds.parse().map_or(Duration::ZERO, Duration::from_secs_f64);
            }
            Some(("status", status)) => {
                let Some((drive, suite)) = steps.get(verdicts.len()) else { return };
                verdicts.push(Verdict {
                    kernel: kernel.release.clone(),
                    drive: drive.name,
                    suite: suite.name,
                    is_good: status == "0",
                    took: processor - begun,
                });
            }
            _ => (),
        }
    })?;
    let is_whole = verdicts.len() == steps.len();
    is_whole.then_some((verdicts, cost)).ok_or_else(|| "not every suite came to its end".into())
}

/// Prints the idle time of the guest's processor.
const TELL_IDLE: &str = "echo \"@@ idle $(cut -d ' ' -f 2 /proc/uptime)\"\n";

/// Programs of a guest.
#[derive(Default)]
struct Programs {
    devices: PathBuf,
    binary: PathBuf,
    lab: PathBuf,
    /// Libraries and other files that they need.
    all: Vec<PathBuf>,
    /// Programs of third parties.
    carried: Vec<Carried>,
    modules: Vec<Module>,
    /// Lines of the script that export test variables.
    exports: String,
    /// Working folders.
    folders: Vec<PathBuf>,
}

impl Programs {
    /// Builds the programs that the steps need.
    fn build(root: &Path, steps: &[Step]) -> Result<Self, String> {
        let needs = |program| steps.iter().any(|(_, suite)| suite.program == program);
        let mut programs = Self { modules: plan::MODULES.to_vec(), ..Self::default() };
        let built = built(root)?;
        let find = |name| program(&built, name).ok_or("cargo does not say where the tests are");
        if needs(Program::Devices) {
            programs.devices = find("zonal_hostdev")?;
            programs.all.push(programs.devices.clone());
        }
        for (program, tests, tested) in
            [(Program::Binary, "binary", "zonal"), (Program::Lab, "commands", "zonal-lab")]
        {
            if needs(program) {
                let tests = find(tests)?;
                // A test program is in `deps`, below the folder of the profile.
                let profile = tests.parent().and_then(Path::parent);
                let profile = profile.ok_or("the tests lie nowhere")?;
                programs.all.extend([tests.clone(), profile.join(tested)]);
                // Cargo creates this folder for tests too.
                programs.folders.extend(profile.parent().map(|target| target.join("tmp")));
                match program {
                    Program::Lab => programs.lab = tests,
                    _ => programs.binary = tests,
                }
            }
        }
        programs.add(root, &|needed| steps.iter().any(|(_, suite)| suite.needs == needed))?;
        Ok(programs)
    }

    /// Adds tools that suites and drives need besides their programs.
    fn add(&mut self, root: &Path, needs: &dyn Fn(Needs) -> bool) -> Result<(), String> {
        if needs(Needs::Fio) {
            match crate::setup::ready(root, "fio").and_then(|name| on_path(&name)) {
                Ok(fio) => {
                    self.exports += &format!("export ZONAL_TEST_FIO={}\n", fio.display());
                    self.all.push(fio);
                }
                Err(why) => println!("without fio: {why}"),
            }
        }
        if needs(Needs::FileSystems) {
            self.exports += "export ZONAL_TEST_NBD_DEVICE=/dev/nbd0\n";
            self.modules.extend(plan::FILE_SYSTEMS);
            self.carried.extend(tools::FILE_SYSTEMS.carried(root)?);
        }
        self.carried.extend(tools::ENCRYPTION.carried(root)?);
        Ok(())
    }

    /// Lines of the script that run a suite on a drive.
    fn step(&self, (drive, suite): &Step) -> String {
        let program = match suite.program {
            Program::Devices => &self.devices,
            Program::Binary => &self.binary,
            Program::Lab => &self.lab,
        };
        let (path, environment, tests) = (drive.path, drive.environment, suite.tests);
        let name = format!("{} {}", drive.name, suite.name);
        format!(
            "echo '{MARK} begin {name}'\n\
             env ZONAL_TEST_ZONED_DEVICE={path} ZONAL_KILL_ROUNDS={KILLS} {environment} RUST_BACKTRACE=0 \
             {} {tests} --test-threads=1 --nocapture\n\
             echo \"{MARK} status $?\"\n",
            program.display()
        )
    }
}

/// Path of a program.
fn on_path(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places.find(|place| place.is_file()).ok_or_else(|| format!("{name} is nowhere on PATH"))
}

/// Builds all tests with the union of all features, as `cargo test` does, so that nothing is built
/// twice. Returns cargo's JSON messages, one per line.
fn built(root: &Path) -> Result<String, String> {
    let mut command = crate::ci::build_tests(root);
    command.args(["--message-format", "json"]);
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Test program of a library or test target: in `deps`, named after it with a hash at the end.
fn program(built: &str, name: &str) -> Option<PathBuf> {
    let mut paths = built.lines().filter_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        rest.split_once('"').map(|(path, _)| PathBuf::from(path))
    });
    paths.rfind(|path| {
        let file = path.file_name().and_then(|file| file.to_str());
        let is_named =
            file.and_then(|file| file.rsplit_once('-')).is_some_and(|(of, _)| of == name);
        is_named && path.parent().is_some_and(|above| above.ends_with("deps"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_run_and_everything_else_of_its_kind_is_not() {
        let all = Choice(&[]);
        let pairs =
            DRIVES.iter().map(|drive| SUITES.iter().filter(|suite| suite.is_for(drive)).count());
        assert_eq!(all.steps().len(), pairs.sum::<usize>());
        assert!(SUITES.iter().all(|suite| DRIVES.iter().any(|drive| suite.is_for(drive))));
        let some = Choice::of(&["6.12", "zns", "mixed", "rules"]).ok();
        let steps = some.as_ref().map(Choice::steps).unwrap_or_default();
        let names: Vec<_> = steps.iter().map(|(drive, suite)| (drive.name, suite.name)).collect();
        assert_eq!(names, [("zns", "rules"), ("mixed", "rules")]);
        assert_eq!(some.map(|some| (some.takes("6.1"), some.takes("6.12"))), Some((false, true)));
        assert_eq!(Choice::of(&["zns", "5.4"]).err(), Some("5.4"));
    }

    #[test]
    fn of_the_programs_that_cargo_names_those_in_deps_are_those_of_tests() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/debug/zonal\"}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/debug/deps/binary-1\"}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/debug/deps/zonal_host-2\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(program(messages, "binary"), Some(PathBuf::from("/t/debug/deps/binary-1")));
        assert_eq!(program(messages, "zonal_host"), Some("/t/debug/deps/zonal_host-2".into()));
        assert_eq!(program(messages, "zonal"), None);
        assert_eq!(program("{}", "binary"), None);
    }
}
