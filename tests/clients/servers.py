"""The servers of an end-to-end test: an S3 origin, a proxy that counts, and Zonal in front.

    client -> zonal serve -> counting proxy -> versitygw -> a folder
    client -------------- direct -----------> versitygw

Without a Zonal binary the counting proxy itself plays the gateway: so the tests can be tested.
Only the way to the gateway is ever HTTPS; the origin is always asked over HTTP, to be counted.
"""

import contextlib
import dataclasses
import itertools
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from counter import CountingProxy

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSITYGW = ROOT / ".tools/bin/versitygw"

REGION = "us-east-1"
# Below it, the gateway takes the host of a request for the name of its bucket.
DOMAIN = "s3.localhost"
# Seconds until a server must answer: a debug build formats its device in one of them.
START_SECONDS_MAX = 30
# Seconds until a server must be gone after SIGTERM.
STOP_SECONDS_MAX = 15
# Lines of a server's log that are shown when it fails.
LOG_LINES_SHOWN = 40


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where an S3 server listens, and a key that it knows."""

    port: int
    access_key: str
    secret_key: str
    # The authority that signed its certificate, when it speaks HTTPS.
    ca_file: pathlib.Path | None = None
    # Whose subdomains are its buckets, when it has one.
    domain: str | None = None
    # The port of Zonal's admin address, when the test chose one.
    admin_port: int | None = None

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    @property
    def is_https(self):
        return self.ca_file is not None

    @property
    def scheme(self):
        return "https" if self.is_https else "http"

    @property
    def url(self):
        return f"{self.scheme}://{self.host}"


@dataclasses.dataclass(frozen=True)
class Certificates:
    """An authority of the test's own, and the certificate for 127.0.0.1 and the domain that it signed."""

    ca_file: pathlib.Path
    certificate: pathlib.Path
    private_key: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Servers:
    """What a test talks to."""

    # The origin itself.
    direct: Endpoint
    # The origin, with writes and reads in turn: for tests that write while they read.
    direct_in_turn: Endpoint
    gateway: Endpoint
    counter: CountingProxy
    # False when the counting proxy plays the gateway.
    is_cached: bool
    # A folder for the test's own files, gone when it ends.
    folder: pathlib.Path


@contextlib.contextmanager
def running(zonal, freshness="revalidate", certificates=None):
    """Starts all servers, with Zonal from the binary `zonal`, or without it when that is None. With
    certificates the gateway speaks HTTPS."""
    scratch = ROOT / "target"
    scratch.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="clients-", dir=scratch))
        folder = pathlib.Path(folder)
        direct = Endpoint(free_port(), "origin-key", "origin-secret-1")
        stack.enter_context(origin(folder, direct))
        counter = CountingProxy(direct.port)
        gateway = dataclasses.replace(direct, port=counter.port)
        if zonal is not None:
            ca_file = certificates and certificates.ca_file
            keys = "gateway-key", "gateway-secret-1"
            gateway = Endpoint(free_port(), *keys, ca_file, DOMAIN, free_port())
            before = f"http://127.0.0.1:{counter.port}", direct
            options = freshness, certificates
            stack.enter_context(cache(zonal, folder, gateway, before, options))
        files = folder / "files"
        files.mkdir()
        in_turn = dataclasses.replace(direct, port=counter.uncounted_port)
        yield Servers(direct, in_turn, gateway, counter, zonal is not None, files)


def origin(folder, endpoint):
    """versitygw over a folder. Its metadata lie beside it, for not every file system has xattrs."""
    objects, metadata, versions = folder / "objects", folder / "metadata", folder / "versions"
    for path in (objects, metadata, versions):
        path.mkdir()
    command = [VERSITYGW, "--quiet", "--port", endpoint.host]
    command += ["posix", "--sidecar", metadata, "--versioning-dir", versions, objects]
    environment = {
        "ROOT_ACCESS_KEY": endpoint.access_key,
        "ROOT_SECRET_KEY": endpoint.secret_key,
        "VGW_REGION": REGION,
    }
    return process(command, environment, folder / "origin.log", f"{endpoint.url}/")


@contextlib.contextmanager
def certificates_made():
    """An authority and a certificate that it signed, until the block ends. They are two, because a
    client refuses a server whose certificate is itself an authority's."""
    scratch = ROOT / "target"
    scratch.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="certificates-", dir=scratch) as folder:
        folder = pathlib.Path(folder)
        ca_file, ca_key = folder / "ca.pem", folder / "ca.key"
        made = Certificates(ca_file, folder / "certificate.pem", folder / "private.key")
        authority = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"]
        make_certificate("Zonal test authority", authority, ca_file, ca_key)
        names = f"IP:127.0.0.1,DNS:{DOMAIN},DNS:*.{DOMAIN}"
        server = [f"subjectAltName={names}", "basicConstraints=critical,CA:FALSE"]
        server += ["keyUsage=critical,digitalSignature", "extendedKeyUsage=serverAuth"]
        signer = ["-CA", ca_file, "-CAkey", ca_key]
        make_certificate("127.0.0.1", server, made.certificate, made.private_key, signer)
        yield made


