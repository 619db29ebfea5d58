//! Runs a command under limits, and kills all processes that it leaves behind.
//!
//! 1. Start the command. One pipe carries the output of all its processes; lines are forwarded, and
//!    the last ones are kept.
//! 2. Every second, add up the CPU time of its processes (`processes`).
//! 3. Over a limit, kill all of them. For a single slow test only its test program is killed
//!    ([`crate::libtest`]).
//! 4. After the command has ended, kill the processes that it left running.
//!
//! The command stays in this process's group, so that Ctrl-C ends it too. A signal that ends this
//! process ends the command. Its standard input is empty.

mod processes;

pub(crate) use processes::cpu;

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::libtest::{Overdue, SlowTests};

/// Last lines of output that are kept.
const LINES_KEPT: usize = 40;

/// Interval between two checks of the limits.
const TICK: Duration = Duration::from_secs(1);

/// CPU time within `idle` that counts as progress.
const IDLE_CPU: Duration = Duration::from_secs(1);

/// Lines that may wait to be forwarded. A command that prints faster blocks.
const LINES_QUEUED: usize = 1000;

/// Longer lines are forwarded in pieces.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Longest wait for the remaining output after the end of the command.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// Limits of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// CPU time of all its processes.
    pub(crate) cpu: Option<Duration>,
    /// Time without a line of output and with less CPU time than [`IDLE_CPU`].
    pub(crate) idle: Option<Duration>,
    /// Wall-clock time.
    pub(crate) wall: Option<Duration>,
    /// Deadline of the run that the command belongs to.
    pub(crate) until: Option<SystemTime>,
    /// Wall-clock time of a single test.
    pub(crate) test: Option<Duration>,
}

/// Deadline of the run, from `CI_DEADLINE` in seconds since 1970.
///
/// # Errors
/// The value is not a number.
pub(crate) fn deadline() -> Result<Option<SystemTime>, String> {
    let Ok(said) = std::env::var("CI_DEADLINE") else { return Ok(None) };
    let seconds = said.parse().map_err(|_| {
        format!("CI_DEADLINE={said}: it is when the run must be over, in seconds since 1970")
    })?;
    Ok(SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)))
}

/// Limit that a command exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Cpu(Duration),
    Idle(Duration),
    Wall(Duration),
    Until,
    /// The system does not report the end of the command.
    Lost(String),
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(limit) => write!(f, "over {} CPU-s", limit.as_secs()),
            Self::Idle(limit) => write!(f, "no progress for {}", span(*limit)),
            Self::Wall(limit) => write!(f, "over {}", span(*limit)),
            Self::Until => f.write_str("the deadline of the whole run has passed"),
            Self::Lost(why) => write!(f, "it cannot be waited for: {why}"),
        }
    }
}

/// Formats a time: `5 min`, or `90 s`.
pub(crate) fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds if 0 < seconds && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// Result of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit status, or the exceeded limit.
    pub(crate) how: Result<ExitStatus, Exceeded>,
    /// Last lines of output.
    pub(crate) last_lines: VecDeque<String>,
    /// Tests that were killed because they took too long.
    pub(crate) slow_tests: Vec<String>,
}

/// Runs a command, and passes each line of output to `hear`. Requires: this process runs no other
/// command meanwhile.
///
/// # Errors
/// The command could not be started.
pub(crate) fn run(
    command: &mut Command,
    limits: &Limits,
    mut hear: impl FnMut(&str),
) -> Result<Ended, String> {
    processes::adopt_orphans()?;
    let signals = Signals::watch()?;
    let name = command.get_program().to_string_lossy().into_owned();
    let (reader, child) =
        start(command).map_err(|error| format!("{name} did not start: {error}"))?;
    let lines = lines_of(reader);
    let mut running = Running::new(child, limits);
    let how = loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => running.note_line(&line, &mut hear),
            Err(RecvTimeoutError::Timeout) => (),
            // A command may close its output and continue.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(10)),
        }
        if let Some(how) = running.look() {
            break how;
        }
        if let Some(signal) = signals.received() {
            let _ = processes::kill_all(running.child.id());
            std::process::exit(128 + signal);
        }
    };
    let killed = processes::kill_all(running.child.id());
    if killed.is_ok() {
        let _ = running.child.wait();
    }
    // The pipe ends when the last process with its write end is gone. A process that cannot be
    // killed is not waited for.
    let begun = Instant::now();
    while begun.elapsed() < DRAIN_TIME
        && let Ok(line) = lines.recv_timeout(TICK)
    {
        running.note_line(&line, &mut hear);
    }
    let (what, names) = match (&killed, &how) {
        (Err(names), _) => ("cannot be killed", names),
        (Ok(names), Ok(_)) => ("left running, and killed", names),
        (Ok(names), Err(_)) => ("killed", names),
    };
    if !names.is_empty() {
        // The killed processes are not reported among the command's own lines: its last line may be
        // the reason for a skip.
        hear(&format!("{what}: {}", names.join(", ")));
    }
    let Running { last_lines, killed_tests, .. } = running;
    Ok(Ended { how, last_lines, slow_tests: killed_tests })
}

