"""The bytes of HTTP: framing, hosts and methods that the gateway and the origin could read in two ways.

Where a framing attack is sent, a second request lies inside the body of the first. It is not signed, so it must not be
answered with anything, and what it says must not reach the origin; the judge sees what the next readers get.
"""

import re

from attack import DENIED, REFUSED_OR_CLOSED, Attack, Request, get, put, rows
from wire import Signing

NEW = b"written by an attack"
PUB, SECRET = "/lake/$lake_pub_a", "/lake/$lake_secret_a"
INNER = b"GET /lake/$lake_secret_a HTTP/1.1\r\nHost: x\r\n\r\n"
# A body that is one thing by its chunks and another by its length.
CHUNKED = b"0\r\n\r\n" + INNER
UNSIGNED = Signing(payload="UNSIGNED-PAYLOAD")


def framed(body, *headers, length=None):
    """A PUT with the framing headers of an attack, which nobody signs."""
    return Request("PUT", PUB, body=b"", wire_body=body, unsigned=list(headers), length=length, signing=UNSIGNED, drains=True)


def edited(request, old, new):
    request.drains = True
    request.edit = lambda encoded: re.sub(old, new, encoded, count=1)
    return request


# A refusal by the gateway itself: 411, say, would be the origin's word about what reached it.
MALFORMED = frozenset({0, 400, 408, 431, 501, 505})
TE = "Transfer-Encoding"
BOTH = str(len(CHUNKED))
FRAMING = [
    ("length-and-chunked", framed(CHUNKED, (TE, "chunked"))),
    ("chunked-and-length", edited(framed(CHUNKED, ("Content-Length", BOTH), length=""), rb"\r\nContent-Length", b"\r\nTransfer-Encoding: chunked\r\nContent-Length")),
    ("length-0-and-chunked", framed(b"14\r\n" + NEW + b"\r\n0\r\n\r\n", (TE, "chunked"), length="0")),
    ("identity-and-chunked", framed(CHUNKED, (TE, "identity, chunked"), length="")),
    ("identity-and-chunked-and-length", framed(CHUNKED, (TE, "identity, chunked"))),
    ("chunked-and-identity", framed(CHUNKED, (TE, "chunked, identity"), length="")),
    ("chunked-twice", framed(CHUNKED, (TE, "chunked, chunked"), length="")),
    ("chunked-in-two-headers", framed(CHUNKED, (TE, "chunked"), (TE, "chunked"), length="")),
    ("identity-and-chunked-headers", framed(CHUNKED, (TE, "identity"), (TE, "chunked"), length="")),
    ("chunked-and-identity-headers", framed(CHUNKED, (TE, "chunked"), (TE, "identity"), length="")),
    ("gzip-and-chunked", framed(CHUNKED, (TE, "gzip, chunked"), length="")),
    ("identity-and-length", framed(NEW, (TE, "identity"))),
    ("unknown-coding", framed(CHUNKED, (TE, "xchunked"), length="")),
    ("unknown-coding-and-length", framed(CHUNKED, (TE, "xchunked"))),
    ("quoted", framed(CHUNKED, (TE, '"chunked"'))),
    ("empty-coding", framed(CHUNKED, (TE, ""))),
    ("comma-first", framed(CHUNKED, (TE, ", chunked"))),
    ("parameter", framed(CHUNKED, (TE, "chunked;x=y"))),
    ("vertical-tab", framed(CHUNKED, (TE, "\x0bchunked"))),
    ("tab", framed(CHUNKED, (TE, "\tchunked"))),
    ("space-before-colon", framed(CHUNKED, (TE + " ", "chunked"))),
    ("folded", framed(CHUNKED, (TE, "\r\n chunked"))),
    ("folded-length", framed(CHUNKED, ("X-A", "b\r\n Content-Length: 0"))),
    ("leading-space", framed(CHUNKED, (" Transfer-Encoding", "chunked"))),
    ("nul-in-the-name", framed(CHUNKED, ("Transfer-Encoding\0", "chunked"))),
    ("carriage-return", framed(CHUNKED, ("X-A", "b\rTransfer-Encoding: chunked"))),
    ("two-lengths", framed(CHUNKED, ("Content-Length", "0"))),
    ("two-lengths-first", edited(framed(CHUNKED), rb"\r\nContent-Length", b"\r\nContent-Length: 0\r\nContent-Length")),
    ("length-list", framed(CHUNKED, length=f"{BOTH}, 0")),
    ("length-plus", framed(CHUNKED, length=f"+{BOTH}")),
    ("length-minus", framed(CHUNKED, length="-1")),
    ("length-hex", framed(CHUNKED, length="0x10")),
    ("length-space", framed(CHUNKED, length="1 0")),
    ("length-fraction", framed(CHUNKED, length="5.0")),
    ("length-overflow", framed(CHUNKED, length="18446744073709551616")),
    ("length-negative-overflow", framed(CHUNKED, length="18446744073709551615")),
    ("length-empty", framed(CHUNKED, ("Content-Length", ""), length="")),
    ("chunk-size-overflow", framed(b"10000000000000000\r\n" + INNER, (TE, "chunked"), length="")),
    ("chunk-size-prefix", framed(b"0x5\r\nhello\r\n0\r\n\r\n" + INNER, (TE, "chunked"), length="")),
    ("chunk-size-negative", framed(b"-5\r\nhello\r\n0\r\n\r\n" + INNER, (TE, "chunked"), length="")),
    ("chunk-size-space", framed(b"5 5\r\nhello\r\n0\r\n\r\n" + INNER, (TE, "chunked"), length="")),
    ("chunk-without-end", framed(b"5\r\nhelloXX0\r\n\r\n" + INNER, (TE, "chunked"), length="")),
    ("chunk-bare-newline", framed(b"5\nhello\n0\n\n" + INNER, (TE, "chunked"), length="")),
    ("chunk-extension-newline", framed(b"5;x\nhello\r\n0\r\n\r\n" + INNER, (TE, "chunked"), length="")),
    ("chunk-extension-long", framed(b"5;" + b"x" * 100000 + b"\r\nhello\r\n0\r\n\r\n", (TE, "chunked"), length="")),
    ("bare-newline-header", edited(framed(CHUNKED), rb"\r\nContent-Length", b"\nTransfer-Encoding: chunked\r\nContent-Length")),
    ("no-colon", edited(framed(NEW), rb"\r\nContent-Length", b"\r\nGarbage\r\nContent-Length")),
    ("nul-in-a-value", framed(NEW, ("X-A", "b\0c"))),
    ("empty-name", framed(NEW, ("", "b"))),
    ("http-1-0-chunked", edited(framed(CHUNKED, (TE, "chunked"), length=""), rb"HTTP/1\.1", b"HTTP/1.0")),
    ("http-1-2", edited(framed(NEW), rb"HTTP/1\.1", b"HTTP/1.2")),
    ("http-0-9", edited(framed(NEW), rb" HTTP/1\.1", b"")),
    ("two-spaces", edited(framed(NEW), rb" HTTP/1\.1", b"  HTTP/1.1")),
    ("long-head", framed(NEW, ("X-A", "b" * 200000))),
]
# What is good HTTP, or may be taken for it, such as a line that ends in a bare newline. Only what is inside it must not be obeyed.
GOOD = [
    ("bare-newlines", edited(framed(NEW), rb"\r\nContent-Length: (\d+)\r\n", rb"\nContent-Length: \1\n")),
    ("length-underscore", framed(CHUNKED, ("Content_Length", "0"))),
    ("underscore", framed(CHUNKED, ("Transfer_Encoding", "chunked"))),
    ("trailer-copy-source", framed(b"14\r\n" + NEW + b"\r\n0\r\nx-amz-copy-source: /lake/x\r\nContent-Length: 5\r\n\r\n", (TE, "chunked"), length="")),
    ("chunk-extension", framed(b"14;x=y\r\n" + NEW + b"\r\n0\r\n\r\n", (TE, "chunked"), length="")),
    ("chunked-in-upper-case", framed(b"14\r\n" + NEW + b"\r\n0\r\n\r\n", (TE, "CHUNKED"), length="")),
    ("request-behind-a-request", framed(NEW + INNER, length=str(len(NEW)))),
    ("request-in-a-get", Request("GET", PUB, wire_body=INNER, signing=UNSIGNED, drains=True)),
    ("request-in-a-get-without-length", Request("GET", PUB, wire_body=INNER, length="", signing=UNSIGNED, drains=True)),
    ("request-in-a-head", Request("HEAD", PUB, wire_body=INNER, signing=UNSIGNED, drains=True)),
    ("request-in-a-delete", Request("DELETE", "/lake/pub/none", wire_body=INNER, signing=UNSIGNED, drains=True)),
    ("expect-and-a-request", Request("PUT", PUB, wire_body=NEW + INNER, length=str(len(NEW)), unsigned=[("Expect", "100-continue")], signing=UNSIGNED, drains=True)),
    ("upgrade-and-a-request", Request("GET", PUB, wire_body=INNER, length="", unsigned=[("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA")], drains=True)),
]  # fmt: skip

