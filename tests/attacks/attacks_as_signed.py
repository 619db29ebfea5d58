"""`authorization = "origin"`: everything is cached for the root, and a user of the origin without rights wants it.

The key `nothing` is that user here, and `all` the root.
"""

from attack import REFUSED_OR_CLOSED, Attack, Request, delete, get, head, post, put, rows
from attacks_access import deletion
from wire import Signing

NEW = b"written by an attack"
SECRET = "/lake/$lake_secret_a"
READS = [
    ("get", get(SECRET)),
    ("head", head(SECRET)),
    ("range", get(SECRET, "", ("Range", "bytes=0-99"))),
    ("if-none-match-any", get(SECRET, "", ("If-None-Match", "*"))),
    ("if-none-match-signed", get(SECRET, "", ("If-None-Match", '"x"'))),
    ("if-none-match-twice", get(SECRET, unsigned=[("If-None-Match", "*"), ("If-None-Match", '"x"')])),
    ("if-none-match-underscores", get(SECRET, unsigned=[("if_none_match", "*")])),
    ("if-modified-since", get(SECRET, "", ("If-Modified-Since", "Tue, 01 Jan 2030 00:00:00 GMT"))),
    ("if-match-any", get(SECRET, "", ("If-Match", "*"))),
    ("only-if-cached", get(SECRET, "", ("Cache-Control", "only-if-cached, max-stale=999999"))),
    ("connection-names-the-condition", get(SECRET, unsigned=[("Connection", "close, if-none-match, authorization")])),
    ("connection-names-the-hash", get(SECRET, unsigned=[("Connection", "close, x-amz-content-sha256, x-amz-date")])),
    ("presigned", get(SECRET, signing=Signing(where="query"))),
    ("presigned-expired", get(SECRET, signing=Signing(where="query", expires="1", skew=-900))),
    ("version-2", get(SECRET, signing=Signing(where="v2"))),
    ("cut", get(SECRET, signing=Signing(forge=lambda value: value[:-1]))),
    ("empty", get(SECRET, signing=Signing(forge=lambda _: ""))),
    ("virtual-hosted", get("/$lake_secret_a", host="lake.s3.localhost")),
    ("foreign-host", get("/$lake_secret_a", host="lake.attacker.example")),
    ("absolute", get(SECRET, target="http://lake.s3.localhost/$lake_secret_a")),
    ("encoded-path", get("/%6cake/%73ecret/$secret_leaf")),
    ("dots", get("/lake/pub/../$lake_secret_a")),
    ("empty-segment", get("/lake//$lake_secret_a")),
    ("response-type", get(SECRET, "response-content-type=text/html")),
    ("unknown-parameter", get(SECRET, "foo=bar")),
    ("version", get(SECRET, "versionId=null")),
    ("tags", get(SECRET, "tagging=")),
    ("list", get("/lake", "list-type=2")),
    ("select", post(SECRET, "select=&select-type=2", b"<X/>")),
    ("options", Request("OPTIONS", SECRET)),
    ("list-users", Request("PATCH", "/list-users")),
    ("export-iam", get("/minio/admin/v3/export-iam")),
]
WRITES = [
    ("put", put(SECRET, NEW)),
    ("delete", delete(SECRET)),
    ("delete-list", deletion(b"<Delete><Object><Key>$lake_secret_a</Key></Object></Delete>")),
    ("copy", put("/lake/pub/copied", b"", ("x-amz-copy-source", SECRET))),
    ("policy", put("/lake", b"{}", query="policy=")),
    ("delete-bucket", delete("/empty")),
]
# What the root signed, changed on its way: the user has seen such requests, but cannot sign them.
CHANGED = [
    ("added-header", get("/lake/$lake_pub_a", unsigned=[("x-amz-copy-source", SECRET)]), REFUSED_OR_CLOSED | {200}),
    ("condition-added", get(SECRET, unsigned=[("If-None-Match", "*")]), REFUSED_OR_CLOSED | {200, 304}),
    ("tar-on-put", put("/lake/pub/x", NEW, unsigned=[("x-amz-meta-snowball-auto-extract", "true")]), REFUSED_OR_CLOSED),
    ("copy-on-put", put("/lake/pub/x", b"", unsigned=[("x-amz-copy-source", SECRET)]), REFUSED_OR_CLOSED),
]

ATTACKS = [
    *rows("as-signed", "nothing", READS + WRITES),
    *rows("as-signed", None, [(trick, request) for trick, request in (READS + WRITES) if trick not in ("cut", "empty", "presigned", "presigned-expired", "version-2")]),
    *rows("as-signed", "all", [(f"root-{trick}", request) for trick, request in READS if trick in ("cut", "empty", "presigned-expired", "connection-names-the-hash")], expects=REFUSED_OR_CLOSED, rights="nothing"),
    *rows("as-signed", "all", [(f"changed-{row[0]}", *row[1:]) for row in CHANGED]),
    Attack("as-signed", "control-get", "all", [get(SECRET)], frozenset({200}), shows=(b"$lake_secret_a",)),
]  # fmt: skip