def make_certificate(name, extensions, certificate, private_key, signer=()):
    """Signed by itself unless a signer is named."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-noenc", "-days", "2", "-subj", f"/CN={name}", *signer]
    command += ["-out", certificate, "-keyout", private_key]
    # Nothing of the machine's own configuration is added to the extensions.
    command += ["-config", os.devnull]
    for extension in extensions:
        command += ["-addext", extension]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl made no certificate: {done.stderr.decode().strip()}")


def https_options(certificates):
    if certificates is None:
        return []
    files = ["--certificate-file", certificates.certificate]
    return files + ["--private-key-file", certificates.private_key]


def cache(zonal, folder, endpoint, origin, options):
    """Zonal, with the counting proxy as its origin: the proxy's URL, and the origin's own keys."""
    url, direct = origin
    environment = {
        "AWS_ACCESS_KEY_ID": direct.access_key,
        "AWS_SECRET_ACCESS_KEY": direct.secret_key,
    }
    spec = f"s3:{url}?region={REGION}&path-style=true"
    return serve(zonal, folder, endpoint, (spec, environment), *options)


@contextlib.contextmanager
def over_a_folder(zonal, bucket):
    """Zonal with a local folder as its origin, and the folder of a bucket in it."""
    scratch = ROOT / "target"
    with tempfile.TemporaryDirectory(prefix="clients-", dir=scratch) as folder:
        folder = pathlib.Path(folder)
        objects = folder / "objects"
        (objects / bucket).mkdir(parents=True)
        gateway = Endpoint(free_port(), "gateway-key", "gateway-secret-1")
        with serve(zonal, folder, gateway, (f"file:{objects}", {}), "revalidate"):
            yield gateway, objects / bucket


def serve(zonal, folder, endpoint, origin, freshness, certificates=None):
    """Zonal, with its files in a folder; the origin is its spec and the environment it needs."""
    origin_spec, environment = origin
    admin = f"127.0.0.1:{endpoint.admin_port or free_port()}"
    command = [zonal, "serve"]
    command += ["--device", f"file:{folder}/device?size=2GiB"]
    command += ["--origin", origin_spec]
    command += ["--domain", endpoint.domain] if endpoint.domain else []
    command += ["--listen", endpoint.host, "--admin", admin]
    command += ["--access-key", endpoint.access_key, "--secret-key", endpoint.secret_key]
    command += ["--policy", "zone-lru", "--freshness", freshness]
    command += ["--data-dir", f"{folder}/data", *https_options(certificates)]
    return process(command, environment, folder / "zonal.log", f"http://{admin}/readyz")


@contextlib.contextmanager
def process(command, environment, log, ready_url):
    """Runs a server until the block ends. It must become ready, and must end when told to."""
    with log.open("wb") as out:
        server = subprocess.Popen(
            [str(word) for word in command],
            env={"PATH": os.environ["PATH"], **environment},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_ready(server, ready_url)
        yield server
        if server.poll() is not None:
            raise RuntimeError(f"{command[0]} ended by itself with {server.returncode}")
        stop(server)
    except BaseException:
        show_end(log)
        raise
    finally:
        server.kill()
        server.wait()


def wait_until_ready(server, url):
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"{server.args[0]} ended at once with {server.returncode}")
        if answers(url):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{server.args[0]} is not ready after {START_SECONDS_MAX} s")


def answers(url):
    """Whether `url` answers; a refusal for want of a signature is an answer, too."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError as refusal:
        return refusal.code == 403
    except OSError:
        return False


def stop(server):
    server.send_signal(signal.SIGTERM)
    status = server.wait(timeout=STOP_SECONDS_MAX)
    if status not in (0, -signal.SIGTERM):
        raise RuntimeError(f"{server.args[0]} ended with {status} after SIGTERM")


def show_end(log):
    lines = log.read_text(errors="replace").splitlines()
    print(f"--- the end of {log.name}")
    print("\n".join(lines[-LOG_LINES_SHOWN:]))


# Below those that the kernel gives to clients (32,768 and up on Linux): a client that polls for a server on one of those may
# be connected to itself. Processes that run beside each other begin at different places.
PORTS = itertools.cycle(range(10_000, 20_000))
for _ in range(os.getpid() % 100 * 100):
    next(PORTS)


def free_port():
    for port in PORTS:
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
