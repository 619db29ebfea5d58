//! Configuration of `zonal block`: the same layers as `zonal serve`, with its own file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use zonal_admin::AdminAccess;
use zonal_base::{BLOCK_BYTES, Bytes};
use zonal_block::{Export, MapMemory};
use zonal_hostdev::DeviceSpec;

use super::admin_security::host_names;
use super::check::{Checked, address, given, in_memory, located, parsed, percent, text};
use super::error_position::placed;
use super::layers::{gathered, table};
use super::scrub::{self, ScrubSettings};
use super::{ConfigError, Log, log, variables};

/// Configuration file with every key and its default.
pub(crate) const DEFAULTS: &str = include_str!("../../../../config/block.toml");

/// Validated configuration of `zonal block`.
#[derive(Debug)]
pub(crate) struct BlockConfig {
    /// Data directory: holds whatever has no path of its own.
    pub(crate) data_dir: PathBuf,
    pub(crate) devices: Devices,
    /// Exports to create or open. Empty: all existing exports, or on blank devices one of the whole
    /// capacity.
    pub(crate) exports: Vec<Export>,
    pub(crate) spare_percent: u8,
    pub(crate) memory: Bytes,
    pub(crate) map_memory: MapMemory,
    pub(crate) scrub: ScrubSettings,
    /// Unix socket. `None` with a `listen` address: no socket; `None` without one: a socket in the
    /// data directory.
    pub(crate) socket: Option<PathBuf>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) connections_max: usize,
    pub(crate) admin: SocketAddr,
    pub(crate) admin_access: AdminAccess,
    pub(crate) log: Log,
}

/// Devices of the block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Devices {
    /// Two files in the data directory.
    Own,
    /// One device: its first zones are the write buffer.
    One(DeviceSpec),
    /// Separate devices for write buffer and capacity.
    Two {
        /// Write-buffer device: every write goes here first.
        buffer: DeviceSpec,
        /// Capacity device: compaction moves the data here.
        capacity: DeviceSpec,
    },
}

/// Unvalidated configuration file of `zonal block`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    data_dir: Option<String>,
    block: Block,
    nbd: Nbd,
    admin: BlockAdmin,
    log: BlockLog,
}

/// Flags of `zonal block`, and the variables behind them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct BlockFlags {
    /// Configuration file; `zonal block config init -` prints one with every key
    #[arg(long, value_name = "FILE", env = "ZONAL_BLOCK_CONFIG")]
    config: Option<PathBuf>,
    /// Data directory for generated files: default devices, socket
    #[arg(long, value_name = "DIR", env = "ZONAL_DATA_DIR")]
    data_dir: Option<String>,
    #[command(flatten)]
    block: Block,
    #[command(flatten)]
    nbd: Nbd,
    #[command(flatten)]
    admin: BlockAdmin,
    #[command(flatten)]
    log: BlockLog,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Devices and exports")]
struct Block {
    /// Capacity device, the final place of the data: file:PATH?size=8GiB, block:/dev/NAME,
    /// zns:/dev/NAME or emulator:MODEL
    #[arg(long, value_name = "SPEC", env = "ZONAL_BLOCK_CAPACITY")]
    capacity: Option<String>,
    /// Write-buffer device; all writes go here first [without it: the first zones of the capacity
    /// device]
    #[arg(long, value_name = "SPEC", env = "ZONAL_BLOCK_BUFFER")]
    buffer: Option<String>,
    /// Export: a block device that clients see (repeatable); verify=off: reads do not verify
    /// checksums [without it: the existing exports, or
    /// on blank devices one export of the whole capacity]
    #[arg(
        id = "block-exports",
        long = "export",
        value_name = "NAME=SIZE[,TENANT][,verify=off]",
        env = "ZONAL_BLOCK_EXPORTS"
    )]
    exports: Option<Vec<String>>,
    /// Spare share of the capacity device that exports cannot use
    #[arg(long, value_name = "PERCENT", env = "ZONAL_BLOCK_SPARE")]
    spare: Option<String>,
    /// Read buffer memory
    #[arg(long, value_name = "SIZE", env = "ZONAL_BLOCK_MEMORY")]
    memory: Option<String>,
    /// Memory for the L2P map: all, or a size; the rest of the map stays on the devices
    #[arg(long, value_name = "all|SIZE", env = "ZONAL_BLOCK_MAP_MEMORY")]
    map_memory: Option<String>,
    /// Time between two scrubs, which read and verify everything; never: only zonal block scrub
    #[arg(long, value_name = "TIME|never", env = "ZONAL_BLOCK_SCRUB")]
    scrub: Option<String>,
    /// Maximum bytes that a scrub reads in a second
    #[arg(long, value_name = "SIZE", env = "ZONAL_BLOCK_SCRUB_RATE")]
    scrub_rate: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "NBD")]
