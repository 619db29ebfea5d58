//! Chunk-size rules: parses and validates `chunk.rules`, the chunk size by object prefix.

use zonal_base::Bytes;
use zonal_host::{Chunk, ChunkRules};

use super::check::Checked;
use super::prefix::{alone, each_once, prefix_of};
use super::{ConfigError, raw};

/// Parses all rules. The devices may allow less; that is checked when they are opened.
pub(super) fn rules(chunk: &raw::Chunk) -> Checked<ChunkRules> {
    let wrong = |why| ConfigError::new("chunk.rules", why);
    let given = || chunk.rules.iter().flatten();
    each_once(given().map(|rule| rule.prefix.as_str())).map_err(wrong)?;
    let mut rules = ChunkRules::all(None);
    for raw::ChunkRule { prefix, chunk } in given() {
        let prefix = prefix_of(prefix).map_err(wrong)?;
        let chunk = size(chunk).map_err(|why| wrong(format!("{prefix}: {why}")))?;
        rules = rules.with(prefix, Some(chunk));
    }
    Ok(rules)
}

/// Parses a chunk size: a power of two between `Chunk::MIN` and `Chunk::MAX`.
pub(super) fn size(text: &str) -> Result<Chunk, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    let wrong = || {
        let most = size.clamp(Chunk::MIN, Chunk::MAX).0;
        let nearest = Bytes(1 << most.ilog2());
        let (min, max) = (Chunk::MIN, Chunk::MAX);
        format!("{size}: write a power of two from {min} to {max}, such as {nearest}")
    };
    Chunk::new(size).ok_or_else(wrong)
}

/// Splits a flag of the form `PREFIX=SIZE`.
pub(super) fn split(text: &str) -> Result<raw::ChunkRule, ConfigError> {
    let is_rule = |text: &str| text.rsplit_once('=').is_some_and(|(_, chunk)| size(chunk).is_ok());
    let (prefix, chunk) =
        alone("chunk.rules", text, is_rule)?.rsplit_once('=').ok_or_else(|| {
            let why = format!("{text:?}: write PREFIX=SIZE, such as media/=1MiB");
            ConfigError::new("chunk.rules", why)
        })?;
    Ok(raw::ChunkRule { prefix: prefix.into(), chunk: chunk.into() })
}
