"""HTTP/1.1 and Signature Version 4 by hand, so that an attack decides about every byte.

`Request` says what is sent and what of it is signed; `Request.encode` makes the bytes. Nothing is normalised on the way:
a path with `..`, a header given twice and a length that is wrong arrive as they are written. `Session` keeps one
connection for the many honest requests of the judge.
"""

import base64
import dataclasses
import datetime
import hashlib
import hmac
import re
import socket
import urllib.parse

REGION = "us-east-1"
UNRESERVED = "-._~"
# Seconds until a silent server counts as one that does not answer. Zonal runs with shorter limits of its own.
SILENCE_SECONDS_MAX = 8
# Seconds to wait for what follows an answer, where an attack may have smuggled a second request in.
AFTERWARDS_SECONDS = 0.3
ANSWER_BYTES_MAX = 8 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Key:
    """An access key of a client, or of the origin's root."""

    access_key: str
    secret_key: str


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a server listens."""

    port: int

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"http://{self.host}"


@dataclasses.dataclass
class Answer:
    """What came back. `status` is 0 when the connection ended, or was silent, before an answer."""

    status: int = 0
    headers: list = dataclasses.field(default_factory=list)
    body: bytes = b""
    # All bytes of the connection, further answers included.
    raw: bytes = b""
    # Answers on the connection, the first one included.
    count: int = 0

    def header(self, name):
        return next((value for other, value in self.headers if other == name), None)

    @property
    def code(self):
        found = re.search(rb"<Code>([^<]*)</Code>", self.body)
        return found.group(1).decode(errors="replace") if found else ""

    def __str__(self):
        return f"{self.status} {self.code}".strip() if self.status else "no answer"


@dataclasses.dataclass
class Signing:
    """How a request is signed. The defaults are those of an honest client."""

    # "header", "query" (presigned), "v2" (the old version) or "none".
    where: str = "header"
    region: str = REGION
    service: str = "s3"
    # Value of `x-amz-content-sha256`; without it, the hash of the body (`UNSIGNED-PAYLOAD` when presigned).
    payload: str | None = None
    # Whether `x-amz-content-sha256` is sent at all.
    sends_payload: bool = True
    # Names that SignedHeaders lists; without it, `host` and every `x-amz-*`.
    names: tuple | None = None
    expires: str = "300"
    # Seconds by which the request's clock is off.
    skew: int = 0
    # The path that is signed: "raw" as it is sent, or "encoded": decoded and encoded anew, as some servers expect.
    path: str = "raw"
    # Takes the signature and gives the one that is sent.
    forge: object = None
    # What the scope says for the date, where it differs from x-amz-date.
    scope_date: str | None = None


@dataclasses.dataclass
class Request:
    """One request. `headers` are signed as `signing` says, `unsigned` are added afterwards and never signed."""

    method: str = "GET"
    path: str = "/"
    query: str = ""
    headers: list = dataclasses.field(default_factory=list)
    body: bytes = b""
    unsigned: list = dataclasses.field(default_factory=list)
    signing: Signing = dataclasses.field(default_factory=Signing)
    # Replaces `Host`, also in what is signed; "" sends none.
    host: str | None = None
    # Replaces the target of the request line, and is not signed.
    target: str | None = None
    # Replaces Content-Length: a text, or "" for none.
    length: str | None = None
    # Bytes that go onto the wire in place of the body; what is signed stays the body.
    wire_body: bytes | None = None
    # Takes all bytes of the request and gives those that are sent.
    edit: object = None
    # Whether to look for further answers behind the first.
    drains: bool = False

    def encode(self, address, key):
        """The bytes for a server at `address`, signed by `key`; without a key, unsigned."""
        host = address.host if self.host is None else self.host
        headers = [(name, text(value)) for name, value in self.headers]
        query = self.query
        if key is None or self.signing.where == "none":
            pass
        elif self.signing.where == "v2":
            headers += version_2(self, key)
        else:
            signer = Signer(self, key, host)
            query, headers = signer.signed(query, headers)
        target = self.target if self.target is not None else self.path + ("?" + query if query else "")
        lines = [f"{self.method} {target} HTTP/1.1"]
        if host:
            lines.append(f"Host: {host}")
        lines += [f"{name}: {value}" for name, value in headers]
        lines += [f"{name}: {text(value)}" for name, value in self.unsigned]
        body = self.body if self.wire_body is None else self.wire_body
        length = self.length
        if length is None:
            length = str(len(body)) if body or self.method in ("PUT", "POST") else ""
        if length:
            lines.append(f"Content-Length: {length}")
        encoded = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body
        return self.edit(encoded) if self.edit else encoded


def text(value):
    """A header's value as latin-1, so that any byte can be written."""
    return value.decode("latin-1") if isinstance(value, bytes) else value