# Who the host names: each aims at lake/secret/a or other/secret/a.
HOSTS = [
    ("virtual", get("/$lake_secret_a", host="lake.s3.localhost")),
    ("virtual-upper-case", get("/$lake_secret_a", host="LAKE.S3.LOCALHOST")),
    ("virtual-port", get("/$lake_secret_a", host="lake.s3.localhost:9000")),
    ("virtual-dot", get("/$lake_secret_a", host="lake.s3.localhost.")),
    ("virtual-other", get("/$other_secret_a", host="other.s3.localhost")),
    ("virtual-other-with-path", get(PUB, host="other.s3.localhost")),
    ("virtual-two-labels", get("/$secret_leaf", host="secret.lake.s3.localhost")),
    ("virtual-slash", get("/secret/$secret_leaf", host="lake/pub.s3.localhost")),
    ("virtual-encoded-slash", get("/$secret_leaf", host="lake%2fsecret.s3.localhost")),
    ("virtual-user", get("/$lake_secret_a", host="lake@s3.localhost")),
    ("virtual-user-of-an-address", get("/$lake_secret_a", host="lake.s3.localhost@127.0.0.1")),
    ("virtual-two-ports", get("/$lake_secret_a", host="lake.s3.localhost:1:2")),
    ("virtual-empty-label", get("/lake/$lake_secret_a", host=".s3.localhost")),
    ("virtual-dots", get("/lake/$lake_secret_a", host="..s3.localhost")),
    ("virtual-into-a-folder", get("/../other/$other_secret_a", host="lake.s3.localhost")),
    ("virtual-empty-segment", get("//other/$other_secret_a", host="lake.s3.localhost")),
    ("host-is-a-path", get(PUB, host="127.0.0.1/lake/$lake_secret_a?")),
    ("host-is-a-url", get(PUB, host="http://other.s3.localhost")),
    ("host-is-the-origin", get(PUB, host="localhost")),
    ("host-is-of-amazon", get("/$lake_secret_a", host="lake.s3.amazonaws.com")),
    ("host-with-a-tab", get("/$lake_secret_a", host="\tlake.s3.localhost")),
    ("absolute", get(PUB, target="http://127.0.0.1/lake/$lake_secret_a")),
    ("absolute-virtual", get(PUB, target="http://lake.s3.localhost/$lake_secret_a")),
    ("absolute-user", get(PUB, target="http://u:p@127.0.0.1/lake/$lake_secret_a")),
    ("absolute-same-host-other-bucket", get(PUB, target="http://other.s3.localhost/$other_secret_a")),
    ("absolute-https", get(PUB, target="https://lake.s3.localhost/$lake_secret_a")),
    ("authority", get(PUB, target="//other/$other_secret_a")),
    ("without-slash", get(PUB, target="lake/$lake_secret_a")),
    ("asterisk", get(PUB, target="*")),
    ("fragment", get(PUB, target="/lake/$lake_pub_a#/../$lake_secret_a")),
    ("two-hosts", get("/$lake_secret_a", host="lake.s3.localhost", unsigned=[("Host", "127.0.0.1")])),
    ("no-host", get(PUB, host="")),
    ("forwarded-host", get("/$lake_secret_a", "", ("X-Forwarded-Host", "lake.s3.localhost"))),
]
METHODS = ["OPTIONS", "TRACE", "CONNECT", "PATCH", "PROPFIND", "MOVE", "COPY", "LOCK", "MKCOL", "PURGE", "LINK", "SEARCH", "PRI", "get", "Get", "DELETE\t", "BREW"]