struct Nbd {
    /// Unix socket for NBD clients [without it and --listen: block.sock in the data directory]
    #[arg(long, value_name = "PATH", env = "ZONAL_NBD_SOCKET")]
    socket: Option<String>,
    /// Listen address for NBD clients over TCP; NBD has no authentication
    #[arg(id = "nbd-listen", long = "listen", value_name = "ADDR", env = "ZONAL_NBD_LISTEN")]
    listen: Option<String>,
    /// Maximum number of open connections
    #[arg(
        id = "nbd-connections",
        long = "connections",
        value_name = "COUNT",
        env = "ZONAL_NBD_CONNECTIONS"
    )]
    connections: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Admin")]
struct BlockAdmin {
    /// Listen address of the admin endpoint: health, metrics and `zonal block stats`
    #[arg(
        id = "block-admin-listen",
        long = "admin",
        value_name = "ADDR",
        env = "ZONAL_BLOCK_ADMIN_LISTEN"
    )]
    listen: Option<String>,
    /// Host name that the admin endpoint accepts besides IP addresses and localhost (repeatable)
    #[arg(
        id = "block-admin-hosts",
        long = "admin-host",
        value_name = "NAME",
        env = "ZONAL_BLOCK_ADMIN_HOSTS"
    )]
    hosts: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Log")]
struct BlockLog {
    /// Log format: text or json
    #[arg(
        id = "block-log-format",
        long = "log-format",
        value_name = "FORMAT",
        env = "ZONAL_LOG_FORMAT"
    )]
    format: Option<String>,
    /// Log level: error, warn, info, debug or trace; also per crate: info,zonal_host=debug
    #[arg(
        id = "block-log-level",
        long = "log-level",
        value_name = "LEVEL",
        env = "ZONAL_LOG_LEVEL"
    )]
    level: Option<String>,
    /// Recording for zonal play: a file to append to [without it: none]
    #[arg(id = "block-log-record", long = "record", value_name = "FILE", env = "ZONAL_LOG_RECORD")]
    record: Option<String>,
}

impl BlockFlags {
    /// The configuration file.
    pub(crate) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }
}

/// Merges flags, file and defaults into one unvalidated configuration.
pub(super) fn gather(flags: &BlockFlags) -> Result<File, ConfigError> {
    let sections = [
        ("block", table(&flags.block)?),
        ("nbd", table(&flags.nbd)?),
        ("admin", table(&flags.admin)?),
        ("log", table(&flags.log)?),
    ];
    let mut file: File = gathered(DEFAULTS, flags.config.as_deref(), sections)?;
    file.data_dir = flags.data_dir.clone().or(file.data_dir);
    Ok(file)
}

impl BlockConfig {
    /// Merges the layers and validates the result. An unknown `ZONAL_*` environment variable is
    /// refused.
    pub(crate) fn load(flags: &BlockFlags) -> Result<Self, ConfigError> {
        variables::refuse_unknown(std::env::vars_os())?;
        let file = gather(flags)?;
        check(&file).map_err(|error| match gathered(DEFAULTS, flags.config.as_deref(), []) {
            Ok(alone) => placed(error, flags.config.as_deref(), (&file, &alone)),
            Err(_) => error,
        })
    }
}

