"""World of a page: a folder in which its commands run, with servers, objects and keys that they name.

Commands run as they are printed. Only what no test machine has is replaced: drives, addresses of
others, folders of the system. `Replacements` lists it all.
"""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

# Seconds until a server is ready or a command has ended: far more than either takes on a busy machine.
WAIT_SECONDS_MAX = 60

MIB = 1 << 20
# Objects that the pages name, in the folder of the origin.
OBJECTS = {"lake/dim/a.parquet": 40 * MIB, "lake/dim/2026-01.parquet": 8 * MIB}


class Failed(Exception):
    """A command of a page did not do what the page says."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class World:
    """A folder with the program at the paths that pages name, and the servers that run in it."""

    def __init__(self, folder, zonal):
        self.folder = pathlib.Path(folder)
        self.ports = {name: free_port() for name in ("endpoint", "admin", "origin", "block_admin")}
        self.servers = []
        # The server that the page's last command started.
        self.of_page = None
        programs = self.folder / "bin"
        programs.mkdir()
        for path in (programs / "zonal", self.folder / "target/quick/zonal"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(zonal)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "ZONAL_"))
        }
        # The default ports may be taken on this machine.
        self.environment |= {
            "PATH": f"{programs}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            "ZONAL_ADMIN_LISTEN": f"127.0.0.1:{self.ports['admin']}",
            "ZONAL_BLOCK_ADMIN_LISTEN": f"127.0.0.1:{self.ports['block_admin']}",
            "ZONAL_ENDPOINT_LISTEN": f"127.0.0.1:{self.ports['endpoint']}",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        for name, size in OBJECTS.items():
            path = self.folder / "origin" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(size))
        (self.folder / "origin/lake/.zonal-uploads/abandoned").mkdir(parents=True)
        secrets = self.folder / "etc"
        secrets.mkdir()
        for name in ("secret", "origin-secret", "r2", "lake-reader", "aws", "admin-token"):
            (secrets / name).write_text("sixteen-letters-or-more\n")
        self.certify(secrets)

    def certify(self, folder):
        """Makes a self-signed certificate for 127.0.0.1, which is its own CA."""
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
            + ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
            + ["-keyout", folder / "key.pem", "-out", folder / "ca.pem"],
            check=True,
            capture_output=True,
        )

    def replaced(self, text):
        """A page's text, with what this machine lacks replaced."""
        for page, here in (
            ("block:/dev/nvme1n1", f"file:{self.folder}/nvme1n1?size=1GiB"),
            ("block:/dev/nvme0n1", f"file:{self.folder}/nvme0n1?size=512MiB"),
            (
                "s3:https://s3.eu-west-1.amazonaws.com?region=eu-west-1&path-style=false",
                f"s3:http://127.0.0.1:{self.ports['origin']}?region=us-east-1&path-style=true",
            ),
            ("https://node-1.lake.internal:9090", f"https://127.0.0.1:{self.ports['admin']}"),
            ("0.0.0.0:9000", f"127.0.0.1:{self.ports['endpoint']}"),
            ("vm=500GiB", "vm=128MiB"),
            ("db=200GiB", "db=64MiB"),
            ("/etc/zonal/", f"{self.folder}/etc/"),
            ("/srv/lake", "origin"),
            ("DIR/BUCKET", "origin/lake"),
            ("/path/block.sock", f"{self.folder}/zonal-block/block.sock"),
        ):
            text = text.replace(page, here)
        return text

    def start(self, command, ready):
        """Starts a server by a shell command, waits until it prints `ready`, and returns its process."""
        log = self.folder / f"log-{time.monotonic_ns()}"
        with log.open("wb") as out:
            server = subprocess.Popen(
                ["bash", "-c", f"exec {command}" if command.startswith("zonal") else command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.servers.append(server)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not re.search(ready, log.read_text(errors="replace")):
            if server.poll() is not None or deadline < time.monotonic():
                raise Failed(f"{command}\n{log.read_text(errors='replace')}")
            time.sleep(0.01)
        return server

    def run(self, command, *, program=("bash", "-c"), status=0):
        """Runs a command to its end, and returns what it printed."""
        done = subprocess.run(
            [*program, command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=WAIT_SECONDS_MAX,
            text=True,
        )
        if status is not None and done.returncode != status:
            raise Failed(f"{command}\nended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def stop(self, server):
        self.servers.remove(server)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()

    def close(self):
        for server in list(self.servers):
            self.stop(server)