# --- Signature Version 4


class Signer:
    """Signs one request, in the header or in the query."""

    def __init__(self, request, key, host):
        self._request, self._key, self._host = request, key, host
        self._signing = request.signing
        now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self._signing.skew)
        self.time = now.strftime("%Y%m%dT%H%M%SZ")
        self._date = self.time[:8] if self._signing.scope_date is None else self._signing.scope_date
        self.scope = f"{self._date}/{self._signing.region}/{self._signing.service}/aws4_request"

    def signed(self, query, headers):
        """The query and the headers with the signature in one of them."""
        if self._signing.where == "query":
            return self._presigned(query, headers)
        headers = headers + [("x-amz-date", self.time)]
        payload = self._signing.payload or hashlib.sha256(self._request.body).hexdigest()
        if self._signing.sends_payload:
            headers = headers + [("x-amz-content-sha256", payload)]
        names = self._names(headers)
        signature = self.signature(query, headers, names, payload)
        credential = f"{self._key.access_key}/{self.scope}"
        value = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={';'.join(names)}, Signature={signature}"
        return query, headers + [("Authorization", value)]

    def _presigned(self, query, headers):
        names = self._names(headers)
        credential = urllib.parse.quote(f"{self._key.access_key}/{self.scope}", safe="")
        signed = "%3B".join(names)
        parts = [query] if query else []
        parts += ["X-Amz-Algorithm=AWS4-HMAC-SHA256", f"X-Amz-Credential={credential}", f"X-Amz-Date={self.time}"]
        parts += [f"X-Amz-Expires={self._signing.expires}"] if self._signing.expires is not None else []
        parts += [f"X-Amz-SignedHeaders={signed}"]
        query = "&".join(parts)
        payload = self._signing.payload or "UNSIGNED-PAYLOAD"
        return f"{query}&X-Amz-Signature={self.signature(query, headers, names, payload)}", headers

    def _names(self, headers):
        if self._signing.names is not None:
            return list(self._signing.names)
        given = {name.lower() for name, _ in headers}
        return sorted({"host"} | {name for name in given if name.startswith("x-amz-")})

    def signature(self, query, headers, names, payload):
        lines = []
        for name in names:
            values = [value for other, value in headers if other.lower() == name.lower()]
            if name.lower() == "host":
                values = [self._host]
            joined = ",".join(re.sub(" +", " ", value.strip()) for value in values)
            lines.append(f"{name.lower()}:{joined}\n")
        path = self._request.path
        if self._signing.path == "encoded":
            path = urllib.parse.quote(urllib.parse.unquote_to_bytes(path), safe="/" + UNRESERVED)
        parts = [self._request.method, path, canonical_query(query), "".join(lines), ";".join(names), payload]
        hashed = hashlib.sha256("\n".join(parts).encode("latin-1")).hexdigest()
        string = f"AWS4-HMAC-SHA256\n{self.time}\n{self.scope}\n{hashed}"
        signature = mac(self.signing_key(), string).hex()
        return self._signing.forge(signature) if self._signing.forge else signature

    def signing_key(self):
        secret = mac(b"AWS4" + self._key.secret_key.encode(), self._date)
        for step in (self._signing.region, self._signing.service, "aws4_request"):
            secret = mac(secret, step)
        return secret


def mac(key, message):
    return hmac.new(key, message.encode("latin-1"), hashlib.sha256).digest()


def canonical_query(query):
    pairs = []
    for part in query.split("&") if query else []:
        if part:
            name, _, value = part.partition("=")
            pairs.append((requoted(name), requoted(value)))
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def requoted(part):
    return urllib.parse.quote(urllib.parse.unquote_to_bytes(part), safe=UNRESERVED)


