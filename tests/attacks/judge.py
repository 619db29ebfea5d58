"""The verdict on an attack: at the origin, in the cache, and in what was answered; never by status alone.

1. `told`: no answer has a secret that the attacker may not read, also packed, escaped or encoded.
2. `changed`: the origin differs from before only in what the attacker may write, and what he wrote has nothing in it
   that he may not read.
3. `stale`: every object, and every name without one, is read through Zonal as the origin has it.
"""

import base64
import binascii
import dataclasses
import gzip
import html
import io
import os
import re
import urllib.parse
import zipfile
import zlib

import wire
import world as worlds

SUBRESOURCES = (
    "policy", "acl", "versioning", "tagging", "cors", "lifecycle", "object-lock", "ownershipControls", "encryption",
    "notification", "replication", "website", "logging", "publicAccessBlock", "accelerate", "requestPayment", "quota",
)  # fmt: skip
# Headers of an object that its readers act upon.
OBJECT_HEADERS = (
    "etag", "last-modified", "content-type", "content-encoding", "content-disposition", "content-language",
    "cache-control", "expires", "content-length", "x-amz-tagging-count", "x-amz-version-id",
    "x-amz-website-redirect-location",
)  # fmt: skip
# Names that an origin may take for others. Zonal does not, so each has an entry of its own in its cache.
ALIASES = (
    "/lake/pub//$pub_leaf", "/lake/pub/./$pub_leaf", "/lake//pub/$pub_leaf", "/lake/secret/../pub/$pub_leaf",
    "/lake/$lake_pub_a/", "/lake//$no_pub", "/lake/pub/%2E/$pub_leaf",
)  # fmt: skip
# The ETag of all that is empty tells nothing.
OF_NOTHING = '"d41d8cd98f00b204e9800998ecf8427e"'
DECODED_BYTES_MAX = 4 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Violation:
    # "told", "changed", "stale" or "answered".
    kind: str
    text: str


@dataclasses.dataclass
class Snapshot:
    """All that the origin holds, and what it answers to a reader who may read everything."""

    # (bucket, key, version) to what it is.
    objects: dict = dataclasses.field(default_factory=dict)
    # (bucket, key, upload id) to its parts.
    uploads: dict = dataclasses.field(default_factory=dict)
    # Bucket to its settings.
    buckets: dict = dataclasses.field(default_factory=dict)
    administration: dict = dataclasses.field(default_factory=dict)


