"""Who may only write asks the same of a name that exists and of one that does not: the answers must not differ.

The same goes for whoever may not even write, and for names of buckets.
"""

import base64
import zlib

from attack import Attack, Request, delete, get, head, post, put
from attacks_access import COMPLETE, HOLD, RETENTION, SELECT, TAGS, deletion
from wire import Signing
from world import NO_UPLOAD

NEW = b"written by an attack"
PATH = "/lake/$t"
DATE = "Tue, 01 Jan 2030 00:00:00 GMT"
PROBES = [
    ("put", put(PATH, NEW)),
    ("put-if-none-match-any", put(PATH, NEW, ("If-None-Match", "*"))),
    ("put-if-none-match-tag", put(PATH, NEW, ("If-None-Match", '"x"'))),
    ("put-if-match-any", put(PATH, NEW, ("If-Match", "*"))),
    ("put-if-match-tag", put(PATH, NEW, ("If-Match", '"x"'))),
    ("put-if-modified-since", put(PATH, NEW, ("If-Modified-Since", DATE))),
    ("put-if-unmodified-since", put(PATH, NEW, ("If-Unmodified-Since", "Tue, 01 Jan 2002 00:00:00 GMT"))),
    ("put-if-none-match-unsigned", put(PATH, NEW, unsigned=[("if-none-match", "*")])),
    ("put-if-none-match-underscores", put(PATH, NEW, unsigned=[("if_none_match", "*")])),
    ("put-if-none-match-presigned", put(PATH, NEW, ("If-None-Match", "*"), signing=Signing(where="query"))),
    ("put-if-none-match-in-the-query", put(PATH, NEW, query="If-None-Match=*")),
    ("put-if-none-match-unsigned-body", put(PATH, NEW, ("If-None-Match", "*"), signing=Signing(payload="UNSIGNED-PAYLOAD"))),
    ("put-wrong-digest-if-none-match", put(PATH, NEW, ("If-None-Match", "*"), ("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="))),
    ("put-wrong-digest", put(PATH, NEW, ("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="))),
    ("put-wrong-checksum", put(PATH, NEW, ("x-amz-checksum-crc32", "AAAAAA=="))),
    ("put-right-checksum", put(PATH, NEW, ("x-amz-checksum-crc32", base64.b64encode(zlib.crc32(NEW).to_bytes(4, "big")).decode()))),
    ("append-at-the-end", put(PATH, NEW, ("x-amz-write-offset-bytes", "270"))),
    ("append-at-zero", put(PATH, NEW, ("x-amz-write-offset-bytes", "0"))),
    ("put-tags", put(PATH, TAGS, query="tagging=")),
    ("delete-tags", delete(PATH, "tagging=")),
    ("put-acl", put(PATH, b"", ("x-amz-acl", "private"), query="acl=")),
    ("put-retention", put(PATH, RETENTION, query="retention=")),
    ("put-legal-hold", put(PATH, HOLD, query="legal-hold=")),
    ("restore", post(PATH, "restore=", b"<RestoreRequest><Days>1</Days></RestoreRequest>")),
    ("select", post(PATH, "select=&select-type=2", SELECT)),
    ("delete", delete(PATH)),
    ("delete-if-match-any", delete(PATH, "", ("If-Match", "*"))),
    ("delete-if-match-tag", delete(PATH, "", ("If-Match", '"x"'))),
    ("delete-if-none-match", delete(PATH, "", ("If-None-Match", "*"))),
    ("delete-if-match-size", delete(PATH, "", ("x-amz-if-match-size", "1"))),
    ("delete-if-match-time", delete(PATH, "", ("x-amz-if-match-last-modified-time", DATE))),
    ("delete-null-version", delete(PATH, "versionId=null")),
    ("delete-unknown-version", delete(PATH, "versionId=01M85F41K1WYWEGS004RC9KY0J")),
    ("delete-list", deletion(b"<Delete><Object><Key>$t</Key></Object></Delete>")),
    ("delete-list-tag", deletion(b"<Delete><Object><Key>$t</Key><ETag>x</ETag></Object></Delete>")),
    ("delete-list-size", deletion(b"<Delete><Object><Key>$t</Key><Size>1</Size></Object></Delete>")),
    ("delete-list-version", deletion(b"<Delete><Object><Key>$t</Key><VersionId>01M85F41K1WYWEGS004RC9KY0J</VersionId></Object></Delete>")),
    ("begin-upload", post(PATH, "uploads=")),
    ("list-parts", get(PATH, "uploadId=00000000-0000-0000-0000-000000000000")),
    ("upload-part", put(PATH, NEW, query="partNumber=1&uploadId=00000000-0000-0000-0000-000000000000")),
    ("abort", delete(PATH, "uploadId=00000000-0000-0000-0000-000000000000")),
    ("complete-if-none-match", post(PATH, "uploadId=00000000-0000-0000-0000-000000000000", COMPLETE, ("If-None-Match", "*"))),
    ("get", get(PATH)),
    ("get-if-none-match", get(PATH, "", ("If-None-Match", "*"))),
    ("get-only-if-cached", get(PATH, "", ("Cache-Control", "only-if-cached"))),
    ("head", head(PATH)),
    ("options", Request("OPTIONS", PATH, "", [("Origin", "http://a"), ("Access-Control-Request-Method", "GET")])),
    ("copy-from", put("/lake/pub/copied", b"", ("x-amz-copy-source", PATH))),
    ("copy-from-if-match", put("/lake/pub/copied", b"", ("x-amz-copy-source", PATH), ("x-amz-copy-source-if-none-match", "x"))),
    ("copy-onto-itself", put(PATH, b"", ("x-amz-copy-source", PATH), ("x-amz-metadata-directive", "REPLACE"))),
    ("rename-from", put("/lake/pub/renamed", b"", ("x-amz-rename-source", PATH), query="renameObject=")),
    ("delete-below-it", delete(PATH + "/")),
    ("unknown-subresource", put(PATH, NEW, query="foo=")),
    ("post", post(PATH, "", NEW)),
    ("put-with-lock", put(PATH, NEW, ("x-amz-object-lock-mode", "GOVERNANCE"), ("x-amz-object-lock-retain-until-date", "2020-01-01T00:00:00Z"))),
    ("put-empty", put(PATH, b"")),
    ("put-half", put(PATH, NEW, length="100")),
]  # fmt: skip
# Each needs what the key may write: what it may not is answered 403 in any case.
PUB = ("$lake_pub_a", "$no_pub")
SECRET = ("$lake_secret_a", "$no_secret")
BUCKETS = ("$hidden", "hidden-000000000000")
FOR_BUCKETS = [
    ("head", head("/$t")),
    ("get", get("/$t")),
    ("location", get("/$t", "location=")),
    ("policy", get("/$t", "policy=")),
    ("make", put("/$t")),
    ("delete", delete("/$t")),
    ("object", get("/$t/x")),
    ("put", put("/$t/x", NEW)),
    ("delete-list", deletion(b"<Delete><Object><Key>x</Key></Object></Delete>", "/$t")),
    ("copy-from", put("/lake/pub/copied", b"", ("x-amz-copy-source", "/$t/x"))),
    ("options", Request("OPTIONS", "/$t", "", [("Origin", "http://a"), ("Access-Control-Request-Method", "GET")])),
    ("virtual", get("/x", host="$t.s3.localhost")),
]
COMPLETION = [post(PATH, f"uploadId={NO_UPLOAD}", COMPLETE)]
CORE = ("put-if-none-match-any", "put-tags", "delete-if-match-any")

ATTACKS = [
    *(Attack("blind", trick, "pub-writer", [request], twins=PUB, is_core=trick in CORE) for trick, request in PROBES),
    *(Attack("blind", trick, "writer", [request], twins=PUB) for trick, request in PROBES[:12]),
    *(Attack("blind", f"secret-{trick}", "pub-both", [request], twins=SECRET) for trick, request in PROBES),
    *(Attack("blind", f"secret-{trick}", "pub-reader", [request], twins=SECRET) for trick, request in PROBES[42:]),
    *(Attack("blind", f"bucket-{trick}", "pub-both", [request], twins=BUCKETS) for trick, request in FOR_BUCKETS),
    *(Attack("blind", "complete", key, COMPLETION, twins=PUB) for key in ("pub-writer", "writer", "pub-both")),
    Attack("blind", "secret-complete", "pub-both", COMPLETION, twins=SECRET),
    # Over a file system a file cannot be a folder as well, and no gateway can hide that.
    Attack("blind", "below-it", "pub-writer", [put(PATH + "/below", NEW)], twins=PUB, needs=frozenset({"flat"})),
    *(Attack("blind", f"bucket-{trick}", None, [request], twins=BUCKETS) for trick, request in FOR_BUCKETS[:3]),
]
