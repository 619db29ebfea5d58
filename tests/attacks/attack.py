"""What an attack is: requests, the key that signs them, and what its author knows of the right answer.

The verdict does not need the author: judge.py looks at the origin and at the cache. `expects` is for attacks that are
served without anything to see there, such as a signature that must not be accepted.
"""

import base64
import copy
import dataclasses
import hashlib
import re
import urllib.parse

import wire
from wire import Request

# As the value of a header: the MD5 of the body, once its names are filled in.
DIGEST = "the digest of the body"
# Refusals: the request was understood as one that must not be, or not understood at all.
REFUSED = frozenset({400, 401, 403, 404, 405, 409, 411, 412, 413, 414, 415, 416, 417, 421, 431, 501})
DENIED = frozenset({403})
# The connection may also just end, where the bytes are not even HTTP.
REFUSED_OR_CLOSED = REFUSED | {0, 408}


@dataclasses.dataclass
class Attack:
    """One attack. Either `requests` are sent one after the other, or `flow` does as it likes with an `Actor`."""

    family: str
    trick: str
    # Name of the signing key in world.RIGHTS; None: nobody's.
    key: str | None
    requests: list = dataclasses.field(default_factory=list)
    # Statuses of which the last answer must have one.
    expects: frozenset | None = None
    # Whose rights the answers are judged by, if not the key's: who replays a foreign signature has none.
    rights: str | None = None
    # Pairs of names; each is bound to $t in turn, and the answers must not differ.
    twins: tuple | None = None
    # Capabilities of the origin without which there is nothing to attack.
    needs: frozenset = frozenset()
    flow: object = None
    is_core: bool = False
    # Whether names that the origin takes for the same object are read as well.
    has_aliases: bool = False
    # Marks of an answer that must be there: of the controls, which show that the keys do work.
    shows: tuple = ()

    @property
    def name(self):
        return f"{self.family}/{self.trick}@{self.key or 'anonymous'}"

    @property
    def judged_as(self):
        return self.rights or self.key or "nothing"


class Actor:
    """Sends the requests of one attack and writes down what was sent and answered."""

    def __init__(self, attack, world, gateway):
        self.attack, self.world, self.gateway = attack, world, gateway
        self.sent, self.answers, self.complaints = [], [], []
        self.bound = {}

    def key(self, name):
        return self.gateway.keys[name] if isinstance(name, str) else name

    def send(self, request, key="", to="endpoint"):
        """`key`: another name than the attack's; `to`: "endpoint" or "admin"."""
        key = self.key(self.attack.key if key == "" else key)
        address = self.gateway.address if to == "endpoint" else self.gateway.admin
        for path in ("raw", "encoded"):
            filled = self.filled(request)
            if path == "encoded":
                filled.signing.path = path
            encoded = filled.encode(address, key)
            answer = wire.exchange(address, encoded, filled.method, filled.drains)
            # Where the server signs another spelling of the path, the trick has not been tried yet.
            if request.signing.path != "raw" or not is_mismatch(answer, request):
                break
        self.sent.append(encoded)
        self.answers.append(answer)
        return answer

    def send_bytes(self, encoded, method="GET"):
        """Bytes as they are, with what follows the first answer."""
        answer = wire.exchange(self.gateway.address, encoded, method, drains=True)
        self.sent.append(encoded)
        self.answers.append(answer)
        return answer

    def encoded(self, request, key=""):
        """The bytes of a request, to be sent some other way."""
        return self.filled(request).encode(self.gateway.address, self.key(self.attack.key if key == "" else key))

    def filled(self, request):
        """A copy of the request with its $names filled in."""
        filled = copy.copy(request)
        filled.signing = copy.copy(request.signing)
        for field in ("path", "query", "headers", "unsigned", "body", "wire_body", "target", "host"):
            setattr(filled, field, self.substituted(getattr(filled, field)))
        digest = base64.b64encode(hashlib.md5(filled.body).digest()).decode()
        filled.headers = [(name, digest if value == DIGEST else value) for name, value in filled.headers]
        return filled

    def substituted(self, value):
        before = dict(self.world.names)
        self.world.names.update(self.bound)
        try:
            return self.world.substituted(value)
        finally:
            self.world.names.clear()
            self.world.names.update(before)

    def expect(self, answer, statuses, what="an answer"):
        if answer.status not in statuses:
            wanted = " ".join(str(status) for status in sorted(statuses))
            self.complaints.append(f"{what} is {answer}, and should be {wanted if len(wanted) < 40 else 'a refusal'}")

    def run(self):
        if self.attack.flow:
            self.attack.flow(self)
        elif self.attack.twins:
            self._run_twins()
        else:
            for request in self.attack.requests:
                answer = self.send(request)
            if self.attack.expects is not None:
                self.expect(answer, self.attack.expects)
            for mark in self.attack.shows:
                if self.substituted(mark) not in answer.raw:
                    self.complaints.append(f"the answer ({answer}) lacks {mark!r}")

    def _run_twins(self):
        """The same requests for a name that exists and for one that does not."""
        told = []
        for name in self.attack.twins:
            self.bound = {"t": self.substituted(name)}
            answers = [self.send(request) for request in self.attack.requests]
            told.append([without_chance(answer, self.bound["t"]) for answer in answers])
        self.bound = {}
        for there, absent in zip(*told, strict=True):
            if there != absent:
                self.complaints.append(f"tells what exists: {difference(there, absent)}")


def is_mismatch(answer, request):
    if answer.status != 403 or request.path == reencoded(request.path):
        return False
    return answer.code == "SignatureDoesNotMatch" or request.method == "HEAD"


def reencoded(path):
    return urllib.parse.quote(urllib.parse.unquote_to_bytes(path), safe="/" + wire.UNRESERVED)


def without_chance(answer, name):
    """What of an answer is the same each time: without names of requests, times and ids."""
    ignored = {"date", "x-amz-request-id", "x-amz-id-2", "last-modified", "x-amz-version-id"}
    headers = {header: value.replace(name, "T") for header, value in answer.headers if header not in ignored}
    body = answer.body.replace(name.encode(), b"T")
    for element in (b"RequestId", b"HostId", b"LastModified", b"UploadId", b"VersionId", b"DeleteMarkerVersionId"):
        body = re.sub(b"<%s>[^<]*</%s>" % (element, element), b"", body)
    return {"status": answer.status, "body": body, **headers}


def difference(there, absent):
    lines = []
    for name in sorted({*there, *absent}):
        if there.get(name) != absent.get(name):
            lines.append(f"{name} {shortened(there.get(name))} / {shortened(absent.get(name))}")
    return "; ".join(lines[:3])


def shortened(value):
    value = repr(value) if not isinstance(value, str) else value
    return value if len(value) <= 100 else value[:100] + "..."


def rows(family, key, table, **options):
    """Attacks from rows of (trick, request or requests) or (trick, request, expected statuses)."""
    attacks = []
    for trick, request, *expects in table:
        requests = request if isinstance(request, list) else [request]
        given = dict(options)
        if expects:
            given["expects"] = expects[0]
        attacks.append(Attack(family, trick, key, requests, **given))
    return attacks


def get(path, query="", *headers, **more):
    return Request("GET", path, query, list(headers), **more)


def put(path, body=b"", *headers, query="", **more):
    return Request("PUT", path, query, list(headers), body, **more)


def post(path, query="", body=b"", *headers, **more):
    return Request("POST", path, query, list(headers), body, **more)


def delete(path, query="", *headers, **more):
    return Request("DELETE", path, query, list(headers), **more)


def head(path, query="", *headers, **more):
    return Request("HEAD", path, query, list(headers), **more)
