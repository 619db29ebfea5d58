"""How much memory Zonal takes when clients are many, slow or silent, and how often it asks the
origin then.

Each scene starts a Zonal of its own, in front of a made-up origin that counts, and looks at the
largest resident memory that the kernel saw of it (VmHWM). It must stay under the bound that
docs/serve/configuration.md states. The soft limit of file descriptors is that of a shell: Zonal has to
raise it.
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import resource
import selectors
import socket
import ssl
import sys
import tempfile
import threading
import time
import urllib.parse

import made_origin
import s3_clients
import servers

MIB, GIB = 1 << 20, 1 << 30

BUCKET = "lake"
KEYS = servers.Endpoint(0, "memory-key", "memory-secret-1")

# What the scenes set, so that the bound does not depend on the machine.
SHARDS = 2
BUFFERS, DRAM = 96 * MIB, 64 * MIB

# The bound of docs/serve/configuration.md, in its words and order.
PROCESS_BYTES = 96 * MIB
CONNECTION_BYTES = 40 << 10
# More where the connection is HTTPS.
SECURED_BYTES = 16 << 10
SLOW_READER_BYTES = 512 << 10
# More where it is HTTPS: what is encrypted and not taken yet.
SLOW_SECURED_BYTES = 96 << 10
FETCH_BYTES = 512 << 10
FETCHES_MAX = 256


def bound(is_https, connections, slow_readers=0, fetches=0):
    """What may be resident at most. Heads and index are next to nothing in these scenes."""
    of_shards = SHARDS * (BUFFERS + DRAM)
    of_clients = connections * CONNECTION_BYTES + slow_readers * SLOW_READER_BYTES
    if is_https:
        of_clients += connections * SECURED_BYTES + slow_readers * SLOW_SECURED_BYTES
    return PROCESS_BYTES + of_shards + of_clients + fetches * FETCH_BYTES


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zonal", required=True, help="the binary")
    parser.add_argument("--full", action="store_true", help="the object of the crowd has 1 GiB: 3 minutes")
    parser.add_argument("scenes", nargs="*", help=f"of {', '.join(SCENES)}; all without any")
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    complaints = []
    for name in arguments.scenes or SCENES:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="memory-", dir=servers.ROOT / "target") as folder:
            scene = Scene(arguments.zonal, pathlib.Path(folder), arguments.full)
            with scene.secured() if name.startswith("https-") else contextlib.nullcontext():
                said = SCENES[name](scene)
        print(f"{name}: {said} ({time.monotonic() - begin:.0f} s)")
        complaints += [f"{name}: {complaint}" for complaint in scene.complaints]
    for complaint in complaints:
        print(f"WRONG: {complaint}")
    print(f"{0 if complaints else 1} passed, {1 if complaints else 0} failed")
    return 1 if complaints else 0


@dataclasses.dataclass
class Scene:
    """A Zonal of its own, with what was wrong about it."""

    zonal: str
    folder: pathlib.Path
    is_full: bool
    complaints: list = dataclasses.field(default_factory=list)
    # What it shows to clients; without it, it speaks HTTP.
    certificates: servers.Certificates | None = None

    @contextlib.contextmanager
    def secured(self):
        """Speaks HTTPS for as long as the block lasts."""
        with servers.certificates_made() as self.certificates:
            yield

    @contextlib.contextmanager
    def running(self, origin, *words):
        ca_file = self.certificates and self.certificates.ca_file
        endpoint = dataclasses.replace(KEYS, port=servers.free_port(), ca_file=ca_file)
        admin = f"127.0.0.1:{servers.free_port()}"
        # With the soft limit that shells come with.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        command = ["prlimit", f"--nofile=1024:{hard}", self.zonal, "serve"]
        command += ["--listen", endpoint.host, "--admin", admin]
        command += ["--device", f"file:{self.folder}/device?size=4GiB", "--shards", SHARDS]
        command += ["--buffers", f"{BUFFERS // MIB}MiB", "--dram", f"{DRAM // MIB}MiB"]
        command += ["--origin", origin, "--freshness", "immutable"]
        command += ["--origin-credentials", "anonymous"] if origin.startswith("s3:") else []
        command += ["--access-key", KEYS.access_key, "--secret-key", KEYS.secret_key]
        command += ["--data-dir", self.folder / "data", *servers.https_options(self.certificates), *words]
        log = self.folder / "zonal.log"
        with servers.process(command, {}, log, f"http://{admin}/readyz") as process:
            yield endpoint, process

    def hold(self, process, limit):
        """Holds a process to a bound, and says how it did."""
        peak = resident_bytes(process.pid)
        if limit < peak:
            self.complaints.append(f"{peak / MIB:.0f} MiB resident, bound {limit / MIB:.0f} MiB")
        return f"at most {peak / MIB:.0f} MiB resident, bound {limit / MIB:.0f} MiB"


def resident_bytes(pid):
    """The largest resident memory so far."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("Linux says how large a process is")


def made_up(object_bytes):
    origin = made_origin.MadeOrigin(object_bytes)
    return origin, f"s3:http://127.0.0.1:{origin.port}?region={servers.REGION}"


def requests(endpoint, keys):
    """Signed GETs, whole, one for each key."""
    client = s3_clients.boto3_client(endpoint)
    for key in keys:
        url = client.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": key})
        parts = urllib.parse.urlsplit(url)
        head = f"GET {parts.path}?{parts.query} HTTP/1.1\r\nhost: {endpoint.host}\r\n\r\n"
        yield head.encode()