def method(name, path, *headers):
    return Request(name, path, "", list(headers), drains=True)


SERVES_NOTHING = REFUSED_OR_CLOSED | {200, 204}
ATTACKS = [
    # A framing that has two readings is refused, whoever sends it.
    *rows("wire", "pub-both", FRAMING, expects=MALFORMED),
    *rows("wire", "pub-writer", GOOD),
    *rows("host", "pub-reader", HOSTS),
    *rows("host", "not-secret", [row for row in HOSTS if "other" not in row[0]]),
    *rows("method", "pub-reader", [(f"secret-{name.strip().lower()}-{place}", method(name, SECRET)) for place, name in enumerate(METHODS)]),
    *rows("method", "pub-reader", [(f"allowed-{name.strip().lower()}-{place}", method(name, PUB, ("Destination", SECRET))) for place, name in enumerate(METHODS)]),
    *rows("method", "pub-both", [(f"allowed-{name.strip().lower()}-{place}", method(name, PUB, ("Destination", SECRET), ("x-amz-copy-source", SECRET))) for place, name in enumerate(METHODS)]),
    Attack("method", "trace-tells-a-signature", "pub-reader", [method("TRACE", "/")], SERVES_NOTHING),
    Attack("method", "preflight", None, [Request("OPTIONS", SECRET, "", [("Origin", "http://attacker.example"), ("Access-Control-Request-Method", "PUT")])], REFUSED_OR_CLOSED | {200, 204}),
    Attack("method", "cross-origin-get", "pub-reader", [get(SECRET, "", ("Origin", "http://attacker.example"))], DENIED),
    Attack("method", "put-on-a-read-key", "pub-reader", [put(PUB, NEW)], DENIED),
]  # fmt: skip
for attack in ATTACKS:
    attack.is_core = attack.family == "wire" and attack.trick in ("length-and-chunked", "identity-and-chunked", "two-lengths", "length-0-and-chunked")
