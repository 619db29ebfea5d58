"""Headers and parameters that mean nothing to the gateway and something to an origin, a proxy or a framework."""

import io
import tarfile

from attack import Attack, Request, delete, get, head, post, put, rows
from attacks_access import POLICY, TAGS
from wire import Signing

NEW = b"written by an attack"
PUB, SECRET = "/lake/$lake_pub_a", "/lake/$lake_secret_a"


def archive(actor):
    """A tar whose members lie over prefixes that the key may not write."""
    members = ("$lake_secret_a", "secret/planted", "planted", "../other/planted", "pub/planted")
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for member in members:
                info = tarfile.TarInfo(actor.substituted(member))
                info.size = len(NEW)
                tar.addfile(info, io.BytesIO(NEW))
        return file.getvalue()


def unpacked(method, *headers, path="/lake/pub/archive.tar", unsigned=(), query="", where="header"):
    def flow(actor):
        body = archive(actor)
        actor.send(Request(method, path, query, list(headers), body, unsigned=list(unsigned), signing=Signing(where=where)))

    return flow


ON = "x-amz-meta-snowball-auto-extract"
SNOWBALL = [
    ("auto-extract", unpacked("PUT", (ON, "true"))),
    ("auto-extract-upper-case", unpacked("PUT", (ON.upper(), "TRUE"))),
    ("auto-extract-one", unpacked("PUT", (ON, "1"))),
    ("auto-extract-twice", unpacked("PUT", (ON, "false"), (ON, "true"))),
    ("auto-extract-unsigned", unpacked("PUT", unsigned=[(ON, "true")])),
    ("auto-extract-underscores", unpacked("PUT", unsigned=[("x_amz_meta_snowball_auto_extract", "true")])),
    ("auto-extract-underscores-below-meta", unpacked("PUT", ("x-amz-meta-snowball_auto_extract", "true"))),
    ("auto-extract-one-underscore", unpacked("PUT", ("x-amz-meta_snowball-auto-extract", "true"))),
    ("auto-extract-underscores-presigned", unpacked("PUT", query="X-Amz-Meta-Snowball_Auto_Extract=true", where="query")),
    ("auto-extract-in-the-query", unpacked("PUT", query=f"{ON}=true")),
    ("auto-extract-presigned", unpacked("PUT", query="X-Amz-Meta-Snowball-Auto-Extract=true", where="query")),
    ("auto-extract-presigned-header", unpacked("PUT", (ON, "true"), where="query")),
    ("auto-extract-prefix", unpacked("PUT", (ON, "true"), ("x-amz-meta-minio-snowball-prefix", "secret"))),
    ("auto-extract-prefix-of-minio", unpacked("PUT", (ON, "true"), ("x-minio-snowball-prefix", "secret"))),
    ("auto-extract-prefix-of-snowball", unpacked("PUT", (ON, "true"), ("x-amz-meta-snowball-prefix", "secret"))),
    ("auto-extract-of-minio", unpacked("PUT", ("x-minio-extract", "true"))),
    ("auto-extract-by-connection", unpacked("PUT", (ON, "true"), ("Connection", f"close, {ON}"))),
    ("auto-extract-at-begin", unpacked("POST", (ON, "true"), path="/lake/pub/archive.tar", query="uploads=")),
]
# Headers of writes below pub/, by a key that may write there and nowhere else.
WRITE_HEADERS = [
    ("minio-source-mtime", ("x-minio-source-mtime", "2001-01-01T00:00:00Z")),
    ("minio-source-etag", ("x-minio-source-etag", "00000000000000000000000000000000")),
    ("minio-source-version", ("x-minio-source-version-id", "00000000-0000-0000-0000-000000000000")),
    ("minio-replication-request", ("x-minio-source-replication-request", "true")),
    ("minio-replication-check", ("x-minio-source-replication-check", "true")),
    ("minio-proxy-request", ("x-minio-source-proxy-request", "true")),
    ("minio-delete-marker", ("x-minio-source-deletemarker", "true")),
    ("minio-internal", ("x-minio-internal-actual-size", "1")),
    ("minio-force-delete", ("x-minio-force-delete", "true")),
    ("minio-write-lock", ("x-minio-write-lock", "true")),
    ("replication-status", ("x-amz-replication-status", "REPLICA")),
    ("bucket-replication-status", ("x-amz-bucket-replication-status", "REPLICA")),
    ("meta-minio", ("x-amz-meta-minio-source-etag", "x")),
    ("meta-x-minio", ("x-amz-meta-x-minio-internal-y", "x")),
    ("rgw-header", ("x-rgw-object-type", "Appendable")),
    ("rgwx-header", ("rgwx-source-zone", "x")),
    ("rgw-position", ("x-rgw-next-append-position", "0")),
    ("goog-acl", ("x-goog-acl", "public-read")),
    ("goog-generation", ("x-goog-if-generation-match", "0")),
    ("goog-meta", ("x-goog-meta-x", "y")),
    ("oss-acl", ("x-oss-object-acl", "public-read")),
    ("cos-acl", ("x-cos-acl", "public-read")),
    ("obs-acl", ("x-obs-acl", "public-read")),
    ("emc-header", ("x-emc-namespace", "other")),
    ("container-header", ("x-container-read", ".r:*")),
    ("acl", ("x-amz-acl", "public-read-write")),
    ("acl-underscore", ("x-amz_acl", "public-read-write")),
    ("copy-source-underscore", ("x-amz-copy_source", SECRET)),
    ("checksum-underscore", ("x-amz-checksum-crc_32", "AAAAAA==")),
    ("meta-underscores", ("x-amz-meta-minio_source_etag", "x")),
    ("scal-header", ("x-scal-replication-content", "METADATA")),
    ("grant", ("x-amz-grant-full-control", 'uri="http://acs.amazonaws.com/groups/global/AllUsers"')),
    ("bypass-governance", ("x-amz-bypass-governance-retention", "true")),
    ("mfa", ("x-amz-mfa", "serial 000000")),
    ("expected-owner", ("x-amz-expected-bucket-owner", "attacker")),
    ("redirect", ("x-amz-website-redirect-location", SECRET)),
    ("sse-c", ("x-amz-server-side-encryption-customer-algorithm", "AES256")),
    ("unknown-amz", ("x-amz-unknown-thing", "1")),
    ("unknown-vgw", ("x-vgw-owner", "attacker")),
    ("security-token", ("x-amz-security-token", "forged")),
    ("object-size", ("x-amz-object-size", "1")),
    ("rename-source", ("x-amz-rename-source", SECRET)),
    ("forwarded-prefix", ("X-Forwarded-Prefix", "/lake/secret")),
    ("original-url", ("X-Original-URL", SECRET)),
    ("rewrite-url", ("X-Rewrite-URL", SECRET)),
    ("override-delete", ("X-HTTP-Method-Override", "DELETE")),
    ("override-method", ("X-HTTP-Method", "DELETE")),
    ("destination", ("Destination", SECRET)),
    ("content-range", ("Content-Range", "bytes 0-19/270")),
    ("trailer", ("Trailer", "x-amz-copy-source")),
    ("expires", ("Expires", "Thu, 01 Jan 1970 00:00:00 GMT")),
]
# Headers of reads below pub/ that may lead elsewhere.
READ_HEADERS = [
    ("original-url", ("X-Original-URL", SECRET)),
    ("rewrite-url", ("X-Rewrite-URL", SECRET)),
    ("original-uri", ("X-Original-URI", SECRET)),
    ("forwarded-uri", ("X-Forwarded-Uri", SECRET)),
    ("forwarded-host", ("X-Forwarded-Host", "other.s3.localhost")),
    ("forwarded-server", ("X-Forwarded-Server", "other.s3.localhost")),
    ("forwarded", ("Forwarded", "host=other.s3.localhost")),
    ("forwarded-for", ("X-Forwarded-For", "127.0.0.1")),
    ("host-override", ("X-HTTP-Host-Override", "other.s3.localhost")),
    ("minio-extract", ("x-minio-extract", "true")),
    ("minio-proxy", ("x-minio-source-proxy-request", "true")),
    ("minio-tagging-proxy", ("x-minio-source-replication-tagging-timestamp", "2030-01-01T00:00:00Z")),
    ("copy-source", ("x-amz-copy-source", SECRET)),
    ("goog-copy-source", ("x-goog-copy-source", SECRET)),
    ("upgrade", ("Upgrade", "h2c")),
    ("connection-host", ("Connection", "close, Host, Authorization")),
    ("connection-hash", ("Connection", "close, x-amz-content-sha256, x-amz-date")),
    ("cookie", ("Cookie", "session=admin")),
    ("swift-token", ("X-Auth-Token", "root")),
    ("override-get", ("X-HTTP-Method-Override", "DELETE")),
    ("ranges", ("Range", "bytes=0-1,5-9")),
    ("prefer", ("Prefer", "return=representation")),
    ("depth", ("Depth", "infinity")),
    ("sse-c", ("x-amz-server-side-encryption-customer-key", "AAAA")),
]
# Parameters of a read of pub/a.
READ_QUERIES = [
    ("version-of-a-secret", "versionId=$new_secret"),
    ("version-twice", "versionId=null&versionId=$old_secret"),
    ("upload-of-a-secret", "uploadId=$up_secret"),
    ("upload-twice", "uploadId=$up_pub&uploadId=$up_secret"),
    ("upload-in-upper-case", "UploadId=$up_secret"),
    ("list", "list-type=2&prefix=secret/"),
    ("prefix", "prefix=secret/&delimiter=/"),
    ("uploads", "uploads="),
    ("versions", "versions=&prefix=secret/"),
    ("policy", "policy="),
    ("policy-without-value", "policy"),
    ("policy-and-acl", "acl&policy"),
    ("unknown", "foo=bar"),
    ("unknown-metadata", "metadata="),
    ("lambda", "lambdaArn=arn:minio:s3-object-lambda::x:webhook"),
    ("copy-source", "x-amz-copy-source=%2Flake%2F$lake_secret_a"),
    ("key", "key=$lake_secret_a"),
    ("path-in-the-query", "/../$lake_secret_a"),
    ("semicolon", "tagging;acl"),
    ("empty-name", "=policy&policy"),
    ("nul", "policy%00="),
    ("space", "%20policy="),
    ("plus", "+policy="),
    ("twice-encoded", "%2570olicy="),
    ("rgwx", "rgwx-uid=root&rgwx-zonegroup=x"),
    ("rgw-system", "rgwx-stat=true&rgwx-prepend-metadata=x"),
    ("goog", "generation=1&alt=media"),
    ("response-headers", "response-content-type=text/html&response-content-type=x"),
    ("response-splitting", "response-content-type=a%0d%0aX-Injected:%20b"),
    ("method", "_method=DELETE"),
    ("action", "Action=ListUsers"),
    ("comp", "comp=list&restype=container"),
    ("attributes-and-tagging", "attributes&tagging"),
]
# What changes a bucket, hidden among parameters of an object or of another name.
WRITE_TARGETS = [
    ("policy-on-an-object", put(PUB, POLICY, query="policy=")),
    ("policy-on-a-folder", put("/lake/pub/", POLICY, query="policy=")),
    ("policy-encoded", put("/lake", POLICY, query="%70olicy=")),
    ("policy-in-upper-case", put("/lake", POLICY, query="POLICY=")),
    ("policy-behind-unknown", put("/lake", POLICY, query="foo=&policy=")),
    ("policy-with-prefix", put("/lake", POLICY, query="prefix=pub/&policy=")),
    ("policy-and-location", put("/lake", POLICY, query="location=&policy=")),
    ("policy-twice", put("/lake", POLICY, query="policy=&policy=")),
    ("policy-virtual", put("/", POLICY, query="policy=", host="lake.s3.localhost")),
    ("post-to-the-bucket", post("/lake", "prefix=pub/", NEW)),
    ("put-to-the-bucket-slash", put("/lake/", NEW)),
    ("put-with-version", put(PUB, NEW, query="versionId=$new_secret")),
    ("put-with-list", put(PUB, NEW, query="list-type=2&prefix=secret/")),
    ("put-with-unknown", put(PUB, NEW, query="foo=bar")),
    ("put-part-of-a-secret", put(PUB, NEW, query="partNumber=1&uploadId=$up_secret")),
    ("put-part-twice", put(PUB, NEW, query="partNumber=1&uploadId=$up_pub&uploadId=$up_secret")),
    ("put-part-without-number", put(PUB, NEW, query="uploadId=$up_secret")),
    ("put-part-in-upper-case", put(PUB, NEW, query="PartNumber=1&UploadId=$up_pub")),
    ("delete-prefix-of-minio", delete("/lake/pub/", "", ("x-minio-force-delete", "true"))),
    ("delete-bucket-of-minio", delete("/lake", "", ("x-minio-force-delete", "true"))),
    ("delete-bucket-slash-of-minio", delete("/lake/", "", ("x-minio-force-delete", "true"))),
    ("delete-prefix-unsigned", delete("/lake/pub/", unsigned=[("x-minio-force-delete", "true")])),
    ("delete-prefix-underscores", delete("/lake/pub/", unsigned=[("x_minio_force_delete", "true")])),
    ("delete-folder", delete("/lake/pub/")),
    ("delete-with-policy", delete(PUB, "policy=")),
    ("delete-with-purge", delete(PUB, "purge-objects=true&bucket=lake")),
    ("delete-version-of-a-secret", delete("/vers/$vers_pub_v", "versionId=$old_secret")),
    ("delete-two-versions", delete("/vers/$vers_pub_v", "versionId=$old_pub&versionId=$old_secret")),
    ("tags-twice", put(PUB, TAGS, query="tagging=&acl=")),
]  # fmt: skip