def connections(endpoint, count, receive_buffer=None):
    """So many, one after the other, over HTTPS where the endpoint has a certificate."""
    context = ssl.create_default_context(cafile=endpoint.ca_file) if endpoint.is_https else None
    for _ in range(count):
        client = socket.socket()
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(("127.0.0.1", endpoint.port))
        yield context.wrap_socket(client, server_hostname="127.0.0.1") if context else client


# --- scenes


IDLE = 10_000


def idle(scene):
    """Connections that have asked once and ask no more."""
    _, spec = made_up(1000)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = min(IDLE, hard - 256)
    # All come from one address.
    limits = ["--limits-connections", count, "--limits-connections-per-address", "100%"]
    with scene.running(spec, *limits) as (endpoint, process):
        [ask] = requests(endpoint, ["small"])
        with contextlib.ExitStack() as stack:
            for client in connections(endpoint, count):
                stack.enter_context(client)
                client.sendall(ask)
                read_answer(client)
            return f"{count} idle connections: {scene.hold(process, bound(scene.certificates is not None, count))}"


def read_answer(client):
    """Reads a small answer; says what its status is."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += client.recv(64 << 10)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += client.recv(64 << 10)
    return int(head.split()[1])


# What they take in a second.
SLOW_BYTES = 4 << 10
SLOW, SLOW_SECONDS = 1000, 20


def slow(scene):
    """Readers of 1 GiB objects that take 4 KiB a second."""
    origin, spec = made_up(GIB)
    with scene.running(spec) as (endpoint, process):
        # Ten for each object: more objects show how fast the origin is, and nothing else.
        asks = list(requests(endpoint, [f"large-{n // 10}" for n in range(SLOW)]))
        with contextlib.ExitStack() as stack:
            # All are there before the first asks: who asks and takes nothing for long is not slow but gone.
            clients = [stack.enter_context(one) for one in connections(endpoint, SLOW, receive_buffer=16 << 10)]
            for ask, client in zip(asks, clients, strict=True):
                client.sendall(ask)
                client.setblocking(False)
            taken, gone = [0] * SLOW, 0
            for _ in range(SLOW_SECONDS):
                time.sleep(1)
                for n, client in enumerate(clients):
                    with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                        piece = client.recv(SLOW_BYTES)
                        taken[n] += len(piece)
                        gone += not piece
            started = sum(0 < n for n in taken)
            fetched = sum(origin.asked("GET").values())
            if started != SLOW or gone:
                scene.complaints.append(f"{started} of {SLOW} were answered, {gone} were cut")
            limit = bound(scene.certificates is not None, SLOW, SLOW, FETCHES_MAX)
            return (
                f"{SLOW} readers of 1 GiB at {SLOW_BYTES} B/s: {scene.hold(process, limit)}; "
                f"{fetched} requests to the origin"
            )


def crowd(scene, count, object_bytes):
    """So many readers of one object that is not cached, all at once."""
    origin, spec = made_up(object_bytes)
    stripes = -(-object_bytes // (32 * MIB))
    with scene.running(spec) as (endpoint, process):
        [ask] = requests(endpoint, ["one"])
        lengths = read_together(endpoint, ask, count)
        asked = origin.asked("GET").total(), origin.asked("HEAD").total()
        # A fetch ends when all its readers pause for two seconds, as they do on a busy machine. The next reader that
        # goes on asks for the rest.
        # Readers that come while a request is in flight share the next one, a HEAD.
        if not stripes <= asked[0] <= 3 * stripes or count // 10 < asked[1]:
            scene.complaints.append(f"{asked} GET and HEAD at the origin for {stripes} stripes")
        if set(lengths) != {object_bytes}:
            scene.complaints.append(f"answers of {set(lengths)} bytes")
        held = scene.hold(process, bound(False, count, count, FETCHES_MAX))
        return (
            f"{count} readers of {object_bytes // MIB} MiB: {held}; "
            f"{asked[0]} requests for {stripes} stripes"
        )


THREADS = 4


def read_together(endpoint, ask, count):
    """The lengths of the bodies that so many clients got. The kernel drops the bytes, unseen."""
    clients = list(connections(endpoint, count))
    lengths = []
    threads = [
        threading.Thread(target=drain, args=(clients[n::THREADS], ask, lengths))
        for n in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return lengths


def drain(clients, ask, lengths):
    with selectors.DefaultSelector() as selector:
        left = {}
        for client in clients:
            client.sendall(ask)
        for client in clients:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            left[client] = [length, length]
            client.setblocking(False)
            selector.register(client, selectors.EVENT_READ)
        dropped = bytearray(1 << 20)
        while left:
            for key, _ in selector.select(timeout=60):
                client = key.fileobj
                with contextlib.suppress(BlockingIOError):
                    room = min(len(dropped), left[client][0])
                    took = client.recv_into(dropped, room, socket.MSG_TRUNC)
                    left[client][0] -= took
                    if took == 0 or left[client][0] == 0:
                        whole, missing = left.pop(client)[::-1]
                        lengths.append(whole - missing)
                        selector.unregister(client)
                        client.close()


def burst(scene):
    return crowd(scene, 500, 8 * MIB)


def large(scene):
    return crowd(scene, 100, GIB if scene.is_full else 96 * MIB)


SCENES = {
    "idle": idle,
    "slow": slow,
    "burst": burst,
    "large": large,
    # Those whose connections last.
    "https-idle": idle,
    "https-slow": slow,
}

if __name__ == "__main__":
    sys.exit(main())
