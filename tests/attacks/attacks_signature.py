"""Signatures: forged, stretched, stripped and combined. Whoever has no good one has no rights at all."""

import base64
import hashlib
import hmac
import re
import zlib

import wire
from attack import REFUSED, REFUSED_OR_CLOSED, Attack, Request, get, head, put
from wire import Key, Signing

NEW = b"written by an attack"
SECRET, PUB = "/lake/$lake_secret_a", "/lake/$lake_pub_a"


def presigned(**options):
    return get(SECRET, signing=Signing(where="query", **options))


def signed(**options):
    return get(SECRET, signing=Signing(**options))


def replaced(old, new, request=None):
    """A request of which some bytes are changed after it was signed."""
    request = request or get(SECRET)
    request.edit = lambda encoded: re.sub(old, new, encoded, count=1)
    return request


UPPER = str.upper
HEADER = [
    ("upper-case-hex", signed(forge=UPPER)),
    ("empty", signed(forge=lambda _: "")),
    ("zero", signed(forge=lambda _: "0" * 64)),
    ("cut", signed(forge=lambda value: value[:-1])),
    ("longer", signed(forge=lambda value: value + "0")),
    ("doubled", signed(forge=lambda value: value + value)),
    ("last-digit", signed(forge=lambda value: value[:-1] + ("0" if value[-1] != "0" else "1"))),
    ("wrong-region", signed(region="eu-west-1")),
    ("empty-region", signed(region="")),
    ("region-in-upper-case", signed(region="US-EAST-1")),
    ("wrong-service", signed(service="sts")),
    ("service-s3express", signed(service="s3express")),
    ("service-in-upper-case", signed(service="S3")),
    ("old", signed(skew=-1200)),
    ("ahead", signed(skew=1200)),
    ("far-ahead", signed(skew=400 * 86400)),
    ("scope-of-another-day", signed(scope_date="20200101")),
    ("scope-without-date", signed(scope_date="")),
    ("host-not-signed", signed(names=("x-amz-content-sha256", "x-amz-date"))),
    ("date-not-signed", signed(names=("host", "x-amz-content-sha256"))),
    ("hash-not-signed", signed(names=("host", "x-amz-date"))),
    ("nothing-signed", signed(names=())),
    ("signed-twice", signed(names=("host", "host", "x-amz-content-sha256", "x-amz-date"))),
    ("missing-header-signed", signed(names=("host", "x-amz-content-sha256", "x-amz-date", "x-amz-missing"))),
    ("names-in-upper-case", signed(names=("HOST", "X-AMZ-CONTENT-SHA256", "X-AMZ-DATE"))),
    ("names-unsorted", signed(names=("x-amz-date", "x-amz-content-sha256", "host"))),
    ("hash-absent", signed(sends_payload=False)),
    ("hash-garbage", signed(payload="x")),
    ("hash-unknown-streaming", signed(payload="STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")),
    ("version-2", signed(where="v2")),
    ("added-amz-header", get(SECRET, unsigned=[("x-amz-request-payer", "requester")])),
    ("added-security-token", get(SECRET, unsigned=[("x-amz-security-token", "forged")])),
    ("second-authorization", get(SECRET, unsigned=[("Authorization", "AWS4-HMAC-SHA256 Credential=key-nothing/x")])),
    ("first-authorization", replaced(rb"\r\nAuthorization: ", b"\r\nAuthorization: Basic eA==\r\nAuthorization: ")),
    ("algorithm-sha1", replaced(rb"AWS4-HMAC-SHA256", b"AWS4-HMAC-SHA1")),
    ("algorithm-ecdsa", replaced(rb"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256-SHA256")),
    ("algorithm-absent", replaced(rb"AWS4-HMAC-SHA256 ", b"")),
    ("terminator", replaced(rb"aws4_request", b"aws5_request")),
    ("credential-twice", replaced(rb"Credential=", b"Credential=key-nothing/20200101/us-east-1/s3/aws4_request, Credential=")),
    ("signature-twice", replaced(rb"Signature=", b"Signature=0, Signature=")),
    ("names-twice", replaced(rb"SignedHeaders=", b"SignedHeaders=host, SignedHeaders=")),
    ("another-path", replaced(rb"GET /lake/\S+", rb"GET /lake", get(PUB))),
    ("another-method", replaced(rb"^GET", b"HEAD")),
    ("delete-for-get", replaced(rb"^GET", b"DELETE")),
    ("another-query", replaced(rb" HTTP/1", b"?versionId=null HTTP/1")),
    ("another-date", replaced(rb"(x-amz-date: \d+T\d\d)\d\d", rb"\g<1>59")),
    ("date-twice", get(SECRET, unsigned=[("x-amz-date", "20200101T000000Z")])),
    ("hash-twice", get(SECRET, unsigned=[("x-amz-content-sha256", "UNSIGNED-PAYLOAD")])),
    ("host-twice", get(SECRET, unsigned=[("Host", "other.s3.localhost")])),
]
QUERY = [
    ("expires-0", presigned(expires="0")),
    ("expires-negative", presigned(expires="-1")),
    ("expires-beyond-a-week", presigned(expires="604801")),
    ("expires-huge", presigned(expires="99999999999999999999")),
    ("expires-overflow", presigned(expires="18446744073709551616")),
    ("expires-fraction", presigned(expires="1.5")),
    ("expires-hex", presigned(expires="0x100")),
    ("expires-word", presigned(expires="never")),
    ("expires-empty", presigned(expires="")),
    ("expires-absent", presigned(expires=None)),
    ("expires-space", presigned(expires="%20300")),
    ("expires-plus", presigned(expires="%2B300")),
    ("expires-exponent", presigned(expires="1e9")),
    ("expired", presigned(expires="60", skew=-300)),
    ("expired-long-ago", presigned(expires="604800", skew=-700000)),
    ("not-yet", presigned(skew=86400)),
    ("upper-case-hex", presigned(forge=UPPER)),
    ("empty", presigned(forge=lambda _: "")),
    ("zero", presigned(forge=lambda _: "0" * 64)),
    ("wrong-region", presigned(region="eu-west-1")),
    ("wrong-service", presigned(service="sts")),
    ("scope-of-another-day", presigned(scope_date="20200101")),
    ("host-not-signed", presigned(names=())),
    ("missing-header-signed", presigned(names=("host", "x-amz-missing"))),
    ("added-parameter", replaced(rb"&X-Amz-Signature", b"&versionId=null&X-Amz-Signature", presigned())),
    ("parameter-behind", replaced(rb" HTTP/1", b"&versionId=null HTTP/1", presigned())),
    ("signature-twice", replaced(rb"&X-Amz-Signature", b"&X-Amz-Signature=0&X-Amz-Signature", presigned())),
    ("signature-behind", replaced(rb" HTTP/1", b"&X-Amz-Signature=0 HTTP/1", presigned())),
    ("expires-twice", replaced(rb"&X-Amz-Expires=\d+", b"&X-Amz-Expires=604800&X-Amz-Expires=300", presigned(expires="300"))),
    ("expires-longer", replaced(rb"X-Amz-Expires=\d+", b"X-Amz-Expires=600000", presigned(expires="60", skew=-300))),
    ("expires-longer-behind", replaced(rb" HTTP/1", b"&X-Amz-Expires=600000 HTTP/1", presigned(expires="60", skew=-300))),
    ("date-newer-in-a-header", get(SECRET, unsigned=[("x-amz-date", "20300101T000000Z")], signing=Signing(where="query", expires="60", skew=-300))),
    ("lower-case-names", replaced(rb"X-Amz-Signature", b"x-amz-signature", presigned())),
    ("another-path", replaced(rb"GET /lake/\S+?\?", rb"GET /lake/?", get(PUB, signing=Signing(where="query")))),
    ("for-head", replaced(rb"^GET", b"HEAD", presigned())),
    ("for-put", replaced(rb"^GET", b"PUT", presigned())),
    ("for-delete", replaced(rb"^GET", b"DELETE", presigned())),
    ("amz-header-unsigned", get(SECRET, unsigned=[("x-amz-request-payer", "x")], signing=Signing(where="query"))),
    ("copy-source-unsigned", put(PUB, b"", unsigned=[("x-amz-copy-source", SECRET)], signing=Signing(where="query"))),
    ("tags-unsigned", put(PUB, NEW, unsigned=[("x-amz-tagging", "a=b")], signing=Signing(where="query"))),
    ("hash-of-another-body", put(PUB, NEW, signing=Signing(where="query", payload="0" * 64))),
    ("and-authorization", get(SECRET, unsigned=[("Authorization", "AWS4-HMAC-SHA256 Credential=key-nothing/x, SignedHeaders=host, Signature=0")], signing=Signing(where="query"))),
    ("and-basic", get(SECRET, unsigned=[("Authorization", "Basic eDp5")], signing=Signing(where="query"))),
]
# Headers hoisted into the query of a presigned URL: they count nowhere, or are refused; above all they agree.
HOISTED = [
    ("copy-source", put("/lake/pub/copied", b"", query="x-amz-copy-source=%2Flake%2F$lake_secret_a", signing=Signing(where="query"))),
    ("copy-source-and-header", put("/lake/pub/copied", b"", ("x-amz-copy-source", PUB), query="X-Amz-Copy-Source=%2Flake%2F$lake_secret_a", signing=Signing(where="query"))),
    ("copy-source-in-upper-case", put("/lake/pub/copied", b"", query="X-AMZ-COPY-SOURCE=%2Flake%2F$lake_secret_a", signing=Signing(where="query"))),
    ("rename-source", put("/lake/pub/renamed", b"", query="renameObject=&x-amz-rename-source=%2Flake%2F$lake_secret_a", signing=Signing(where="query"))),
    ("acl", put(PUB, NEW, query="x-amz-acl=public-read-write", signing=Signing(where="query"))),
    ("extract", put(PUB, NEW, query="x-amz-meta-snowball-auto-extract=true", signing=Signing(where="query"))),
    ("replication", put(PUB, NEW, query="x-amz-replication-status=REPLICA", signing=Signing(where="query"))),
    ("force-delete", Request("DELETE", "/lake/pub/", "x-minio-force-delete=true", signing=Signing(where="query"))),
    ("token", get(SECRET, "X-Amz-Security-Token=forged", signing=Signing(where="query"))),
]
NOBODY = [
    ("anonymous", get(SECRET)),
    ("basic", get(SECRET, "", ("Authorization", "Basic eDp5"))),
    ("bearer", get(SECRET, "", ("Authorization", "Bearer eyJhbGciOiJub25lIn0.e30."))),
    ("empty-authorization", get(SECRET, "", ("Authorization", ""))),
    ("only-an-algorithm", get(SECRET, "", ("Authorization", "AWS4-HMAC-SHA256"))),
    ("anonymous-cached", get(PUB)),
    ("anonymous-put", put(PUB, NEW)),
    ("anonymous-delete", Request("DELETE", PUB)),
    ("anonymous-list", get("/lake", "list-type=2")),
    ("anonymous-head", head(PUB)),
    ("jwt-in-the-query", get(SECRET, "X-Amz-Security-Token=eyJhbGciOiJub25lIn0.e30.")),
    ("version-2-in-the-query", get(SECRET, "AWSAccessKeyId=key-all&Expires=4000000000&Signature=AAAA")),
    ("goog-in-the-query", get(SECRET, "X-Goog-Algorithm=GOOG4-HMAC-SHA256&X-Goog-Credential=key-all&X-Goog-Signature=00")),
    ("website", get(SECRET, "", host="lake.s3-website.localhost")),
]


