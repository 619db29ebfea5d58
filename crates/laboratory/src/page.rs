//! Page of a simulation: shows its recording in a browser while it is written.

use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use zonal_admin::Player;
use zonal_cli::Failure;

/// Flags of commands that simulate.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RecordingArgs {
    /// Record the zones and what happens to them, in virtual time, for zonal play: a new file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Show it in a browser while it runs, until Ctrl-C
    #[arg(long)]
    ui: bool,
    /// Listen address of the page
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9092", requires = "ui")]
    listen: SocketAddr,
}

/// Where a simulation is recorded, and whether it is shown.
pub(crate) struct Destination {
    path: PathBuf,
    /// Without `--record` the file has no name: it goes with the process, however that ends.
    _nameless: Option<File>,
    listener: Option<TcpListener>,
}

/// A page that is being served.
pub(crate) struct Page {
    /// The file that it shows.
    _shown: Destination,
}

impl RecordingArgs {
    /// True if the simulation is recorded or shown.
    pub(crate) const fn is_asked(&self) -> bool {
        self.ui || self.record.is_some()
    }

    /// `None`: the simulation is neither recorded nor shown. The address is taken before anything
    /// runs.
    pub(crate) fn destination(&self) -> Result<Option<Destination>, Failure> {
        let listener = self.ui.then(|| listen(self.listen)).transpose()?;
        let nameless = (self.ui && self.record.is_none()).then(tempfile::tempfile);
        let nameless = nameless.transpose().map_err(Failure::work)?;
        let by_descriptor = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        let path = self.record.clone().or_else(|| nameless.as_ref().map(by_descriptor));
        Ok(path.map(|path| Destination { path, _nameless: nameless, listener }))
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).map_err(|error| {
        let why = format!("cannot listen on {address}: {error}: name another with --listen");
        match error.kind() {
            io::ErrorKind::AddrInUse => Failure::work(why),
            _ => Failure::request(why),
        }
    })?;
    listener.set_nonblocking(true).map_err(Failure::work)?;
    Ok(listener)
}

impl Destination {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Serves the page, if it was asked for, until the process ends. `growth` changes when the
    /// recording has grown; the page begins with `speed` seconds of it in one.
    pub(crate) fn show(
        mut self,
        growth: watch::Receiver<()>,
        speed: u32,
    ) -> Result<Option<Page>, Failure> {
        let Some(listener) = self.listener.take() else { return Ok(None) };
        let address = listener.local_addr().map_err(Failure::work)?;
        let player = Player::of_growing(&self.path, growth, speed);
        let url = player.url(address);
        let runtime = runtime()?;
        let serve = move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                player.serve(listener).await;
                io::Result::Ok(())
            })
        };
        thread::Builder::new().name("page".to_owned()).spawn(serve).map_err(Failure::work)?;
        // Not to standard output, which has the results.
        let _ = writeln!(io::stderr(), "zonal-lab: the page is {url}");
        Ok(Some(Page { _shown: self }))
    }
}

/// Shows the outcome, and then waits until the page, if there is one, is no longer wanted.
pub(crate) fn end(page: Option<Page>, outcome: Result<(), Failure>) -> Result<(), Failure> {
    let Some(page) = page else { return outcome };
    if let Err(failure) = &outcome {
        let _ = writeln!(io::stderr(), "zonal-lab: {failure}");
    }
    page.wait()?;
    outcome
}

impl Page {
    /// Waits for Ctrl-C or SIGTERM. Before this call both end the process at once.
    fn wait(self) -> Result<(), Failure> {
        let stopped = async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            let _ = writeln!(io::stderr(), "zonal-lab: Ctrl-C ends the page");
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            io::Result::Ok(())
        };
        runtime()?.block_on(stopped).map_err(Failure::work)
    }
}

fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(Failure::work)
}
