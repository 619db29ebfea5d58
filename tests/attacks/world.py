"""What is attacked: an origin full of secrets, and Zonal in front of it with keys of every kind.

The origin is filled past Zonal, with the root's own keys. Each object has a marker of its own in its body, its metadata
and its tags, and a random word in its name, so that wherever one of them shows up it is known whose secret was told.
"""

import contextlib
import dataclasses
import html
import json
import os
import pathlib
import re
import tempfile
import time
import urllib.request

import origins
import wire

# Buckets whose names are also first words of paths that administrators of origins use.
PLAIN = ("lake", "other", "admin", "minio", "empty")
VERSIONED = "vers"
# An object of several chunks.
BIG_BYTES = 700 * 1024
PART_BYTES = 5 * 1024 * 1024

LISTS_MAX, LIST_PAUSE_SECONDS = 20, 0.5
# An upload that never was.
NO_UPLOAD = "00000000-0000-0000-0000-000000000000"

# In the place of a freshness: the origin judges each request as its client signed it.
JUDGED_BY_ORIGIN = "authorization = origin"

# What the keys may do, in the words of docs/serve/keys.md: access to everything, and rules by prefix.
RIGHTS = {
    "all": ("read-write", {}),
    "reader": ("read", {}),
    "writer": ("write", {}),
    "nothing": ("none", {}),
    "pub-reader": ("none", {"lake/pub/": "read", "vers/pub/": "read"}),
    "pub-writer": ("none", {"lake/pub/": "write", "vers/pub/": "write"}),
    "pub-both": ("none", {"lake/pub/": "read-write", "vers/pub/": "read-write"}),
    "other-reader": ("none", {"other/": "read"}),
    "lake-owner": ("none", {"lake/": "read-write"}),
    "lake-writer": ("none", {"lake/": "write"}),
    "not-secret": ("read-write", {"lake/secret/": "none", "vers/secret/": "none"}),
    "read-not-secret": ("read", {"lake/secret/": "none", "vers/secret/": "none"}),
    "not-other": ("read-write", {"other/": "none"}),
    "copier": ("read", {"lake/pub/": "read-write"}),
    "pub-minus": ("none", {"lake/pub/": "read-write", "lake/pub/deep/": "none"}),
    "drop-box": ("none", {"lake/": "read", "lake/pub/": "write"}),
    "minio-reader": ("none", {"minio/": "read", "admin/": "read"}),
    "minio-writer": ("none", {"minio/": "write", "admin/": "write"}),
}


@dataclasses.dataclass(frozen=True)
class Rights:
    """What a key may do, worked out here a second time and from the documents alone."""

    default: str
    rules: dict

    def of(self, name):
        fitting = [prefix for prefix in self.rules if name.startswith(prefix)]
        return self.rules[max(fitting, key=len)] if fitting else self.default

    def may_read(self, name):
        return self.of(name) in ("read", "read-write")

    def may_write(self, name):
        return self.of(name) in ("write", "read-write")

    def may_write_bucket(self, bucket):
        """Whether the bucket as such may be changed: all of it must be."""
        within = [access for prefix, access in self.rules.items() if prefix.startswith(f"{bucket}/")]
        return all(access in ("write", "read-write") for access in [self.of(f"{bucket}/"), *within])

    def may_see_bucket(self, bucket):
        within = [access for prefix, access in self.rules.items() if prefix.startswith(f"{bucket}/")]
        return any(access != "none" for access in [self.of(f"{bucket}/"), *within])


NO_RIGHTS = Rights("none", {})
EVERYTHING = Rights("read-write", {})


@dataclasses.dataclass
class Fixture:
    """One object: where it is, and what only those who may read it may know."""

    bucket: str
    key: str
    body: bytes
    marker: str
    # The random word in its name.
    word: str
    tagged: bool = True

    @property
    def name(self):
        return f"{self.bucket}/{self.key}"

    def headers(self):
        return [("x-amz-meta-note", f"meta-{self.marker}"), ("content-type", "text/x-secret")]