def version_2(request, key):
    """The headers of the old signature, which servers should have forgotten."""
    date = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    string = f"{request.method}\n\n\n{date}\n{request.path}"
    signature = hmac.new(key.secret_key.encode(), string.encode("latin-1"), hashlib.sha1).digest()
    encoded = base64.b64encode(signature).decode()
    return [("Date", date), ("Authorization", f"AWS {key.access_key}:{encoded}")]


# --- connections


def exchange(address, encoded, method="GET", drains=False):
    """Sends bytes on a connection of their own, and reads the answer."""
    try:
        with socket.create_connection(("127.0.0.1", address.port), timeout=SILENCE_SECONDS_MAX) as connection:
            return exchange_on(connection, encoded, method, drains)
    except OSError:
        return Answer()


def exchange_on(connection, encoded, method="GET", drains=False):
    connection.settimeout(SILENCE_SECONDS_MAX)
    raw = b""
    try:
        connection.sendall(encoded)
    except OSError:
        pass  # A refusal may come before all of a body was taken.
    try:
        while len(raw) < ANSWER_BYTES_MAX:
            if is_complete(raw, method):
                break
            piece = connection.recv(65536)
            if not piece:
                break
            raw += piece
    except OSError:
        pass
    if drains:
        raw += afterwards(connection)
    return parsed(raw, method)


def afterwards(connection):
    """What else arrives before the server is silent."""
    raw = b""
    connection.settimeout(AFTERWARDS_SECONDS)
    try:
        while len(raw) < ANSWER_BYTES_MAX and (piece := connection.recv(65536)):
            raw += piece
    except OSError:
        pass
    return raw


def is_complete(raw, method):
    head, _, rest = raw.partition(b"\r\n\r\n")
    if not _:
        return False
    status, headers = heading(head)
    if 100 <= status < 200:
        return is_complete(rest, method)
    if method == "HEAD" or status in (204, 304):
        return True
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return re.search(rb"(^|\r\n)0\r\n", rest) is not None and rest.endswith(b"\r\n\r\n")
    if "content-length" in headers:
        return int(headers["content-length"]) <= len(rest)
    return False


def heading(head):
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    status = int(words[1]) if 1 < len(words) and words[1].isdigit() else 0
    pairs = [line.partition(":") for line in lines[1:]]
    return status, {name.strip().lower(): value.strip() for name, _, value in pairs}


def parsed(raw, method):
    whole = raw
    head, separator, body = raw.partition(b"\r\n\r\n")
    while separator and re.match(rb"HTTP/1\.[01] 1\d\d", head):
        head, separator, body = body.partition(b"\r\n\r\n")
    if not separator:
        return Answer(raw=whole)
    status, _ = heading(head)
    pairs = [line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:]]
    headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
    answer = Answer(status, headers, body, whole, len(re.findall(rb"HTTP/1\.[01] [2-5]\d\d", whole)))
    if "chunked" in (answer.header("transfer-encoding") or ""):
        answer.body = unchunked(body)
    elif (length := answer.header("content-length")) and length.isdigit() and method != "HEAD":
        answer.body = body[: int(length)]
    return answer


def unchunked(body):
    pieces = []
    while body:
        size, separator, body = body.partition(b"\r\n")
        digits = size.split(b";")[0].strip()
        if not separator or not re.fullmatch(rb"[0-9a-fA-F]+", digits) or int(digits, 16) == 0:
            break
        count = int(digits, 16)
        pieces.append(body[:count])
        body = body[count + 2 :]
    return b"".join(pieces)


class Session:
    """One connection with honest requests, opened anew when it broke."""

    def __init__(self, address, key):
        self.address, self.key = address, key
        self._connection = None

    def call(self, method, path, query="", headers=(), body=b"", **signing):
        """`path` is decoded; it is encoded as S3 does."""
        quoted = urllib.parse.quote(path, safe="/" + UNRESERVED)
        request = Request(method, quoted, query, list(headers), body, signing=Signing(**signing))
        return self.send(request.encode(self.address, self.key), method)

    def send(self, encoded, method):
        for _ in range(2):
            if self._connection is None:
                self._connection = socket.create_connection(("127.0.0.1", self.address.port))
            answer = exchange_on(self._connection, encoded, method)
            closes = (answer.header("connection") or "").lower() == "close"
            if not answer.status or closes:
                self.close()
            if answer.status:
                return answer
        return answer

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None