/// Signals that end this process. The command must not outlive it.
struct Signals(Vec<(i32, Arc<AtomicBool>)>);

impl Signals {
    /// Watched from the first command on, so that a signal between two commands ends the second.
    fn watch() -> Result<&'static Self, String> {
        static SIGNALS: OnceLock<Result<Signals, String>> = OnceLock::new();
        SIGNALS.get_or_init(Self::register).as_ref().map_err(String::clone)
    }

    fn register() -> Result<Self, String> {
        let watch = |signal| {
            let is_received = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, is_received.clone())
                .map_err(|error| format!("signal {signal}: {error}"))?;
            Ok((signal, is_received))
        };
        // Ignored signals stay ignored: nohup(1), and shells for background jobs.
        let signals = [SIGHUP, SIGINT, SIGTERM].into_iter();
        let signals = signals.filter(|signal| !processes::is_ignored(*signal));
        signals.map(watch).collect::<Result<_, _>>().map(Self)
    }

    fn received(&self) -> Option<i32> {
        let received = |(_, flag): &&(i32, Arc<AtomicBool>)| flag.load(Ordering::Relaxed);
        self.0.iter().find(received).map(|(signal, _)| *signal)
    }
}

fn start(command: &mut Command) -> std::io::Result<(PipeReader, Child)> {
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn();
    // The command holds the write ends: the pipe must close with it.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok((reader, child?))
}

