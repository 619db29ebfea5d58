//! `zonal play`: shows a recording in a browser.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpListener;
use zonal_admin::{Player, PlayerError};
use zonal_cli::Failure;

use crate::listeners::Address;
use crate::signals::Signals;

/// Show a recording of zonal serve or zonal block in a browser
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Recording: what --record wrote, or curl -N .../api/v1/live; gzip is understood
    recording: PathBuf,
    /// Listen address of the page
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9092")]
    listen: SocketAddr,
}

const EXAMPLES: &str = "\
Examples:
  zonal serve --record night.zonal
  zonal play night.zonal
  gzip night.zonal && zonal play night.zonal.gz

The page plays it forward and back at any speed. Ctrl-C ends the command.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let player = Player::new(&args.recording).map_err(|error| match error {
        PlayerError::Foreign(_) => Failure::request(format!(
            "{error}: zonal serve --record FILE or zonal block --record FILE makes one"
        )),
        error => Failure::request(error),
    })?;
    super::runtime()?.block_on(serve(args, player))
}

async fn serve(args: &Args, player: Player) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let address = Address::take(args.listen, "--listen")?;
    let listener = address.listen().and_then(TcpListener::from_std).map_err(Failure::work)?;
    let shown = player.url(address.socket_address()) + "\n";
    io::stdout().write_all(shown.as_bytes()).map_err(Failure::work)?;
    tokio::select! {
        () = player.serve(listener) => Ok(()),
        () = signals.stop() => Ok(()),
    }
}