def with_key(make, request=None):
    """A request that is signed with a key that Zonal does not know, or only half."""

    def flow(actor):
        answer = actor.send(request or get(SECRET), key=make(actor))
        actor.expect(answer, REFUSED)

    return flow


KEYS = [
    ("unknown", with_key(lambda _: Key("nobody", "x"))),
    ("empty-name", with_key(lambda _: Key("", "x"))),
    ("empty-secret", with_key(lambda _: Key("key-all", ""))),
    ("secret-of-another", with_key(lambda actor: Key("key-all", actor.gateway.keys["nothing"].secret_key))),
    ("root-of-the-origin", with_key(lambda actor: actor.world.origin.root)),
    ("user-of-the-origin", with_key(lambda actor: actor.world.origin.user)),
    ("name-with-a-slash", with_key(lambda actor: Key("x/key-all", actor.gateway.keys["all"].secret_key))),
    ("name-in-upper-case", with_key(lambda actor: Key("KEY-ALL", actor.gateway.keys["all"].secret_key))),
    ("name-with-a-space", with_key(lambda actor: Key("key-all ", actor.gateway.keys["all"].secret_key))),
]


# --- bodies in signed chunks


def chunked(pieces, forge=lambda place, signature: signature, length=None, trailer=b"", payload="STREAMING-AWS4-HMAC-SHA256-PAYLOAD", edit=lambda body: body):
    """PUT with signed chunks; `forge` may change the signature of each."""

    def flow(actor):
        key = actor.key(actor.attack.key)
        sent_length = sum(len(piece) for piece in pieces) if length is None else length
        probe = b"".join(framed(piece, "0" * 64) for piece in [*pieces, b""])
        headers = [("content-encoding", "aws-chunked"), ("x-amz-decoded-content-length", str(sent_length))]
        headers += [("x-amz-trailer", "x-amz-checksum-crc32")] if trailer else []
        body_length = len(edit(probe[:-2] + trailer + probe[-2:] if trailer else probe))
        request = Request("PUT", PUB, "", headers, b"", length=str(body_length), signing=Signing(payload=payload))
        encoded = actor.encoded(request)
        body = chunks(encoded, key, pieces, forge)
        body = edit(body[:-2] + trailer + body[-2:] if trailer else body)
        answer = actor.send_bytes(encoded + body, "PUT")
        actor.expect(answer, REFUSED_OR_CLOSED)

    return flow