class Judge:
    """Knows how the origin was before the attack, and looks again after it."""

    def __init__(self, world, gateway):
        self.world, self.gateway = world, gateway
        self.before = None
        self._files = None
        self._truth = {}

    # --- before an attack

    def begin(self, touched=None):
        """Requires: the world has been filled. Takes the state that attacks are compared with, and warms the cache.
        `touched`: the buckets that were filled, when not all."""
        touched = set(self.world.buckets) if touched is None else touched
        self.before = self.snapshot(touched)
        self._files = self._disk_state()
        self._refresh(touched, self.before)
        self.gateway.purge([f"{bucket}/" for bucket in sorted(touched)])
        return self.stale(self.before, True, ("GET",))

    # --- after it

    def verdict(self, actor, rights):
        """Violations, and the buckets that have to be filled anew."""
        violations = [Violation("answered", text) for text in actor.complaints]
        violations += self.told(actor, rights)
        self.world.origin.settle()
        after, touched = self.before, set()
        files = self._disk_state()
        if files != self._files:
            touched = self._buckets_of(files)
            after = self.snapshot(touched)
            violations += self.changed(actor, rights, after)
            self._refresh(touched, self.before, after)
            if after == self.before:
                touched, self._files = set(), self._disk_state()
        stale = [Violation("stale", text) for text in self.stale(after, actor.attack.has_aliases)]
        if stale and not touched:
            touched = set(self.world.buckets)
        return violations + stale, touched

    def _buckets_of(self, files):
        """The buckets in whose folders, of whatever kind, something is new: all, where that cannot be told."""
        known = {*self.world.buckets, *worlds.bucket_names(self.world.root)}
        touched = set()
        for path in {*files, *self._files}:
            if files.get(path) != self._files.get(path):
                named = known.intersection(path.split("/"))
                if not named:
                    return known
                touched |= named
        return touched

    def _refresh(self, touched, *snapshots):
        """Asks the origin anew what may be read of some buckets."""
        for path in self._paths(*snapshots):
            if path not in self._truth or touched.intersection(path.split("?")[0].split("/")):
                self._truth[path] = self._direct(path)

    # --- 1. what was told

    def told(self, actor, rights):
        sent = b"\n".join(actor.sent)
        sent += urllib.parse.unquote_to_bytes(sent)
        violations = []
        for answer in actor.answers:
            seen = b"\n".join(views(answer.raw, answer.body))
            for token, what in self.secrets(rights, sent).items():
                if token in seen:
                    violations.append(Violation("told", f"an answer ({answer}) tells {what}"))
            for pattern in self.world.origin.forbidden:
                if re.search(pattern, seen, re.DOTALL):
                    words = pattern.decode()
                    violations.append(Violation("told", f"an answer ({answer}) is an administrator's ({words})"))
        return list(dict.fromkeys(violations))

    def secrets(self, rights, sent):
        """Bytes that must not be told, with what they are. Names that the attacker wrote himself are not among them."""
        world, names = self.world, self.world.names
        found = {
            world.origin.root.secret_key.encode(): "the origin's root secret",
            world.origin.user.secret_key.encode(): "the secret of a user of the origin",
        }
        for name, key in self.gateway.keys.items():
            found[key.secret_key.encode()] = f"the secret of the key {name}"
        guessable = {world.origin.user.access_key.encode(): "the name of a user of the origin"}
        for fixture in world.fixtures:
            if rights.may_read(fixture.name):
                continue
            found[fixture.marker.encode()] = f"the content of {fixture.name}"
            guessable[fixture.word.encode()] = f"that {fixture.name} exists"
        for (bucket, key, version), entry in self.before.objects.items():
            if not rights.may_read(f"{bucket}/{key}"):
                if 8 < len(version or ""):
                    guessable[version.encode()] = f"a version of {bucket}/{key}"
                if entry["etag"] and entry["etag"] != OF_NOTHING:
                    guessable[entry["etag"].strip('"').encode()] = f"the ETag of {bucket}/{key}"
        for upload, key in (("up_pub", "lake_pub_a"), ("up_secret", "lake_secret_a"), ("up_other", "other_secret_a")):
            # An upload belongs to whoever writes there: errors about its parts are for him.
            name = f"{key.split('_')[0]}/{names[key]}"
            if upload in names and not rights.may_read(name) and not rights.may_write(name):
                guessable[names[upload].encode()] = f"a multipart upload of {names[key]}"
                guessable[names[f"etag_{upload}"].encode()] = f"a part of an upload of {names[key]}"
        if not rights.may_see_bucket(world.hidden_bucket):
            guessable[world.hidden_bucket.encode()] = "the name of a bucket"
        found.update((token, what) for token, what in guessable.items() if token and token not in sent)
        return found

    # --- 2. what was changed

    def changed(self, actor, rights, after):
        violations = []
        sent = b"\n".join(actor.sent)
        sent += urllib.parse.unquote_to_bytes(sent)
        secrets = self.secrets(rights, sent)
        for (bucket, key, version), was, now in differences(self.before.objects, after.objects):
            name = f"{bucket}/{key}"
            what = "written" if was is None else "gone" if now is None else f"changed ({fields(was, now)})"
            # A bucket that may be removed takes nothing with it that could not be removed one by one.
            if not rights.may_write(name):
                violations.append(Violation("changed", f"{name} was {what}"))
            if now is not None:
                seen = b"\n".join(views(now["all"], now["all"]))
                for token, secret in secrets.items():
                    if token in seen and not secret.endswith((f" of {name}", f"that {name} exists")):
                        violations.append(Violation("told", f"{name} now has {secret}"))
        for (bucket, key, upload), was, now in differences(self.before.uploads, after.uploads):
            if not rights.may_write(f"{bucket}/{key}"):
                what = "begun" if was is None else "gone" if now is None else "changed"
                violations.append(Violation("changed", f"an upload of {bucket}/{key} was {what}"))
        for bucket, was, now in differences(self.before.buckets, after.buckets):
            if not rights.may_write_bucket(bucket):
                what = "made" if was is None else "removed" if now is None else f"changed ({fields(was, now)})"
                violations.append(Violation("changed", f"the bucket {bucket} was {what}"))
        for part, was, now in differences(self.before.administration, after.administration):
            if part == "owners" and rights.may_write_bucket("*"):
                continue
            violations.append(Violation("changed", f"the origin's administration changed: {part}"))
        return violations

    # --- 3. what is stale

    def stale(self, after, with_aliases, methods=("GET", "HEAD")):
        """What Zonal answers otherwise than the origin."""
        texts = []
        aliases = {self.world.substituted(name) for name in ALIASES}
        for path in self._paths(self.before, after):
            if path in aliases and not with_aliases:
                continue
            for method in methods:
                answer = self._ask(self.gateway.session, path, method)
                truth = self._truth[path]
                if comparable(answer, method) != comparable(truth, method):
                    # Some origins answer HEAD otherwise than GET; that is not the cache's fault.
                    truth = self._ask(self.world.root, path, method)
                there, here = comparable(truth, method), comparable(answer, method)
                if there != here and not (answer.status == 502 and is_no_error_of_s3(self._truth[path])):
                    x_cache = answer.header("x-cache")
                    texts.append(f"{method} {path} is {answer} ({x_cache}), the origin says {truth}: {fields(there, here)}")
        return texts

    def _paths(self, *snapshots):
        """Everything that may be read: of each snapshot, of the plan, and names that nothing has."""
        names = {f"/{fixture.name}" for fixture in self.world.fixtures}
        paths = {urllib.parse.quote(name, safe="/-_.~") for name in names}
        for snapshot in snapshots:
            for bucket, key, version in snapshot.objects:
                path = urllib.parse.quote(f"/{bucket}/{key}", safe="/-_.~", errors="surrogateescape")
                paths.add(path)
                if version and version != "null":
                    paths.add(f"{path}?versionId={worlds.quoted(version)}")
        for name in ("/lake/$no_pub", "/lake/$no_secret", "/other/$no_secret", *ALIASES):
            paths.add(self.world.substituted(name))
        return sorted(paths)

    def _direct(self, path):
        return self._ask(self.world.root, path, "GET")

    def _ask(self, session, path, method):
        path, _, query = path.partition("?")
        for signing in ("raw", "encoded"):
            request = wire.Request(method, path, query, signing=wire.Signing(path=signing))
            answer = session.send(request.encode(session.address, session.key), method)
            if answer.status != 403:
                break
        return answer

    # --- the origin

    def snapshot(self, touched):
        """The origin as it is; buckets that were not touched are taken from the last snapshot."""
        found = Snapshot(administration=self.world.origin.administration())
        root = self.world.root
        for bucket in worlds.bucket_names(root):
            if bucket not in touched and self.before is not None and bucket in self.before.buckets:
                found.buckets[bucket] = self.before.buckets[bucket]
                for part, was in ((found.objects, self.before.objects), (found.uploads, self.before.uploads)):
                    part.update((name, entry) for name, entry in was.items() if name[0] == bucket)
                continue
            found.buckets[bucket] = {sub: setting(root, bucket, sub) for sub in SUBRESOURCES}
            notes = self.world.origin.notes
            for key, version in worlds.versions_of(root, bucket):
                if notes and notes.fullmatch(key):
                    continue
                found.objects[bucket, key, version] = entry(root, bucket, key, version)
            for key, upload in worlds.uploads_of(root, bucket):
                parts = root.call("GET", f"/{bucket}/{key}", f"uploadId={worlds.quoted(upload)}")
                found.uploads[bucket, key, upload] = {"parts": re.findall(rb"<ETag>([^<]*)", parts.body)}
        return found

    def _disk_state(self):
        """Names, sizes and times of all files of the origin: where they are equal, nothing was written."""
        state = {}
        for folder in self.world.origin.paths():
            for path, folders, files in os.walk(folder):
                # What MinIO writes for itself while nobody asks anything.
                folders[:] = [name for name in folders if name not in ("tmp", ".usage.json", ".heal")]
                for file in files:
                    full = os.path.join(path, file)
                    if with_status := status_of(full):
                        state[full] = with_status.st_ino, with_status.st_size, with_status.st_mtime_ns, with_status.st_ctime_ns
                for name in folders:
                    full = os.path.join(path, name)
                    if with_status := status_of(full):
                        state[full] = with_status.st_ino
        return state


