//! nginx with a sliced cache: the cost of a web server that verifies no signature and no checksum,
//! and sends pages of the page cache without a copy.

use std::process::{Command, Stdio};

use super::Stage;
use super::http::{Server, free_address};

/// Label on the page.
pub(super) const NAME: &str = "nginx slice, unsigned, from the page cache";

/// The caching server, and the server of the files behind it.
pub(super) struct Nginx {
    cache: Server,
    _origin: Server,
}

impl Nginx {
    pub(super) fn start(stage: &Stage) -> Result<Self, String> {
        let path = |name: &str| stage.children.path(name).display().to_string();
        let origin = free_address()?;
        let files = format!("server {{ listen {origin}; root {}; }}", path("origin"));
        let origin = server(stage, "nginx-origin", (origin, &files))?;
        let address = free_address()?;
        let cache = format!(
            "proxy_cache_path {} keys_zone=slices:64m max_size=8g levels=1:2 use_temp_path=off;
            server {{
                listen {address};
                location / {{
                    slice 1m;
                    proxy_cache slices;
                    proxy_cache_key $uri$slice_range;
                    proxy_cache_valid 200 206 1d;
                    proxy_set_header Range $slice_range;
                    proxy_http_version 1.1;
                    proxy_pass http://{};
                }}
            }}",
            path("nginx-slices"),
            origin.address,
        );
        let cache = server(stage, "nginx", (address, &cache))?;
        Ok(Self { cache, _origin: origin })
    }

    pub(super) const fn server(&self) -> &Server {
        &self.cache
    }
}

/// A single process, so that its CPU time is complete.
fn server(
    stage: &Stage,
    name: &'static str,
    (address, servers): (String, &str),
) -> Result<Server, String> {
    let folder = stage.children.path(&format!("{name}-files"));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let (folder, file) = (folder.display(), folder.join("nginx.conf"));
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|part| format!("{part}_temp_path {folder}/{part};\n"))
        .concat();
    let configuration = format!(
        "daemon off;
        master_process off;
        pid {folder}/pid;
        error_log {folder}/errors;
        events {{ worker_connections 1024; }}
        http {{
            access_log off;
            sendfile on;
            keepalive_requests 1000000000;
            {temporary}
            {servers}
        }}
        "
    );
    std::fs::write(&file, configuration).map_err(|error| error.to_string())?;
    let mut command = Command::new("nginx");
    command.arg("-e").arg(format!("{folder}/errors")).arg("-c").arg(&file);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    stage.children.note(&command);
    Server::spawn(&mut command, address, name)
}