/// Lines from a pipe. Test output may contain any bytes.
fn lines_of(reader: PipeReader) -> Receiver<String> {
    let (sender, receiver) = sync_channel(LINES_QUEUED);
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while let Ok(1..) = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            if sender.send(String::from_utf8_lossy(text).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// A running command.
struct Running<'a> {
    child: Child,
    limits: &'a Limits,
    begun: Instant,
    /// CPU time of all processes that this process started earlier.
    cpu_before: Duration,
    /// CPU time of the command at the last check.
    cpu: Duration,
    looked: Instant,
    /// Time of the last progress, and the CPU time then.
    progress: (Instant, Duration),
    last_lines: VecDeque<String>,
    slow_tests: SlowTests,
    killed_tests: Vec<String>,
}

impl<'a> Running<'a> {
    fn new(child: Child, limits: &'a Limits) -> Self {
        let now = Instant::now();
        Self {
            child,
            limits,
            begun: now,
            cpu_before: cpu(),
            cpu: Duration::ZERO,
            looked: now,
            progress: (now, Duration::ZERO),
            last_lines: VecDeque::new(),
            slow_tests: SlowTests::new(limits.test),
            killed_tests: Vec::new(),
        }
    }

    fn note_line(&mut self, line: &str, hear: &mut impl FnMut(&str)) {
        self.progress = (Instant::now(), self.cpu);
        hear(line);
        if self.last_lines.len() == LINES_KEPT {
            self.last_lines.pop_front();
        }
        self.last_lines.push_back(line.to_owned());
        self.slow_tests.hear(line, Instant::now());
    }

    /// Exit status or exceeded limit; `None` while the command runs.
    fn look(&mut self) -> Option<Result<ExitStatus, Exceeded>> {
        match self.child.try_wait() {
            Ok(Some(status)) => return Some(Ok(status)),
            Ok(None) => (),
            // SIGCHLD was ignored at the start.
            Err(error) => return Some(Err(Exceeded::Lost(error.to_string()))),
        }
        if self.looked.elapsed() < TICK {
            return None;
        }
        self.looked = Instant::now();
        processes::reap_orphans(self.child.id());
        if let Some(overdue) = self.slow_tests.overdue(self.looked) {
            self.kill_tests(overdue);
        }
        // A process that ends during the reading may be missing once.
        self.cpu = self.cpu.max(cpu().saturating_sub(self.cpu_before));
        if IDLE_CPU <= self.cpu.saturating_sub(self.progress.1) {
            self.progress = (self.looked, self.cpu);
        }
        let exceeded = self.exceeded()?;
        // A hanging test is killed with its program, and the other programs run.
        if let Exceeded::Idle(_) = exceeded
            && let Some(stuck) = self.slow_tests.stuck()
            && self.kill_tests(stuck)
        {
            return None;
        }
        Some(Err(exceeded))
    }

    /// Kills the programs of the tests. False: none of them runs.
    fn kill_tests(&mut self, overdue: Overdue) -> bool {
        let is_killed = processes::kill_program(&overdue.program);
        if is_killed {
            self.killed_tests.extend(overdue.names);
            self.progress = (Instant::now(), self.cpu);
        }
        is_killed
    }

    fn exceeded(&self) -> Option<Exceeded> {
        let over = |limit: Option<Duration>, used| limit.filter(|limit| *limit < used);
        if let Some(limit) = over(self.limits.cpu, self.cpu) {
            return Some(Exceeded::Cpu(limit));
        }
        if let Some(limit) = over(self.limits.wall, self.begun.elapsed()) {
            return Some(Exceeded::Wall(limit));
        }
        if self.limits.until.is_some_and(|until| until <= SystemTime::now()) {
            return Some(Exceeded::Until);
        }
        over(self.limits.idle, self.progress.0.elapsed()).map(Exceeded::Idle)
    }
}

/// Exit code after a kill, as in timeout(1).
const KILLED: u8 = 124;

const USAGE: &str = "usage: cargo xtask limit [--cpu SECONDS] [--idle SECONDS] [--wall SECONDS] [--test SECONDS] COMMAND...";

/// `cargo xtask limit`: runs a user's command under limits.
pub(crate) fn command(words: &[&str]) -> ExitCode {
    let (limits, command) = match parse(words) {
        Ok(parsed) => parsed,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut told = Command::new(command[0]);
    match run(told.args(&command[1..]), &limits, print_line) {
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
        Ok(ended) => {
            ended.slow_tests.iter().for_each(|test| eprintln!("killed: {test}"));
            match ended.how {
                Err(exceeded) => {
                    eprintln!("killed: {exceeded}");
                    ExitCode::from(KILLED)
                }
                Ok(_) if !ended.slow_tests.is_empty() => ExitCode::from(KILLED),
                Ok(status) => {
                    let code = status.code().or_else(|| Some(128 + status.signal()?));
                    let code = code.and_then(|code| u8::try_from(code).ok());
                    code.map_or(ExitCode::FAILURE, ExitCode::from)
                }
            }
        }
    }
}

/// Prints a line. A closed pipe on standard output does not end the command.
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn parse<'a>(words: &'a [&'a str]) -> Result<(Limits, &'a [&'a str]), String> {
    let (mut limits, mut rest) = (Limits::default(), words);
    while let [flag, more @ ..] = rest
        && flag.starts_with("--")
    {
        let limit = match *flag {
            "--cpu" => &mut limits.cpu,
            "--idle" => &mut limits.idle,
            "--wall" => &mut limits.wall,
            "--test" => &mut limits.test,
            _ => return Err(format!("there is no flag `{flag}`")),
        };
        let [seconds, more @ ..] = more else { return Err(format!("{flag} needs seconds")) };
        let seconds =
            seconds.parse().map_err(|_| format!("{flag} {seconds}: seconds are a whole number"))?;
        *limit = Some(Duration::from_secs(seconds));
        rest = more;
    }
    if rest.is_empty() { Err("there is no command".into()) } else { Ok((limits, rest)) }
}

#[cfg(test)]
mod tests {
    use super::{Exceeded, parse};
    use std::time::Duration;

    #[test]
    fn a_limit_is_told_in_the_unit_that_it_is_set_in() {
        let minutes = Duration::from_secs(300);
        assert_eq!(Exceeded::Idle(minutes).to_string(), "no progress for 5 min");
        assert_eq!(Exceeded::Wall(Duration::from_secs(90)).to_string(), "over 90 s");
        assert_eq!(Exceeded::Cpu(minutes).to_string(), "over 300 CPU-s");
    }

    #[test]
    fn limits_stand_before_the_command() {
        let (limits, command) =
            parse(&["--cpu", "60", "sleep", "--idle", "3"]).expect("it is good");
        assert_eq!(limits.cpu, Some(Duration::from_secs(60)));
        assert_eq!((limits.idle, command), (None, &["sleep", "--idle", "3"][..]));
        for wrong in
            [&["--cpu"][..], &["--cpu", "x", "true"], &["--ram", "1", "true"], &["--cpu", "1"]]
        {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