ATTACKS = [
    *(Attack("vendor", trick, "pub-both", flow=flow, is_core=trick == "auto-extract") for trick, flow in SNOWBALL),
    *(Attack("vendor", trick, "all", flow=flow) for trick, flow in SNOWBALL[:1]),
    *rows("vendor", "pub-both", [(f"put-{trick}", put(PUB, NEW, header)) for trick, header in WRITE_HEADERS]),
    *rows("vendor", "pub-both", [(f"delete-{trick}", delete(PUB, "", header)) for trick, header in WRITE_HEADERS if "minio" in trick or "replication" in trick]),
    *rows("vendor", "pub-both", [(f"begin-{trick}", post(PUB, "uploads=", b"", header)) for trick, header in WRITE_HEADERS if "minio" in trick]),
    *rows("vendor", "pub-reader", [(f"get-{trick}", get(PUB, "", header)) for trick, header in READ_HEADERS]),
    *rows("vendor", "pub-reader", [(f"secret-{trick}", get(SECRET, "", header)) for trick, header in READ_HEADERS]),
    *rows("vendor", "pub-reader", [(f"query-{trick}", get(PUB, query)) for trick, query in READ_QUERIES]),
    *rows("vendor", "pub-reader", [(f"head-{trick}", head(PUB, query)) for trick, query in READ_QUERIES[:8]]),
    *rows("vendor", "pub-writer", [(f"query-{trick}", get(PUB, query)) for trick, query in READ_QUERIES[:14]]),
    *rows("vendor", "pub-both", WRITE_TARGETS),
    *rows("vendor", "pub-minus", [WRITE_TARGETS[18], WRITE_TARGETS[21], WRITE_TARGETS[22]]),
    *rows("vendor", "drop-box", [WRITE_TARGETS[18]]),
]  # fmt: skip
