"""What keys may do, and every operation of S3 with keys that may not.

`control` shows that the keys are good for what they may do: without it a gateway that refuses everything would pass.
"""

import re

from attack import DENIED, DIGEST, REFUSED, Attack, delete, get, head, post, put, rows
from wire import Signing

NEW = b"written by an attack"
SERVED = frozenset({200, 204, 206})
TAGS = b"<Tagging><TagSet><Tag><Key>t</Key><Value>forged</Value></Tag></TagSet></Tagging>"
RETENTION = b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2035-01-01T00:00:00Z</RetainUntilDate></Retention>"
HOLD = b"<LegalHold><Status>ON</Status></LegalHold>"
POLICY = (
    b'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*",'
    b'"Resource":["arn:aws:s3:::lake","arn:aws:s3:::lake/*"]}]}'
)
VERSIONING = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
SUSPENDED = b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"
LIFECYCLE = (
    b"<LifecycleConfiguration><Rule><ID>x</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status>"
    b"<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>"
)
CORS = (
    b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>"
    b"</CORSConfiguration>"
)
BUCKET_TAGS = b"<Tagging><TagSet><Tag><Key>owner</Key><Value>attacker</Value></Tag></TagSet></Tagging>"
SELECT = (
    b"<SelectObjectContentRequest><Expression>SELECT * FROM S3Object</Expression><ExpressionType>SQL</ExpressionType>"
    b"<InputSerialization><CSV/></InputSerialization><OutputSerialization><CSV/></OutputSerialization>"
    b"</SelectObjectContentRequest>"
)
COMPLETE = (
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>$etag_up_secret</ETag></Part>"
    b"</CompleteMultipartUpload>"
)

CONTROLS = [
    Attack("control", "get", "all", [get("/lake/$lake_secret_a")], SERVED, shows=(b"$lake_secret_a",), is_core=True),
    Attack("control", "get", "reader", [get("/lake/$lake_secret_a")], SERVED, shows=(b"$lake_secret_a",)),
    Attack("control", "get", "pub-reader", [get("/lake/$lake_pub_a")], SERVED, shows=(b"$lake_pub_a",), is_core=True),
    Attack("control", "get", "lake-owner", [get("/lake/$lake_secret_a")], SERVED, shows=(b"$lake_secret_a",)),
    Attack("control", "get", "other-reader", [get("/other/$other_secret_a")], SERVED, shows=(b"$other_secret_a",)),
    Attack("control", "head", "pub-both", [head("/lake/$lake_pub_a")], SERVED),
    Attack("control", "range", "pub-reader", [get("/lake/$lake_pub_big", "", ("Range", "bytes=5-99"))], SERVED),
    Attack("control", "list", "pub-reader", [get("/lake", "list-type=2&prefix=pub/")], SERVED, shows=(b"$lake_pub_a",)),
    Attack("control", "list", "reader", [get("/lake")], SERVED, shows=(b"$lake_secret_a",)),
    Attack("control", "list-buckets", "pub-reader", [get("/")], SERVED, shows=(b"<Name>lake</Name>",)),
    Attack("control", "put", "pub-writer", [put("/lake/$lake_pub_a", NEW)], SERVED, is_core=True),
    Attack("control", "put", "writer", [put("/lake/$lake_secret_a", NEW)], SERVED),
    Attack("control", "delete", "pub-both", [delete("/lake/$lake_pub_a")], SERVED),
    Attack("control", "delete-list", "pub-writer", flow=lambda actor: delete_list(actor)),
    Attack("control", "multipart", "pub-writer", flow=lambda actor: multipart(actor), needs=frozenset({"uploads"})),
    Attack("control", "copy", "copier", flow=lambda actor: copied(actor)),
    Attack("control", "tagging", "pub-both", [put("/lake/$lake_pub_a", TAGS, query="tagging=")], SERVED, needs=frozenset({"tags"})),
    Attack("control", "presigned", "pub-reader", flow=lambda actor: presigned(actor)),
    Attack("control", "bucket-named-minio", "minio-reader", [get("/minio/$minio_pub_a")], SERVED, needs=frozenset({"bucket:minio"})),
    Attack("control", "bucket-named-admin", "minio-reader", [get("/admin/$admin_v3_a")], SERVED, needs=frozenset({"bucket:admin"})),
]


def delete_list(actor):
    body = "<Delete><Object><Key>$lake_pub_a</Key></Object><Object><Key>$lake_pub_b</Key></Object></Delete>"
    answer = actor.send(deletion(body.encode()))
    actor.expect(answer, {200})


