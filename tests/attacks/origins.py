"""Origins that are attacked: real S3 servers over a temporary folder, each with a user and a secret of its own.

An origin says where it listens, who its root is, which of its answers no client of the gateway may ever see (`forbidden`),
and what of it is neither bucket nor object but must not change either (`administration`).
"""

import contextlib
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile

import wire

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
from servers import free_port  # noqa: E402

# Java takes ten seconds on a busy machine; the others one.
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 15


class Origin:
    """A server that runs until it is closed. Subclasses say how it is started."""

    name = "origin"
    # Whether its answers show that an administrator's interface was reached.
    forbidden = ()
    # Keys of objects that are the server's own notes, and nobody's objects.
    notes = None

    def __init__(self, program, folder, token):
        self.program, self.folder, self.token = program, folder, token
        self.address = wire.Address(free_port())
        self.root = wire.Key("root" + token[:10], "root-secret-" + token)
        # A user of the origin's own, whose secret must not be told.
        self.user = wire.Key("user" + token[:10], "user-secret-" + token)
        self.stack = contextlib.ExitStack()
        self.session = wire.Session(self.address, self.root)

    def start(self):
        log = self.folder / f"{self.name}.log"
        server = self.stack.enter_context(running(self.command(), self.environment(), log))
        wait_for(f"{self.address.url}/", server, log)
        self.add_user()

    def close(self):
        self.session.close()
        self.stack.close()

    def environment(self):
        return {}

    def add_user(self):
        """Makes `user`, where the server has users."""

    def settle(self):
        """Puts right what the server itself leaves behind."""

    def administration(self):
        """All that is neither bucket nor object, as a mapping that can be compared."""
        return {}

    def repair_administration(self):
        """Undoes what changed `administration`."""

    def paths(self):
        """Where its files are, to see quickly that nothing was written."""
        return [self.folder / "objects"]


class Versitygw(Origin):
    name = "versitygw"
    forbidden = (rb"<Accounts>", rb"<ListUserAccountsResult", rb"<ListBucketsResult>.*<Owner>")

    def command(self):
        objects, metadata, versions, users = self.paths()
        for path in self.paths():
            path.mkdir(exist_ok=True)
        # A short name: see world.py.
        (self.folder / "o").symlink_to("objects")
        command = [self.program, "--quiet", "--keep-alive", "--port", self.address.host, "--iam-dir", users]
        return command + ["posix", "--sidecar", metadata, "--versioning-dir", versions, objects]

    def environment(self):
        return {
            "ROOT_ACCESS_KEY": self.root.access_key,
            "ROOT_SECRET_KEY": self.root.secret_key,
            "VGW_REGION": wire.REGION,
        }

    def paths(self):
        return [self.folder / name for name in ("objects", "metadata", "versions", "users")]

    def add_user(self):
        body = f"<Account><Access>{self.user.access_key}</Access><Secret>{self.user.secret_key}</Secret>"
        body += "<Role>user</Role></Account>"
        answer = self.session.call("PATCH", "/create-user", body=body.encode())
        if answer.status not in (200, 201):
            raise RuntimeError(f"versitygw made no user: {answer} {answer.body[:200]}")

    def administration(self):
        users = self.session.call("PATCH", "/list-users")
        owners = self.session.call("PATCH", "/list-buckets")
        return {"users": users.body, "owners": owners.body}

    def repair_administration(self):
        users = self.session.call("PATCH", "/list-users").body
        for name in re.findall(rb"<Access>([^<]*)</Access>", users):
            self.session.call("PATCH", "/delete-user", f"access={name.decode()}")
        self.add_user()


