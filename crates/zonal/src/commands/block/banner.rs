//! Start-up banner of `zonal block`: commands that the operator can copy.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use zonal_block::Export;

use crate::banner::{quoted, reachable};

/// Contents of the banner.
pub(super) struct Banner<'a> {
    pub(super) socket: Option<&'a Path>,
    pub(super) address: Option<SocketAddr>,
    pub(super) admin: SocketAddr,
    pub(super) exports: &'a [Export],
    /// Summary of the devices.
    pub(super) about: String,
}

impl Banner<'_> {
    pub(super) fn text(&self) -> String {
        let size = |export: &Export| format!("{} ({})", export.name, export.blocks.bytes());
        let exports: Vec<String> = self.exports.iter().map(size).collect();
        let mut text = format!("Zonal serves {} over NBD, {}\n\n", exports.join(", "), self.about);
        for line in self.lines() {
            let _ = writeln!(text, "  {line}");
        }
        let _ = writeln!(
            text,
            "\nNBD has no authentication: a client that can connect can read and write."
        );
        text
    }

    fn lines(&self) -> Vec<String> {
        let Some(first) = self.exports.first() else { return Vec::new() };
        let name = &first.name;
        let mut lines = Vec::new();
        if let Some(path) = self.socket {
            let path = path.display().to_string();
            let uri = quoted(&format!("nbd+unix:///{name}?socket={}", escaped(&path)));
            lines.push(format!("nbdinfo {uri}"));
            lines.push(format!("qemu-system-x86_64 -drive file={uri},format=raw,if=virtio"));
            let path = quoted(&path);
            lines.push(format!("nbd-client -unix {path} /dev/nbd0 -N {name} -b 4096"));
        }
        if let Some(address) = self.address.map(reachable) {
            lines.push(format!("nbdinfo nbd://{address}/{name}"));
            let (host, port) = (address.ip(), address.port());
            lines.push(format!("nbd-client {host} {port} /dev/nbd0 -N {name} -b 4096"));
        }
        lines.push(format!("zonal block stats --admin {}", reachable(self.admin)));
        lines
    }
}

/// Percent-encodes a path for the query of a URI.
fn escaped(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().fold(String::new(), |mut text, byte| {
        if is_plain(byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_base::Blocks;

    #[test]
    fn lines_can_be_copied() {
        let export = Export {
            name: "vm".to_owned(),
            tenant: "vm".to_owned(),
            blocks: Blocks(1 << 18),
            is_verified: true,
        };
        let banner = Banner {
            socket: Some(Path::new("/a b/block.sock")),
            address: Some("0.0.0.0:10809".parse().unwrap()),
            admin: "127.0.0.1:9091".parse().unwrap(),
            exports: &[export],
            about: "kept on x".to_owned(),
        };
        let text = banner.text();
        for line in [
            "Zonal serves vm (1GiB) over NBD, kept on x\n",
            "  nbdinfo 'nbd+unix:///vm?socket=/a%20b/block.sock'\n",
            "  nbd-client -unix '/a b/block.sock' /dev/nbd0 -N vm -b 4096\n",
            "  nbdinfo nbd://127.0.0.1:10809/vm\n",
            "  zonal block stats --admin 127.0.0.1:9091\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