def deletion(body, path="/lake", query="delete=", *headers):
    return post(path, query, body, ("Content-MD5", DIGEST), *headers)


def multipart(actor):
    path = "/lake/$lake_pub_a"
    begun = actor.send(post(path, "uploads="))
    actor.expect(begun, {200}, "the begin of an upload")
    found = re.search(rb"<UploadId>([^<]+)", begun.body)
    upload = found.group(1).decode() if found else "none"
    part = actor.send(put(path, NEW, query=f"partNumber=1&uploadId={upload}"))
    etag = (part.header("etag") or "").strip('"')
    body = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    actor.expect(actor.send(post(path, f"uploadId={upload}", body.encode())), {200}, "the end of an upload")


def copied(actor):
    source = ("x-amz-copy-source", "/lake/$lake_secret_a")
    actor.expect(actor.send(put("/lake/$lake_pub_a", b"", source)), {200}, "a copy")


def presigned(actor):
    request = get("/lake/$lake_pub_a", signing=Signing(where="query"))
    actor.expect(actor.send(request), {200}, "a presigned URL")


# --- operations on an object that the key may not have


def object_reads(path, version="$new_secret"):
    return [
        ("get", get(path)),
        ("head", head(path)),
        ("range", get(path, "", ("Range", "bytes=0-99"))),
        ("conditional", get(path, "", ("If-None-Match", '"x"'))),
        ("version", get(path, f"versionId={version}")),
        ("part-number", get(path, "partNumber=1")),
        ("tags", get(path, "tagging=")),
        ("acl", get(path, "acl=")),
        ("attributes", get(path, "attributes=", ("x-amz-object-attributes", "ETag,Checksum,ObjectParts,ObjectSize"))),
        ("retention", get(path, "retention=")),
        ("legal-hold", get(path, "legal-hold=")),
        ("torrent", get(path, "torrent=")),
        ("parts", get(path, "uploadId=$up_secret")),
        ("select", post(path, "select=&select-type=2", SELECT)),
        ("cached-only", get(path, "", ("Cache-Control", "only-if-cached, max-stale"))),
    ]


def object_writes(path):
    return [
        ("put", put(path, NEW)),
        ("delete", delete(path)),
        ("delete-version", delete(path, "versionId=null")),
        ("put-tags", put(path, TAGS, query="tagging=")),
        ("delete-tags", delete(path, "tagging=")),
        ("put-acl", put(path, b"", ("x-amz-acl", "public-read"), query="acl=")),
        ("put-retention", put(path, RETENTION, query="retention=")),
        ("put-legal-hold", put(path, HOLD, query="legal-hold=")),
        ("restore", post(path, "restore=", b"<RestoreRequest><Days>1</Days></RestoreRequest>")),
        ("begin-upload", post(path, "uploads=")),
        ("upload-part", put(path, NEW, query="partNumber=2&uploadId=$up_secret")),
        ("complete-upload", post(path, "uploadId=$up_secret", COMPLETE)),
        ("abort-upload", delete(path, "uploadId=$up_secret")),
        ("copy-onto", put(path, b"", ("x-amz-copy-source", "/lake/$lake_pub_a"))),
        ("copy-onto-itself", put(path, b"", ("x-amz-copy-source", path), ("x-amz-metadata-directive", "REPLACE"))),
        ("rename-onto", put(path, b"", ("x-amz-rename-source", "/lake/$lake_pub_a"), query="renameObject=")),
        ("append", put(path, NEW, ("x-amz-write-offset-bytes", "270"))),
        ("encryption", put(path, b"<X/>", query="encryption=")),
    ]


def bucket_reads(path):
    subs = (
        "policy", "acl", "versioning", "tagging", "cors", "lifecycle", "object-lock", "encryption", "notification",
        "policyStatus", "replication", "website", "logging", "ownershipControls", "publicAccessBlock", "inventory",
        "analytics", "metrics", "intelligent-tiering", "accelerate", "requestPayment", "metadataTable", "events",
        "replication-metrics", "quota",
    )  # fmt: skip
    return [(f"get-{sub}", get(path, f"{sub}=")) for sub in subs]