def framed(piece, signature):
    return b"%x;chunk-signature=%s\r\n%s\r\n" % (len(piece), signature.encode(), piece)


def chunks(encoded, key, pieces, forge):
    previous = re.search(rb"Signature=([0-9a-f]+)", encoded).group(1).decode()
    time = re.search(rb"x-amz-date: (\w+)", encoded).group(1).decode()
    scope = re.search(rb"Credential=[^/]+/([^,]+)", encoded).group(1).decode()
    signer = wire.Signer(Request(), key, "")
    body = b""
    for place, piece in enumerate([*pieces, b""]):
        empty = hashlib.sha256(b"").hexdigest()
        string = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", time, scope, previous, empty, hashlib.sha256(piece).hexdigest()])
        previous = hmac.new(signer.signing_key(), string.encode(), hashlib.sha256).hexdigest()
        body += framed(piece, forge(place, previous))
    return body


def unsigned_trailer(body, decoded=None, trailer=b"x-amz-checksum-crc32"):
    """PUT with chunks that are not signed and a checksum behind them."""
    headers = [("content-encoding", "aws-chunked"), ("x-amz-decoded-content-length", str(len(NEW) if decoded is None else decoded))]
    headers += [("x-amz-trailer", trailer.decode())]
    return Request("PUT", PUB, "", headers, b"", wire_body=body, signing=Signing(payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER"))


CRC = base64.b64encode(zlib.crc32(NEW).to_bytes(4, "big"))
LONG = b"a" * 8192
CHUNKS = [
    ("first-forged", chunked([LONG, NEW], lambda place, value: "0" * 64 if place == 0 else value)),
    ("second-forged", chunked([LONG, NEW], lambda place, value: "0" * 64 if place == 1 else value)),
    ("last-forged", chunked([LONG, NEW], lambda place, value: "0" * 64 if place == 2 else value)),
    ("upper-case", chunked([LONG], lambda _, value: value.upper())),
    ("content-changed", chunked([LONG], edit=lambda body: body.replace(b"aaaa", b"bbbb", 1))),
    ("last-missing", chunked([LONG], edit=lambda body: body[: body.rindex(b"0;chunk")])),
    ("length-too-long", chunked([LONG], length=9000)),
    ("length-too-short", chunked([LONG], length=100)),
    ("length-zero", chunked([LONG], length=0)),
    ("behind-the-last", chunked([LONG], edit=lambda body: body + b"5\r\nhello\r\n0\r\n\r\n")),
    ("no-signatures", chunked([LONG], edit=lambda body: re.sub(rb";chunk-signature=\w+", b"", body))),
    ("unsigned-trailer-added", chunked([LONG], trailer=b"x-amz-checksum-crc32:AAAAAA==\r\n", payload="STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER")),
    ("swapped", chunked([LONG, NEW * 10], edit=lambda body: body[len(framed(LONG, "0" * 64)) :] + body[: len(framed(LONG, "0" * 64))])),
]
TRAILERS = [
    ("wrong-checksum", unsigned_trailer(b"14\r\n%s\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n" % NEW)),
    ("missing-checksum", unsigned_trailer(b"14\r\n%s\r\n0\r\n\r\n" % NEW)),
    ("other-trailer", unsigned_trailer(b"14\r\n%s\r\n0\r\nx-amz-copy-source:/lake/x\r\n\r\n" % NEW)),
    ("copy-source-announced", unsigned_trailer(b"14\r\n%s\r\n0\r\nx-amz-copy-source:$lake_secret_a\r\n\r\n" % NEW, trailer=b"x-amz-copy-source")),
    ("wrong-length", unsigned_trailer(b"14\r\n%s\r\n0\r\nx-amz-checksum-crc32:%s\r\n\r\n" % (NEW, CRC), 5)),
    ("size-too-large", unsigned_trailer(b"ff\r\n%s\r\n0\r\nx-amz-checksum-crc32:%s\r\n\r\n" % (NEW, CRC))),
    ("size-negative", unsigned_trailer(b"-14\r\n%s\r\n0\r\n\r\n" % NEW)),
    ("size-overflow", unsigned_trailer(b"10000000000000014\r\n%s\r\n0\r\n\r\n" % NEW)),
    ("bare-newlines", unsigned_trailer(b"14\n%s\n0\nx-amz-checksum-crc32:%s\n\n" % (NEW, CRC))),
]  # fmt: skip

# Served as AWS serves them, or refused; nothing else is said of them.
LENIENT = {"names-in-upper-case", "names-unsorted", "for-head", "added-security-token"}
CORE = ("expires-0", "upper-case-hex", "wrong-region")


def forged(prefix, table, key, **options):
    attacks = []
    for trick, request in table:
        expects = None if trick in LENIENT else REFUSED_OR_CLOSED
        name = f"{prefix}-{trick}"
        attacks.append(Attack("signature", name, key, [request], expects, rights="nothing", is_core=trick in CORE, **options))
    return attacks


ATTACKS = [
    *forged("header", [row for row in HEADER if row[0] not in LENIENT], "all"),
    *forged("query", QUERY, "all"),
    *(Attack("signature", f"hoisted-{trick}", "pub-both", [request]) for trick, request in HOISTED),
    *forged("nobody", NOBODY, None),
    *(Attack("signature", f"key-{trick}", None, flow=flow) for trick, flow in KEYS),
    *(Attack("signature", f"chunks-{trick}", "all", flow=flow, rights="nothing") for trick, flow in CHUNKS),
    *forged("trailer", TRAILERS, "all"),
]
