//! `zonal cache on|off`: turns caching of reads on and off in a running server.

use http::Method;
use zonal_api::switching::{self, Switched};
use zonal_cli::{Failure, print};

use super::ask::{self, Endpoint};
use zonal_gateway::Caching;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) const HELP: &str = "\
While the cache is off, the origin answers GET and HEAD (X-Cache: BYPASS) and nothing is cached. Writes still invalidate
cached objects, so the cache can be switched on again at any time. A restart switches the cache on.";

pub(crate) fn run(args: &Args, caching: Caching) -> Result<(), Failure> {
    let path = match caching {
        Caching::On => switching::ON_PATH,
        Caching::Off => switching::OFF_PATH,
    };
    let Switched { cache, was } = crate::commands::runtime()?.block_on(async {
        let body = args.endpoint.ask(Method::POST, path, String::new()).await?;
        ask::document(body).await
    })?;
    if args.json {
        return print::json(&Switched { cache, was });
    }
    print::text(&match cache == was {
        true => format!("the cache was {was} already\n"),
        false => format!("the cache is {cache}\n"),
    })
}