def status_of(path):
    """Nothing for what the origin took away since its folder was listed."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def entry(root, bucket, key, version):
    """An object version as it can be compared, and in `all` whatever could hide a secret."""
    query = f"versionId={worlds.quoted(version)}" if version else ""
    path = f"/{bucket}/{key}"
    answer = root.call("GET", path, query)
    is_latest = version is None or answer.header("x-amz-version-id") == root.call("HEAD", path).header("x-amz-version-id")
    more = {}
    for sub in ("tagging", "acl"):
        part = root.call("GET", path, f"{sub}=&{query}".rstrip("&"))
        more[sub] = (part.status, without_names(part.body))
    ignored = ("date", "x-amz-request-id", "x-amz-id-2", "connection", "x-ratelimit-limit", "x-ratelimit-remaining")
    headers = sorted((name, value) for name, value in answer.headers if name not in ignored)
    # The name itself is no part of it: it may have been chosen by the attacker.
    whole = b"\n".join([answer.body, *(value.encode("latin-1") for _, value in headers), more["tagging"][1]])
    return {
        "etag": answer.header("etag"),
        "status": answer.status,
        "headers": headers,
        "body": hash(answer.body),
        "is_latest": is_latest,
        "all": whole,
        **more,
    }


def setting(root, bucket, sub):
    answer = root.call("GET", f"/{bucket}", f"{sub}=")
    if b"<ListBucketResult" in answer.body:
        return "not known"
    return answer.status, without_names(answer.body)


def without_names(body):
    """A document without what is new in each answer."""
    return re.sub(rb"<(RequestId|HostId|Resource)>[^<]*</\1>", b"", body)


def comparable(answer, method):
    if answer.status not in (200, 206):
        # An absence may be told in other words than the origin's.
        return {"status": answer.status}
    headers = {name: value for name, value in answer.headers if name in OBJECT_HEADERS or name.startswith("x-amz-meta-")}
    found = {"status": answer.status, **headers}
    if method == "GET":
        found["body"] = answer.body
    return found


def is_no_error_of_s3(answer):
    """A page for people. Zonal does not hand such a one on: it answers 502."""
    return 400 <= answer.status and b"<Error>" not in answer.body


def differences(before, after):
    for name in sorted({*before, *after}, key=repr):
        was, now = before.get(name), after.get(name)
        if was != now:
            yield name, was, now


def fields(was, now):
    names = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name) and name != "all"]
    return ", ".join(names)


# --- what is hidden in an answer


def views(raw, body):
    """The bytes themselves, and what becomes of them under the usual wrappings."""
    found = [raw]
    for data in (body, *unpacked(body)):
        found.append(data)
        unescaped = html.unescape(data.decode("latin-1")).encode("utf-8", "replace")
        found += [unescaped, urllib.parse.unquote_to_bytes(data), data.replace(b"\0", b"")]
        found.append(re.sub(rb"[0-9a-f]+\r\n|[\r\n]", b"", data))
        for word in set(re.findall(rb"[A-Za-z0-9+/_-]{24,}={0,2}", data[:65536])):
            found += decoded(word)
    return found


def decoded(word):
    found = []
    try:
        found.append(base64.b64decode(word.translate(bytes.maketrans(b"-_", b"+/")) + b"=" * (-len(word) % 4)))
    except (binascii.Error, ValueError):
        pass
    try:
        found.append(bytes.fromhex(word.decode()))
    except ValueError:
        pass
    return found


def unpacked(body):
    found = []
    for start in [match.start() for match in re.finditer(rb"\x1f\x8b\x08", body)][:4]:
        try:
            found.append(gzip.GzipFile(fileobj=io.BytesIO(body[start:])).read(DECODED_BYTES_MAX))
        except (OSError, EOFError, zlib.error):
            pass
    if b"PK\x03\x04" in body:
        try:
            with zipfile.ZipFile(io.BytesIO(body[body.index(b"PK\x03\x04") :])) as archive:
                found += [archive.read(name) for name in archive.namelist()[:100]]
                found.append("\n".join(archive.namelist()).encode())
        except (zipfile.BadZipFile, OSError):
            pass
    return found
