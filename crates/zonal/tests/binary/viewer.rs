//! A viewer of the live view, for tests.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than any wait on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A viewer of the live view.
pub(crate) struct Viewer {
    lines: BufReader<TcpStream>,
    pub(crate) document: Value,
}

impl Viewer {
    pub(crate) fn connect(admin: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /api/v1/live HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut viewer = Self { lines: BufReader::new(stream), document: Value::Null };
        viewer.document = viewer.next("document");
        viewer
    }

    /// The next event of this name. Patches before it are applied.
    pub(crate) fn next(&mut self, name: &str) -> Value {
        let mut event = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the stream ended");
            if let Some(named) = line.strip_prefix("event: ") {
                named.trim_end().clone_into(&mut event);
            }
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let data = serde_json::from_str(data).unwrap();
            if event == "patch" {
                json_patch::merge(&mut self.document, &data);
            }
            if event == name {
                return data;
            }
        }
    }

    /// All zones, in the order of their numbers.
    pub(crate) fn zones(&self) -> Vec<Value> {
        let shards = self.document["zones"].as_object().unwrap();
        let zones = shards.values().flat_map(|shard| shard["zones"].as_object().unwrap().values());
        let mut zones: Vec<Value> = zones.cloned().collect();
        zones.sort_by_key(|zone| zone["zone"].as_u64());
        zones
    }
}

/// The live document leaves such fields out.
pub(crate) fn without_nulls(document: &mut Value) {
    document.as_object_mut().unwrap().retain(|_, value| !value.is_null());
}