class Minio(Origin):
    name = "minio"
    forbidden = (rb"deploymentID", rb"minio_(cluster|node|bucket)_", rb"iam-assets/", rb"<AssumeRole\w*Result")

    def command(self):
        (self.folder / "objects").mkdir(exist_ok=True)
        (self.folder / "certs").mkdir(exist_ok=True)
        console = f"127.0.0.1:{free_port()}"
        command = [self.program, "server", "--quiet", "--address", self.address.host]
        return command + ["--console-address", console, "--certs-dir", self.folder / "certs", self.folder / "objects"]

    def environment(self):
        return {
            "HOME": str(self.folder),
            "MINIO_ROOT_USER": self.root.access_key,
            "MINIO_ROOT_PASSWORD": self.root.secret_key,
            "MINIO_UPDATE": "off",
            "MINIO_BROWSER": "off",
            "MINIO_PROMETHEUS_AUTH_TYPE": "public",
        }

    def add_user(self):
        answer = self.session.call("PUT", "/minio/admin/v3/import-iam", body=users_archive(self.user))
        if answer.status != 200:
            raise RuntimeError(f"MinIO took no user: {answer} {answer.body[:200]}")

    def administration(self):
        """Users and policies; the archive has the time in it, so its files are compared."""
        answer = self.session.call("GET", "/minio/admin/v3/export-iam")
        try:
            with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
                return {name: in_order(json.loads(archive.read(name))) for name in sorted(archive.namelist())}
        except zipfile.BadZipFile:
            return {"export-iam": answer.body}

    def repair_administration(self):
        users = self.administration().get("iam-assets/users.json", {})
        for name in users:
            self.session.call("DELETE", "/minio/admin/v3/remove-user", f"accessKey={name}")
        self.add_user()


class S3proxy(Origin):
    name = "s3proxy"
    # What it knows of uploads.
    notes = re.compile(r"\.mpus-.*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.DOTALL)

    def settle(self):
        # What is left of an upload that broke off: every list of its bucket would be answered 500.
        for path in (self.folder / "objects").rglob("?*-*"):
            if re.search(r".-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", path.name) and path.is_file():
                path.unlink()

    def command(self):
        (self.folder / "objects").mkdir(exist_ok=True)
        properties = {
            "s3proxy.endpoint": self.address.url,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self.root.access_key,
            "s3proxy.credential": self.root.secret_key,
            # Without it, what asks for checksums is answered 501.
            "s3proxy.ignore-unknown-headers": "true",
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self.folder / "objects"),
            # It asks for them, also where the store has no use for them.
            "jclouds.identity": "local",
            "jclouds.credential": "local",
        }
        path = self.folder / "s3proxy.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        # Unless it is told, it logs every byte.
        quiet = self.folder / "logback.xml"
        quiet.write_text('<configuration><root level="OFF"/></configuration>')
        options = ["-Xmx256m", f"-Dlogback.configurationFile={quiet}"]
        return ["java", *options, "-cp", self.program, "org.gaul.s3proxy.Main", "--properties", path]


def in_order(value):
    """JSON as it can be compared: MinIO writes sets as lists, each time in another order."""
    if isinstance(value, list):
        return sorted(map(in_order, value), key=repr)
    if isinstance(value, dict):
        return {name: in_order(value[name]) for name in sorted(value)}
    return value


def users_archive(user):
    """What MinIO's import-iam takes: here one user, without any policy."""
    users = {user.access_key: {"secretKey": user.secret_key, "status": "enabled"}}
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("iam-assets/users.json", json.dumps(users))
        return file.getvalue()


@contextlib.contextmanager
def started(kind, program):
    """An origin in a folder of its own, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        origin = kind(program, pathlib.Path(folder), os.urandom(12).hex())
        try:
            origin.start()
            yield origin
        finally:
            origin.close()


@contextlib.contextmanager
def running(command, environment, log):
    with log.open("wb") as out:
        server = subprocess.Popen(
            [str(word) for word in command],
            env={"PATH": os.environ["PATH"], **environment},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield server
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_for(url, server, log):
    """Waits until `server` answers at `url`; a refusal for want of a signature is an answer, too."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if server.poll() is not None:
            last = log.read_text(errors="replace").splitlines()[-3:]
            raise RuntimeError(f"{server.args[0]} ended with {server.returncode}: {last}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError as refusal:
            if refusal.code in (400, 401, 403):
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"{url} does not answer after {START_SECONDS_MAX} s")


KINDS = {kind.name: kind for kind in (Versitygw, Minio, S3proxy)}
