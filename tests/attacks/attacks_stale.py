"""Writes through Zonal after which its cache must not be stale: of every kind, by a key that may do everything.

Everything has been read before, absences included. The judge reads all of it again afterwards.
"""

import re

from attack import Attack, Request, delete, post, put
from attacks_access import SUSPENDED, TAGS, deletion
from attacks_vendor import SNOWBALL, unpacked
from wire import Signing

NEW = b"written by an attack"
PUB, ABSENT, VERSIONED = "/lake/$lake_pub_a", "/lake/$no_pub", "/vers/$vers_pub_v"
REPLACE = ("x-amz-metadata-directive", "REPLACE")
MINIO = ("x-minio-force-delete", "true")
WRITES = [
    ("put", put(PUB, NEW)),
    ("put-larger", put(PUB, NEW * 40000)),
    ("put-smaller", put("/lake/$lake_pub_big", NEW)),
    ("put-empty", put(PUB, b"")),
    ("put-same-bytes", put(PUB, b"x", ("x-amz-meta-note", "other"))),
    ("put-absent", put(ABSENT, NEW)),
    ("put-presigned", put(PUB, NEW, signing=Signing(where="query"))),
    ("put-virtual-hosted", put("/$lake_pub_a", NEW, host="lake.s3.localhost")),
    ("put-absent-virtual-hosted", put("/$no_pub", NEW, host="lake.s3.localhost")),
    ("put-encoded-path", put("/%6cake/%70ub/$pub_leaf", NEW)),
    ("put-unknown-parameter", put(PUB, NEW, query="foo=bar")),
    ("put-x-id", put(PUB, NEW, query="x-id=PutObject")),
    ("put-unknown-subresource", put(PUB, NEW, query="torrent=")),
    ("put-encryption-subresource", put(PUB, b"<X/>", query="encryption=")),
    ("put-metadata-subresource", put(PUB, NEW, query="metadata=")),
    ("put-versions-subresource", put(PUB, NEW, query="versions=")),
    ("abort-called-as-the-object", delete("/lake/pub/none", "uploadId=$lake_pub_a")),
    ("complete-called-as-the-object", post("/lake/pub/none", "uploadId=$lake_pub_a", b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>")),
    ("put-upload-without-part", put(PUB, NEW, query="uploadId=$up_pub")),
    ("put-part-without-upload", put(PUB, NEW, query="partNumber=1")),
    ("put-version", put(PUB, NEW, query="versionId=null")),
    ("put-list-parameters", put(PUB, NEW, query="list-type=2&prefix=x")),
    ("put-policy-of-an-object", put(PUB, NEW, query="policy=")),
    ("put-attributes", put(PUB, NEW, query="attributes=")),
    ("put-rename-parameter", put(PUB, NEW, ("x-amz-rename-source", "/lake/$lake_pub_b"), query="renameObject=")),
    ("put-append", put(PUB, NEW, ("x-amz-write-offset-bytes", "270"))),
    ("put-offset-of-rgw", put(PUB, NEW, query="append=&position=270")),
    ("put-folder", put("/lake/pub/", b"")),
    ("put-wrong-digest", put(PUB, NEW, ("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="))),
    ("put-cut", put(PUB, NEW, length="4000")),
    ("put-if-match", put(PUB, NEW, ("If-None-Match", '"x"'))),
    ("put-redirect", put(PUB, NEW, ("x-amz-website-redirect-location", "/x"))),
    ("put-replica", put(PUB, NEW, ("x-amz-replication-status", "REPLICA"), ("x-minio-source-replication-request", "true"))),
    ("delete", delete(PUB)),
    ("delete-unknown-parameter", delete(PUB, "foo=bar")),
    ("delete-torrent", delete(PUB, "torrent=")),
    ("delete-acl", delete(PUB, "acl=")),
    ("delete-null-version", delete(PUB, "versionId=null")),
    ("delete-empty-version", delete(PUB, "versionId=")),
    ("delete-uploads", delete(PUB, "uploads=")),
    ("delete-prefix-of-minio", delete("/lake/pub/", "", MINIO)),
    ("delete-prefix-of-minio-without-slash", delete("/lake/pub", "", MINIO)),
    ("delete-bucket-of-minio", delete("/lake", "", MINIO)),
    ("delete-bucket-of-minio-with-slash", delete("/lake/", "", MINIO)),
    ("delete-bucket-of-minio-virtual", delete("/", "", MINIO, host="lake.s3.localhost")),
    ("delete-bucket", delete("/lake")),
    ("delete-list", deletion(b"<Delete><Object><Key>$lake_pub_a</Key></Object><Object><Key>$lake_secret_a</Key></Object></Delete>")),
    ("delete-list-quiet", deletion(b"<Delete><Quiet>true</Quiet><Object><Key>$lake_pub_a</Key></Object></Delete>")),
    ("delete-list-version", deletion(b"<Delete><Object><Key>$vers_pub_v</Key><VersionId>$new_pub</VersionId></Object></Delete>", "/vers")),
    ("delete-list-child", deletion(b"<Delete><Object><Key><x>pub/</x>$lake_secret_a</Key></Object></Delete>")),
    ("delete-list-at-a-folder", deletion(b"<Delete><Object><Key>$lake_pub_a</Key></Object></Delete>", "/lake/")),
    ("delete-list-virtual", post("/", "delete=", b"<Delete><Object><Key>$lake_pub_a</Key></Object></Delete>", ("Content-MD5", "the digest of the body"), host="lake.s3.localhost")),
    ("delete-list-encoded", deletion(b"<Delete><Object><Key>&#112;ub/$pub_leaf</Key></Object></Delete>")),
    ("delete-list-padded", deletion(b"<Delete><Object><Key> $lake_pub_a </Key></Object></Delete>")),
    ("delete-list-empty-segment", deletion(b"<Delete><Object><Key>pub//$pub_leaf</Key></Object></Delete>")),
    ("delete-list-dot", deletion(b"<Delete><Object><Key>./$lake_pub_a</Key></Object></Delete>")),
    ("delete-list-slash", deletion(b"<Delete><Object><Key>/$lake_pub_a</Key></Object></Delete>")),
    ("delete-list-folder", deletion(b"<Delete><Object><Key>pub/</Key></Object></Delete>")),
    ("copy-onto", put(PUB, b"", ("x-amz-copy-source", "/lake/$lake_secret_a"))),
    ("copy-onto-absent", put(ABSENT, b"", ("x-amz-copy-source", "/lake/$lake_secret_a"))),
    ("copy-onto-itself", put(PUB, b"", ("x-amz-copy-source", PUB), REPLACE, ("x-amz-meta-note", "other"))),
    ("copy-of-tags", put(PUB, b"", ("x-amz-copy-source", PUB), REPLACE, ("x-amz-tagging-directive", "REPLACE"), ("x-amz-tagging", "a=b&c=d"))),
    ("copy-of-a-type", put(PUB, b"", ("x-amz-copy-source", PUB), REPLACE, ("Content-Type", "text/other"))),
    ("copy-of-a-version", put(VERSIONED, b"", ("x-amz-copy-source", "/vers/$vers_pub_v?versionId=$old_pub"))),
    ("tags", put(PUB, TAGS.replace(b"</TagSet>", b"<Tag><Key>u</Key><Value>v</Value></Tag></TagSet>"), query="tagging=")),
    ("tags-removed", delete(PUB, "tagging=")),
    ("acl", put(PUB, b"", ("x-amz-acl", "private"), query="acl=")),
    ("restore", post(PUB, "restore=", b"<RestoreRequest><Days>1</Days></RestoreRequest>")),
    ("versioned-put", put(VERSIONED, NEW)),
    ("versioned-delete", delete(VERSIONED)),
    ("versioned-delete-newest", delete(VERSIONED, "versionId=$new_pub")),
    ("versioned-delete-older", delete(VERSIONED, "versionId=$old_pub")),
    ("versioned-suspended-put", [put("/vers", SUSPENDED, query="versioning="), put(VERSIONED, NEW)]),
    ("versioned-suspended-delete", [put("/vers", SUSPENDED, query="versioning="), delete(VERSIONED)]),
    ("versioned-suspended", put("/vers", SUSPENDED, query="versioning=")),
    ("versioning-enabled", [put("/lake", SUSPENDED.replace(b"Suspended", b"Enabled"), query="versioning="), put(PUB, NEW)]),
    ("versioned-tags", put(VERSIONED, TAGS, query="tagging=&versionId=$old_pub")),
    ("complete", post(PUB, "uploadId=$up_pub", b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>$etag_up_pub</ETag></Part></CompleteMultipartUpload>")),
    ("complete-if-none-match", post(PUB, "uploadId=$up_pub", b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>$etag_up_pub</ETag></Part></CompleteMultipartUpload>", ("If-None-Match", '"x"'))),
    ("post-form", post("/lake", "", b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\n$lake_pub_a\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nforged\r\n--b--\r\n', ("Content-Type", "multipart/form-data; boundary=b"))),
    ("post-object", post(PUB, "", NEW)),
    ("patch", Request("PATCH", PUB, body=NEW)),
    ("override-delete", post(PUB, "", b"", ("X-HTTP-Method-Override", "DELETE"))),
    ("get-that-writes", Request("GET", PUB, "", [("X-HTTP-Method-Override", "DELETE")])),
    ("make-bucket-again", put("/lake")),
]  # fmt: skip
# Names that an origin over a file system takes for the object itself, and the other way round.
ALIASED = [
    ("put-empty-segment", put("/lake/pub//$pub_leaf", NEW)),
    ("put-dot-segment", put("/lake/pub/./$pub_leaf", NEW)),
    ("put-dot-encoded", put("/lake/pub/%2E/$pub_leaf", NEW)),
    ("put-dots", put("/lake/secret/../pub/$pub_leaf", NEW)),
    ("put-slash-first", put("/lake//$lake_pub_a", NEW)),
    ("put-two-slashes", put("//lake/$lake_pub_a", NEW)),
    ("put-trailing-slash", put("/lake/$lake_pub_a/", b"")),
    ("put-encoded-slash", put("/lake/pub%2F$pub_leaf", NEW)),
    ("delete-empty-segment", delete("/lake/pub//$pub_leaf")),
    ("delete-dot-segment", delete("/lake/pub/./$pub_leaf")),
    ("delete-slash-first", delete("/lake//$lake_pub_a")),
    ("delete-trailing-slash", delete("/lake/$lake_pub_a/")),
    ("copy-onto-empty-segment", put("/lake/pub//$pub_leaf", b"", ("x-amz-copy-source", "/lake/$lake_secret_a"))),
    ("tags-empty-segment", put("/lake/pub//$pub_leaf", TAGS.replace(b"</TagSet>", b"<Tag><Key>u</Key><Value>v</Value></Tag></TagSet>"), query="tagging=")),
    ("absent-slash-first", put("/lake//$no_pub", NEW)),
]  # fmt: skip


def part_copied(actor):
    begun = actor.send(post(PUB, "uploads="))
    found = re.search(rb"<UploadId>([^<]+)", begun.body)
    query = f"partNumber=1&uploadId={found.group(1).decode() if found else 'none'}"
    part = actor.send(put(PUB, b"", ("x-amz-copy-source", "/lake/$lake_secret_a"), query=query))
    etag = re.search(rb"<ETag>(?:&#34;|&quot;|\")?([0-9a-f]+)", part.body)
    listed = f"<Part><PartNumber>1</PartNumber><ETag>{etag.group(1).decode() if etag else ''}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>"
    actor.send(post(PUB, query.split("&")[1], body.encode()))


def emptied_directly(actor):
    """What lies in lake goes behind the gateway's back; that may be stale. The bucket's end may not."""
    root = actor.world.root
    for fixture in actor.world.fixtures:
        if fixture.bucket == "lake":
            root.call("DELETE", f"/{fixture.name}")
    for key, name in (("lake_pub_a", "up_pub"), ("lake_secret_a", "up_secret")):
        root.call("DELETE", f"/lake/{actor.world.names[key]}", f"uploadId={actor.world.names.get(name, '')}")


def bucket_deleted(actor):
    emptied_directly(actor)
    actor.expect(actor.send(delete("/lake")), {204}, "the end of the bucket")


def bucket_made_anew(actor):
    emptied_directly(actor)
    actor.expect(actor.send(delete("/lake")), {204}, "the end of the bucket")
    actor.expect(actor.send(put("/lake")), {200}, "its new beginning")


def bucket_made_anew_at_the_origin(actor):
    """Only its end went through the gateway: then nothing of the old bucket may be left."""
    emptied_directly(actor)
    actor.expect(actor.send(delete("/lake")), {204}, "the end of the bucket")
    actor.world.root.call("PUT", "/lake")
    actor.world.root.call("PUT", f"/lake/{actor.world.names['lake_pub_a']}", body=NEW)


def bucket_made_while_absent(actor):
    """The bucket was away long enough for its names to be remembered as absent; making it must end that."""
    emptied_directly(actor)
    actor.world.root.call("DELETE", "/lake")
    actor.gateway.purge(["lake/"])
    actor.gateway.session.call("GET", f"/lake/{actor.world.names['lake_pub_a']}")
    actor.send(put("/lake"))
    actor.send(put(PUB, NEW))


def policy_of_others(actor):
    """Writes that are refused remove nothing wrongly, and nothing is stale either."""
    actor.send(put(PUB, NEW), key="pub-reader")
    actor.send(delete(PUB), key="pub-reader")


FLOWS = [
    ("part-copied", part_copied),
    ("bucket-deleted", bucket_deleted),
    ("bucket-made-anew", bucket_made_anew),
    ("bucket-made-anew-at-the-origin", bucket_made_anew_at_the_origin),
    ("bucket-made-while-absent", bucket_made_while_absent),
    ("refused-writes", policy_of_others),
    ("tar-unpacked", SNOWBALL[0][1]),
    ("tar-unpacked-under-a-prefix", unpacked("PUT", ("x-amz-meta-snowball-auto-extract", "true"), ("x-amz-meta-minio-snowball-prefix", "pub"))),
]  # fmt: skip
NEEDS = {"versioned": "versions", "tags": "tags", "complete": "uploads", "part": "uploads"}


def needs_of(trick):
    return frozenset(need for word, need in NEEDS.items() if trick.startswith(word))


ATTACKS = [
    Attack("stale", trick, "all", request if isinstance(request, list) else [request], needs=needs_of(trick))
    for trick, request in WRITES
]
ATTACKS += [Attack("stale", f"alias-{trick}", "all", [request], has_aliases=True) for trick, request in ALIASED]
# Aliases of what was written under its own name.
ATTACKS += [
    Attack("stale", f"aliases-after-{trick}", "all", [request], has_aliases=True)
    for trick, request in (("put", put(PUB, NEW)), ("delete", delete(PUB)), ("absent", put(ABSENT, NEW)))
]
ATTACKS += [Attack("stale", trick, "all", flow=flow, needs=needs_of(trick), is_core=trick == "bucket-deleted") for trick, flow in FLOWS]