fn check(file: &File) -> Checked<BlockConfig> {
    let File { data_dir, block, nbd, admin, log: of_log } = file;
    let is_local = text(&nbd.listen).is_empty();
    let listen = if is_local { None } else { Some(address("nbd.listen", &nbd.listen)?) };
    let of_admin = address("admin.listen", &admin.listen)?;
    if listen == Some(of_admin) && of_admin.port() != 0 {
        let why = format!("{of_admin} is the address of nbd.listen: write another port");
        return Err(ConfigError::new("admin.listen", why));
    }
    Ok(BlockConfig {
        data_dir: given("data-dir", data_dir)?.into(),
        devices: devices(block)?,
        exports: exports(block.exports.as_deref().unwrap_or_default())?,
        spare_percent: percent(
            "block.spare",
            given("block.spare", &block.spare)?,
            SPARE_PERCENT_MAX,
        )?,
        memory: memory(&block.memory)?,
        map_memory: map_memory(&block.map_memory)?,
        scrub: scrub::checked(
            ("block.scrub", &block.scrub),
            ("block.scrub-rate", &block.scrub_rate),
        )?,
        socket: Some(text(&nbd.socket)).filter(|path| !path.is_empty()).map(PathBuf::from),
        listen,
        connections_max: connections(&nbd.connections)?,
        admin: of_admin,
        admin_access: AdminAccess::new(host_names("admin.hosts", &admin.hosts)?, None),
        // `zonal block` has no access log.
        log: log::checked(&of_log.format, &of_log.level, &None, &of_log.record)?,
    })
}

fn devices(block: &Block) -> Checked<Devices> {
    let is_named = |spec: &Option<String>| !text(spec).is_empty();
    match (is_named(&block.capacity), is_named(&block.buffer)) {
        (false, false) => Ok(Devices::Own),
        (true, false) => Ok(Devices::One(parsed("block.capacity", &block.capacity)?)),
        (true, true) => {
            let buffer: DeviceSpec = parsed("block.buffer", &block.buffer)?;
            let capacity: DeviceSpec = parsed("block.capacity", &block.capacity)?;
            let (place, of_buffer) = (&capacity.place, located(buffer.place.path()));
            if !place.is_in_memory() && located(place.path()) == of_buffer {
                let why = "it is the capacity device: name another, or none to use a part of it";
                return Err(ConfigError::new("block.buffer", why));
            }
            Ok(Devices::Two { buffer, capacity })
        }
        (false, true) => Err(ConfigError::new(
            "block.capacity",
            "a buffer device needs a capacity device: name one with --capacity",
        )),
    }
}

fn exports(texts: &[String]) -> Checked<Vec<Export>> {
    let mut exports: Vec<Export> = Vec::with_capacity(texts.len());
    for text in texts {
        let bad = |why: &str| ConfigError::new("block.exports", format!("{text:?}: {why}"));
        let export = export(text).map_err(|why| bad(&why))?;
        if exports.iter().any(|other| other.name == export.name) {
            return Err(bad("duplicate export name: rename one"));
        }
        exports.push(export);
    }
    Ok(exports)
}

fn export(text: &str) -> Result<Export, String> {
    const WRITE: &str = "write NAME=SIZE[,TENANT][,verify=off], such as disk=10GiB";
    let (name, rest) = text.split_once('=').ok_or(WRITE)?;
    let (rest, is_verified) = match rest.rsplit_once(",verify=") {
        None => (rest, true),
        Some((rest, "on")) => (rest, true),
        Some((rest, "off")) => (rest, false),
        Some((_, other)) => {
            return Err(format!(
                "invalid verify={other}: write verify=on or verify=off, behind the tenant"
            ));
        }
    };
    let (size, tenant) = rest.split_once(',').unwrap_or((rest, name));
    if tenant == "verify" {
        return Err("invalid verify: write verify=on or verify=off".to_owned());
    }
    // Names appear in NBD URLs and in commands printed for copying, so they need no quoting.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    for name in [name, tenant] {
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(format!("invalid name {name:?}: use letters, digits, -, _ and dots"));
        }
    }
    let size: Bytes = size.parse().map_err(|error| format!("{error}"))?;
    if size.0 == 0 || !size.0.is_multiple_of(BLOCK_BYTES as u64) {
        return Err(format!("{size} is not a multiple of 4KiB"));
    }
    let (name, tenant) = (name.to_owned(), tenant.to_owned());
    Ok(Export { name, tenant, blocks: size.blocks_ceil(), is_verified })
}

fn map_memory(value: &Option<String>) -> Checked<MapMemory> {
    match given("block.map-memory", value)? {
        "all" => Ok(MapMemory::Whole),
        _ => parsed("block.map-memory", value).map(MapMemory::AtMost),
    }
}