class World:
    """An origin with its secrets, and the names by which attacks speak of them."""

    def __init__(self, origin):
        self.origin = origin
        self.root = origin.session
        self.has = set()
        # What attacks may write as $name in a path, a header or a body.
        self.names = {"root": origin.root.access_key, "user": origin.user.access_key}
        self.fixtures = []
        self.hidden_bucket = f"hidden-{word()}"
        self.names["hidden"] = self.hidden_bucket
        self._plan()

    def _plan(self):
        """Decides on names, once: a repaired world has the same."""
        plan = [("lake", folder, name) for folder in ("pub", "secret", "private") for name in "ab"]
        plan += [("lake", "pub/deep", "c"), ("lake", "pubx", "d"), ("lake", "", "top")]
        plan += [("other", "pub", "a"), ("other", "secret", "a"), (self.hidden_bucket, "pub", "a")]
        plan += [("admin", "v3", "a"), ("minio", "pub", "a")]
        for bucket, folder, name in plan:
            self._planned(bucket, folder, name)
        big = self._planned("lake", "pub", "big")
        big.body = (big.body * (BIG_BYTES // len(big.body) + 1))[:BIG_BYTES]
        for folder in ("pub", "secret"):
            self._planned(VERSIONED, folder, "v")
        # versitygw takes a path of the length of its ids for one: from the folder of its versions to this object.
        body = f"body-short-{(marker := os.urandom(12).hex())}\n".encode() * 5
        self.fixtures.append(Fixture(VERSIONED, "z", body, marker, word()))
        self.names["path_of_short"] = f"../../../../../../o/{VERSIONED}/z"
        for folder in ("pub", "secret"):
            # Of the same length as a name that exists, so that answers can be compared.
            self.names[f"no_{folder}"] = f"{folder}/a-{word()}"
        # Names that an origin may normalise to those of objects.
        pub, secret = self.names["lake_pub_a"], self.names["lake_secret_a"]
        self.names["pub_leaf"], self.names["secret_leaf"] = pub.split("/")[1], secret.split("/")[1]

    def _planned(self, bucket, folder, name):
        random_word, marker = word(), os.urandom(12).hex()
        key = f"{folder}/{name}-{random_word}".lstrip("/")
        body = f"body-{marker} {bucket}/{key}\n".encode() * 5
        fixture = Fixture(bucket, key, body, marker, random_word)
        self.fixtures.append(fixture)
        prefix = "hidden" if bucket == self.hidden_bucket else bucket
        self.names["_".join(part for part in (prefix, folder.replace("/", "_"), name) if part)] = key
        return fixture

    @property
    def buckets(self):
        return [*PLAIN, VERSIONED, self.hidden_bucket]

    # --- filling

    def fill(self, touched=None):
        """Makes the origin, or some buckets of it, what it is at the beginning of each attack."""
        buckets = [bucket for bucket in self.buckets if touched is None or bucket in touched]
        self._empty(buckets)
        for bucket in buckets:
            if self.root.call("PUT", f"/{bucket}").status == 200:
                self.has.add(f"bucket:{bucket}")
        enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        if VERSIONED in buckets and self.root.call("PUT", f"/{VERSIONED}", "versioning=", body=enabled).status == 200:
            self.has.add("versions")
        for fixture in self.fixtures:
            if fixture.bucket in buckets and f"bucket:{fixture.bucket}" in self.has:
                self._put(fixture)
        if touched is None and self.root.call("PUT", f"/{self.fixtures[0].name}/below", body=b"x").status == 200:
            self.root.call("DELETE", f"/{self.fixtures[0].name}/below")
            self.has.add("flat")
        self._open_uploads(buckets)

    def repair(self, touched, is_administration):
        """Undoes what an attack did to some buckets, or to the origin's users."""
        if is_administration:
            self.origin.repair_administration()
        self.fill(touched)

    def _put(self, fixture):
        if fixture.bucket == VERSIONED and "versions" in self.has:
            older = b"older-" + fixture.body
            answer = self.root.call("PUT", f"/{fixture.name}", headers=fixture.headers(), body=older)
            self.names[f"old_{fixture.key.split('/')[0]}"] = answer.header("x-amz-version-id") or "null"
        answer = self.root.call("PUT", f"/{fixture.name}", headers=fixture.headers(), body=fixture.body)
        if answer.status != 200:
            raise RuntimeError(f"{fixture.name} was not written: {answer} {answer.body[:300]}")
        if fixture.bucket == VERSIONED:
            self.names[f"new_{fixture.key.split('/')[0]}"] = answer.header("x-amz-version-id") or "null"
        tags = f"<Tagging><TagSet><Tag><Key>t</Key><Value>tag-{fixture.marker}</Value></Tag></TagSet></Tagging>"
        answer = self.root.call("PUT", f"/{fixture.name}", "tagging=", body=tags.encode())
        if answer.status == 200:
            self.has.add("tags")

    def _open_uploads(self, buckets):
        """Multipart uploads that others have under way, with a part each: small but for one that can be completed."""
        uploads = {"up_pub": "lake_pub_a", "up_secret": "lake_secret_a", "up_other": "other_secret_a"}
        for name, key in uploads.items():
            bucket = key.split("_")[0]
            if bucket not in buckets:
                continue
            path = f"/{bucket}/{self.names[key]}"
            answer = self.root.call("POST", path, "uploads=")
            found = re.search(rb"<UploadId>([^<]+)</UploadId>", answer.body)
            if not found:
                return
            self.has.add("uploads")
            self.names[name] = found.group(1).decode()
            part = self.root.call("PUT", path, f"partNumber=1&uploadId={quoted(self.names[name])}", body=b"part-" + name.encode())
            self.names[f"etag_{name}"] = (part.header("etag") or "").strip('"')

    def _empty(self, buckets):
        """Removes buckets, whatever is in them, and those that an attack made."""
        for bucket in bucket_names(self.root):
            if (bucket in buckets or bucket not in self.buckets) and not self._emptied(bucket):
                raise RuntimeError(f"{bucket} cannot be removed")

    def _emptied(self, bucket):
        for sub in ("policy", "lifecycle", "cors", "tagging", "replication", "encryption"):
            self.root.call("DELETE", f"/{bucket}", f"{sub}=")
        for _ in range(3):
            for key, upload in uploads_of(self.root, bucket):
                self.root.call("DELETE", f"/{bucket}/{key}", f"uploadId={quoted(upload)}")
            for key, version in versions_of(self.root, bucket):
                query = f"versionId={quoted(version)}" if version else ""
                bypass = [("x-amz-bypass-governance-retention", "true")] if version else []
                self.root.call("DELETE", f"/{bucket}/{key}", query, headers=bypass)
            if self.root.call("DELETE", f"/{bucket}").status in (204, 404):
                return True
        return False

    def substituted(self, value):
        """`value` with its $names: text, bytes, or a list of headers."""
        if isinstance(value, list):
            return [(self.substituted(name), self.substituted(item)) for name, item in value]
        if isinstance(value, bytes):
            return re.sub(rb"\$(\w+)", lambda found: self._name(found.group(1).decode(), found.group(0)), value)
        if isinstance(value, str):
            return re.sub(r"\$(\w+)", lambda found: self._name(found.group(1), found.group(0)), value)
        return value

    def _name(self, name, unknown):
        if name not in self.names:
            return unknown
        found = self.names[name]
        return found.encode() if isinstance(unknown, bytes) else found


def word():
    return os.urandom(6).hex()


def quoted(value):
    return wire.requoted(value)


# --- asking an origin


def bucket_names(session):
    answer = session.call("GET", "/")
    return [unescaped(name) for name in re.findall(rb"<Bucket>.*?<Name>([^<]+)</Name>", answer.body, re.DOTALL)]


def versions_of(session, bucket):
    """Key and version id of all that lies in a bucket; None for the id where the origin has no versions."""
    answer = session.call("GET", f"/{bucket}", "versions=&max-keys=1000")
    if answer.status != 200 or b"<ListVersionsResult" not in answer.body:
        answer = listed(session, bucket, "list-type=2&max-keys=1000")
        found = re.findall(rb"<Contents>.*?<Key>([^<]*)</Key>", answer.body, re.DOTALL)
        return [(unescaped(key), None) for key in found]
    entries = re.findall(rb"<(?:Version|DeleteMarker)>(.*?)</(?:Version|DeleteMarker)>", answer.body, re.DOTALL)
    pairs = []
    for entry in entries:
        key = re.search(rb"<Key>([^<]*)</Key>", entry)
        version = re.search(rb"<VersionId>([^<]*)</VersionId>", entry)
        pairs.append((unescaped(key.group(1)), unescaped(version.group(1)) if version else "null"))
    return pairs


def listed(session, bucket, query):
    """A list, also of a server that stumbles over the rest of an upload that broke off."""
    for _ in range(LISTS_MAX):
        answer = session.call("GET", f"/{bucket}", query)
        if answer.status < 500:
            return answer
        time.sleep(LIST_PAUSE_SECONDS)
    raise RuntimeError(f"the list of {bucket} is {answer}: {answer.body[:300]}")


def uploads_of(session, bucket):
    answer = listed(session, bucket, "uploads=")
    pairs = []
    for entry in re.findall(rb"<Upload>(.*?)</Upload>", answer.body, re.DOTALL):
        key = re.search(rb"<Key>([^<]*)</Key>", entry)
        upload = re.search(rb"<UploadId>([^<]*)</UploadId>", entry)
        pairs.append((unescaped(key.group(1)), unescaped(upload.group(1))))
    return pairs


def unescaped(value):
    return html.unescape(value.decode(errors="surrogateescape"))


# --- Zonal in front


@dataclasses.dataclass
class Gateway:
    """A running Zonal."""

    address: wire.Address
    admin: wire.Address
    keys: dict
    session: wire.Session

    def purge(self, names):
        """Empties the cache, so that what was repaired behind its back is seen."""
        lines = "".join(f"{name}\t*\n" if name.endswith("/") else f"{name}\n" for name in names)
        request = urllib.request.Request(f"{self.admin.url}/cache/purge", data=lines.encode(), method="POST")
        request.add_header("Content-Type", "text/plain")
        with urllib.request.urlopen(request, timeout=30) as answer:
            report = answer.read().decode().splitlines()
        done = json.loads(report[-1])["sum"]
        if done["prefixes"] != done["prefixes_removed"] or done["objects"] != done["objects_removed"]:
            raise RuntimeError(f"the cache was not emptied: {report}")


@contextlib.contextmanager
def gateway(zonal, origin, freshness):
    """Zonal before `origin`, with all keys of `RIGHTS`; or, for JUDGED_BY_ORIGIN, without any."""
    with tempfile.TemporaryDirectory(prefix="attacks-zonal-") as folder:
        folder = pathlib.Path(folder)
        keys = {name: wire.Key(f"key-{name}", f"secret-{os.urandom(12).hex()}") for name in RIGHTS}
        (folder / "keys.toml").write_text(keys_file(keys))
        who = ["--keys-file", folder / "keys.toml", "--freshness", freshness]
        if freshness == JUDGED_BY_ORIGIN:
            keys.update({"all": origin.root, "nothing": origin.user})
            who = ["--authorization", "origin"]
        address, admin = wire.Address(origins.free_port()), wire.Address(origins.free_port())
        command = [zonal, "serve", "--data-dir", folder / "data", "--listen", address.host, "--admin", admin.host]
        command += ["--device", f"file:{folder}/device?size=256MiB&zone=16MiB", "--shards", "1"]
        command += ["--origin", f"s3:{origin.address.url}?region={wire.REGION}&path-style=true"]
        command += [*who, "--domain", "s3.localhost"]
        # Incomplete requests are part of the attacks: nobody waits half a minute for each.
        command += ["--limits-upload", "2s", "--limits-head", "2s", "--limits-idle", "20s"]
        environment = {
            "AWS_ACCESS_KEY_ID": origin.root.access_key,
            "AWS_SECRET_ACCESS_KEY": origin.root.secret_key,
        }
        log = folder / "zonal.log"
        with origins.running(command, environment, log) as server:
            try:
                origins.wait_for(f"{admin.url}/readyz", server, log)
                yield Gateway(address, admin, keys, wire.Session(address, keys["all"]))
            except BaseException:
                print(log.read_text(errors="replace")[-4000:])
                raise


def keys_file(keys):
    tables = []
    for name, (access, rules) in RIGHTS.items():
        lines = ["[[key]]", f'access-key = "{keys[name].access_key}"', f'secret-key = "{keys[name].secret_key}"']
        lines.append(f'access = "{access}"')
        listed = ", ".join(f'{{ prefix = "{prefix}", access = "{rule}" }}' for prefix, rule in rules.items())
        lines.append(f"rules = [{listed}]")
        tables.append("\n".join(lines))
    return "\n\n".join(tables) + "\n"
