//! `zonal cache stats --watch`: the statistics as rates, renewed until the user quits.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use http::Method;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, timeout};
use zonal_api::{latency, stats};
use zonal_cli::Failure;

use super::rates::{Rates, Sample};
use super::screen::{self, Screen};
use crate::commands::cache::ask::{self, Endpoint};
use crate::signals::Signals;

/// Intervals whose rates are kept for the sparklines: more than a terminal has columns.
const HISTORY_MAX: usize = 512;

/// Time after which a server that does not answer counts as away: longer than it waits for its own
/// shards.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keys that wait to be handled; a held key needs no more.
const KEYS_MAX: usize = 16;

/// The watched server, as far as it is known.
pub(super) struct Watched {
    /// Address of the admin endpoint.
    pub(super) server: String,
    pub(super) last: Sample,
    /// Rates of the last intervals, the newest last.
    pub(super) history: VecDeque<Rates>,
    /// Why the server cannot be asked now.
    pub(super) trouble: Option<String>,
}

/// Watches until the user quits: on a terminal as a screen, elsewhere as a line for each interval.
pub(super) async fn watch(endpoint: &Endpoint, every: Duration) -> Result<(), Failure> {
    let mut watched = Watched {
        server: endpoint.to_string(),
        last: look(endpoint).await?,
        history: VecDeque::new(),
        trouble: None,
    };
    match stdout().is_terminal() {
        true => on_screen(endpoint, every, &mut watched).await,
        false => as_lines(endpoint, every, &mut watched).await,
    }
}

impl Watched {
    /// Asks the server again.
    async fn renew(&mut self, endpoint: &Endpoint) {
        match look(endpoint).await {
            Ok(sample) => {
                self.note(sample);
                self.trouble = None;
            }
            Err(failure) => self.trouble = Some(failure.to_string()),
        }
    }

    pub(super) fn note(&mut self, sample: Sample) {
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(Rates::between(&self.last, &sample));
        self.last = sample;
    }
}

async fn look(endpoint: &Endpoint) -> Result<Sample, Failure> {
    let late = |_| Failure::work(format!("{endpoint} does not answer"));
    timeout(PATIENCE, sample(endpoint)).await.map_err(late)?
}

async fn sample(endpoint: &Endpoint) -> Result<Sample, Failure> {
    let stats = endpoint.ask(Method::GET, stats::PATH, String::new()).await?;
    let stats = ask::document(stats).await?;
    let at = Instant::now();
    let latencies = endpoint.ask(Method::GET, latency::PATH, String::new()).await?;
    Ok(Sample { at, stats, latencies: ask::document(latencies).await? })
}

async fn on_screen(
    endpoint: &Endpoint,
    every: Duration,
    watched: &mut Watched,
) -> Result<(), Failure> {
    let mut keys = keys();
    let mut ticks = ticks(every);
    let mut signals = Signals::listen()?;
    let mut terminal = Screen::open().map_err(Failure::work)?;
    loop {
        terminal.draw(watched).map_err(Failure::work)?;
        tokio::select! {
            _ = ticks.tick() => tokio::select! {
                () = watched.renew(endpoint) => (),
                () = quit(&mut keys) => return Ok(()),
                _ = signals.next() => return Ok(()),
            },
            // Without this the terminal would stay as it is on the screen: raw, and without a cursor.
            _ = signals.next() => return Ok(()),
            key = keys.recv() => match key {
                // A resized terminal is drawn anew.
                Some(event) if !quits(&event) => (),
                _ => return Ok(()),
            },
        }
    }
}

async fn as_lines(
    endpoint: &Endpoint,
    every: Duration,
    watched: &mut Watched,
) -> Result<(), Failure> {
    let mut ticks = ticks(every);
    loop {
        ticks.tick().await;
        watched.renew(endpoint).await;
        match writeln!(stdout(), "{}", screen::line(watched)) {
            // The reader, such as `head`, has what it wanted.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(Failure::work)?,
        }
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Events of the terminal, read by a thread that ends with the process.
fn keys() -> mpsc::Receiver<Event> {
    let (to, keys) = mpsc::channel(KEYS_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if to.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}

/// Waits until the user quits.
async fn quit(keys: &mut mpsc::Receiver<Event>) {
    while keys.recv().await.is_some_and(|event| !quits(&event)) {}
}

fn quits(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let is_interrupt =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_interrupt || matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc)
}