fn memory(value: &Option<String>) -> Checked<Bytes> {
    let memory = in_memory("block.memory", "", value)?;
    if memory < zonal_block::MEMORY_MIN {
        let why = format!("{memory} is too small: write {} or more", zonal_block::MEMORY_MIN);
        return Err(ConfigError::new("block.memory", why));
    }
    Ok(memory)
}

fn connections(value: &Option<String>) -> Checked<usize> {
    let text = given("nbd.connections", value)?;
    let count = text.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
    count.ok_or_else(|| {
        let why = format!("{text:?}: write a number from 1 to {CONNECTIONS_MAX}");
        ConfigError::new("nbd.connections", why)
    })
}

/// Largest configurable number of connections. Each may need 32 MiB of memory and more.
const CONNECTIONS_MAX: usize = 4096;

/// With more spare space, exports would get too little of the device.
const SPARE_PERCENT_MAX: u8 = 90;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_every_key_and_is_what_holds_without_it() {
        let file: File = gathered(DEFAULTS, None, []).unwrap();
        let config = check(&file).unwrap();
        assert_eq!((config.devices, config.exports), (Devices::Own, Vec::new()));
        assert_eq!((config.socket, config.listen), (None, None));
        assert_eq!((config.spare_percent, config.connections_max), (10, 64));
        let whole = toml::Table::try_from(&file).unwrap();
        for (section, keys) in [("block", 8), ("nbd", 3), ("admin", 2), ("log", 3)] {
            assert_eq!(whole[section].as_table().map(toml::Table::len), Some(keys), "{section}");
        }
    }

    /// Regression: the prefixes of environment variables match the sections only partly, so the
    /// sample file must name each.
    #[test]
    fn the_sample_names_the_flag_and_the_variable_of_each_key() {
        let command = BlockFlags::augment_args(clap::Command::new("block"));
        let is_key = |line: &&str| !line.starts_with('#') && line.contains(" = ");
        let mut keys = DEFAULTS.lines().filter(is_key);
        for flag in command.get_arguments().filter(|flag| flag.get_long() != Some("config")) {
            let variable = flag.get_env().unwrap().to_str().unwrap();
            let (flag, line) = (flag.get_long().unwrap(), keys.next().unwrap());
            let is_named = line.contains(&format!("# --{flag}, ")) && line.contains(variable);
            assert!(is_named, "--{flag} and {variable}: {line}");
        }
        assert_eq!(keys.next(), None);
    }

    #[track_caller]
    fn check_export(text: &str, expected: Result<(&str, &str, u64, bool), &str>) {
        let export = export(text);
        let shown = export.as_ref().map(|of| (&*of.name, &*of.tenant, of.blocks.0, of.is_verified));
        assert_eq!(shown.map_err(|why| why.as_str()), expected, "{text:?}");
    }

    #[test]
    fn an_export_has_a_name_a_size_perhaps_a_tenant_and_is_verified_unless_told_otherwise() {
        check_export("vm=1MiB", Ok(("vm", "vm", 256, true)));
        check_export("db-1=4KiB,postgres", Ok(("db-1", "postgres", 1, true)));
        check_export("vm=1MiB,verify=on", Ok(("vm", "vm", 256, true)));
        check_export("vm=1MiB,verify=off", Ok(("vm", "vm", 256, false)));
        check_export("db-1=4KiB,postgres,verify=off", Ok(("db-1", "postgres", 1, false)));
        check_export("vm=1MiB,verify", Err("invalid verify: write verify=on or verify=off"));
        check_export(
            "vm=1MiB,verify=no",
            Err("invalid verify=no: write verify=on or verify=off, behind the tenant"),
        );
        check_export(
            "vm=1MiB,verify=off,postgres",
            Err("invalid verify=off,postgres: write verify=on or verify=off, behind the tenant"),
        );
        check_export("vm=4097B", Err("4097B is not a multiple of 4KiB"));
        check_export("vm=0", Err("0B is not a multiple of 4KiB"));
        check_export("=1MiB", Err("invalid name \"\": use letters, digits, -, _ and dots"));
        check_export("vm=1MiB,", Err("invalid name \"\": use letters, digits, -, _ and dots"));
        check_export("vm", Err("write NAME=SIZE[,TENANT][,verify=off], such as disk=10GiB"));
    }
}