def bucket_writes(path):
    documents = {
        "policy": POLICY,
        "versioning": VERSIONING,
        "tagging": BUCKET_TAGS,
        "cors": CORS,
        "lifecycle": LIFECYCLE,
        "acl": b"",
        "object-lock": b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>",
        "ownershipControls": b"<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>",
        "encryption": b"<ServerSideEncryptionConfiguration/>",
        "notification": b"<NotificationConfiguration/>",
        "replication": b"<ReplicationConfiguration/>",
        "website": b"<WebsiteConfiguration><IndexDocument><Suffix>i</Suffix></IndexDocument></WebsiteConfiguration>",
        "quota": b'{"quota":1,"quotatype":"hard"}',
    }
    grants = {"acl": [("x-amz-acl", "public-read-write")]}
    made = [(f"put-{sub}", put(path, body, *grants.get(sub, []), query=f"{sub}=")) for sub, body in documents.items()]
    dropped = ("policy", "tagging", "cors", "lifecycle", "encryption", "website", "ownershipControls", "publicAccessBlock")
    made += [(f"delete-{sub}", delete(path, f"{sub}=")) for sub in dropped]
    return [*made, ("delete", delete(path)), ("make", put(path)), ("suspend", put(path, SUSPENDED, query="versioning="))]


def prefixed(word, table):
    return [(f"{word}-{trick}", *rest) for trick, *rest in table]


SECRET, VERSIONED = "/lake/$lake_secret_a", "/vers/$vers_secret_v"
ATTACKS = [
    *CONTROLS,
    *rows("object", "pub-reader", prefixed("read", object_reads(SECRET)), expects=DENIED),
    *rows("object", "writer", prefixed("read", object_reads(SECRET)), expects=DENIED),
    *rows("object", "not-secret", prefixed("versioned", object_reads(VERSIONED)[:7]), expects=DENIED, needs=frozenset({"versions"})),
    *rows("object", None, prefixed("read", object_reads(SECRET)[:4]), expects=DENIED),
    *rows("object", "drop-box", prefixed("read", object_reads("/lake/$lake_pub_a")[:10]), expects=DENIED),
    *rows("object", "pub-minus", prefixed("read", object_reads("/lake/$lake_pub_deep_c")[:4]), expects=DENIED),
    *rows("object", "pub-both", prefixed("write", object_writes(SECRET)), expects=DENIED),
    *rows("object", "reader", prefixed("write", object_writes(SECRET)), expects=DENIED),
    *rows("object", "drop-box", prefixed("write", object_writes(SECRET)[:4]), expects=DENIED),
    *rows("object", "pub-minus", prefixed("write", object_writes("/lake/$lake_pub_deep_c")[:4]), expects=DENIED),
    *rows("object", "pub-both", [("beside-the-prefix", put("/lake/$lake_pubx_d", NEW)), ("beside-read", get("/lake/$lake_pubx_d"))], expects=DENIED),
    *rows("bucket", "pub-both", bucket_reads("/lake"), expects=REFUSED),
    *rows("bucket", "writer", bucket_reads("/lake")[:8], expects=REFUSED),
    *rows("bucket", "pub-both", bucket_writes("/lake"), expects=REFUSED),
    *rows("bucket", "reader", bucket_writes("/lake"), expects=REFUSED),
    *rows("bucket", "not-secret", prefixed("exempt", bucket_writes("/lake")), expects=REFUSED),
    *rows("bucket", "pub-both", [
        ("make-another", put("/made-by-attack"), DENIED),
        ("make-with-acl", put("/made-by-attack", b"", ("x-amz-acl", "public-read-write")), DENIED),
        ("make-in-a-region", put("/made-by-attack", b"<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>"), DENIED),
        ("make-with-lock", put("/made-by-attack", b"", ("x-amz-bucket-object-lock-enabled", "true")), DENIED),
        ("delete-empty", delete("/empty"), DENIED),
        ("delete-hidden", delete("/$hidden"), DENIED),
        ("head-hidden", head("/$hidden"), DENIED),
        ("location-hidden", get("/$hidden", "location="), DENIED),
        ("trailing-slash-delete", delete("/empty/"), DENIED),
        ("trailing-slash-policy", put("/lake/", POLICY, query="policy="), REFUSED),
        ("double-slash-policy", put("//lake", POLICY, query="policy="), REFUSED),
        ("post-form", post("/lake", "", b"--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n$lake_secret_a\r\n--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nforged\r\n--b--\r\n", ("Content-Type", "multipart/form-data; boundary=b")), REFUSED),
        ("create-session", get("/lake", "session="), REFUSED),
    ]),
]  # fmt: skip
