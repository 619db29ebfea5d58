"""What a request names and what it asks for, in spellings that the gateway and an origin could read in two ways.

Most rows have no expected status: the judge looks at the origin, at the cache and at the answers. What a row changes
must be below the key's prefix, whatever the name looked like on the wire.
"""

import base64
import hashlib
import json
import urllib.parse

import wire
from attack import DENIED, DIGEST, REFUSED, REFUSED_OR_CLOSED, Attack, Request, delete, get, head, post, put, reencoded, rows
from wire import Signing

FAMILY = "fresh-names"
SERVED = frozenset({200, 204, 206})
NEW = b"written by an attack"
OTHER = b"written by another attack"
TAGS = b"<Tagging><TagSet><Tag><Key>t</Key><Value>forged</Value></Tag></TagSet></Tagging>"
POLICY = (
    b'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*",'
    b'"Resource":["arn:aws:s3:::lake","arn:aws:s3:::lake/*"]}]}'
)
PUB, SECRET, ABSENT = "/lake/$lake_pub_a", "/lake/$lake_secret_a", "/lake/$no_pub"
QUERY = Signing(where="query")


def crossed(key, table, **options):
    return rows(FAMILY, key, table, **options)


# --- 0. what must work: without it, a gateway that refuses every spelling would pass

CONTROLS = [
    Attack(FAMILY, "control-encoded", "pub-reader", [get("/lake/%70ub%2F$pub_leaf")], SERVED, shows=(b"$lake_pub_a",), is_core=True),
    Attack(FAMILY, "control-encoded-bucket", "pub-reader", [get("/l%61ke/$lake_pub_a")], SERVED, shows=(b"$lake_pub_a",)),
    Attack(FAMILY, "control-host", "pub-reader", [get("/$lake_pub_a", host="lake.s3.localhost")], SERVED, shows=(b"$lake_pub_a",), is_core=True),
    Attack(FAMILY, "control-host-upper-case", "pub-reader", [get("/$lake_pub_a", host="LAKE.S3.LOCALHOST:80")], SERVED, shows=(b"$lake_pub_a",)),
    Attack(FAMILY, "control-plus", "pub-both", [put("/lake/pub/a+b", NEW), get("/lake/pub/a%2Bb")], SERVED, shows=(NEW,)),
    # s3proxy answers 500 to it where the locale of its Java is not UTF-8.
    Attack(FAMILY, "control-unicode", "pub-both", [put("/lake/pub/%E2%82%AC", NEW), get("/lake/pub/%E2%82%AC")], SERVED | {502}),
    Attack(FAMILY, "control-semicolon", "pub-both", [put("/lake/pub/a%3Bb", NEW), get("/lake/pub/a%3Bb")], SERVED, shows=(NEW,)),
    Attack(FAMILY, "control-presigned", "pub-reader", [get(PUB, signing=QUERY)], SERVED, shows=(b"$lake_pub_a",), is_core=True),
    Attack(FAMILY, "control-presigned-put", "pub-writer", [put(PUB, NEW, signing=QUERY)], SERVED),
    Attack(FAMILY, "control-list", "pub-reader", [get("/lake", "list-type=2&prefix=pub%2F&delimiter=%2F")], SERVED, shows=(b"$lake_pub_a",)),
    Attack(FAMILY, "control-uploads", "pub-reader", [get("/lake", "uploads=&prefix=$lake_pub_a")], SERVED, needs=frozenset({"uploads"})),
    Attack(FAMILY, "control-tags", "pub-reader", [get(PUB, "tagging")], SERVED, needs=frozenset({"tags"})),
    Attack(FAMILY, "control-location", "pub-reader", [get("/lake", "location")], SERVED, is_core=True),
    Attack(FAMILY, "control-bucket-setting", "lake-owner", [get("/lake", "versioning=")], REFUSED | SERVED),
    Attack(FAMILY, "control-sees-a-secret", "all", [get(SECRET)], SERVED, shows=(b"body-",), is_core=True),
]  # fmt: skip

# --- 1. every operation under every spelling of a name that is forbidden

# Behind `/lake/`; $secret_leaf is the last segment of the name of an object that is there.
OUT_OF_PUB = [
    ("dots", "pub/../secret/$secret_leaf"),
    ("dots-encoded", "pub/%2e%2e/secret/$secret_leaf"),
    ("dots-encoded-twice", "pub/%252e%252e/secret/$secret_leaf"),
    ("dots-encoded-thrice", "pub/%25252e%25252e/secret/$secret_leaf"),
    ("slash-encoded", "pub/..%2fsecret%2f$secret_leaf"),
    ("slash-encoded-twice", "pub/..%252fsecret%252f$secret_leaf"),
    ("all-encoded", "pub%2f%2e%2e%2fsecret%2f$secret_leaf"),
    ("backslashes", "pub/..%5csecret%5c$secret_leaf"),
    ("backslashes-only", "pub%5c..%5csecret%5c$secret_leaf"),
    ("path-parameter", "pub/..;/secret/$secret_leaf"),
    ("path-parameter-with-value", "pub/..;x=y/secret/$secret_leaf"),
    ("path-parameter-encoded", "pub/..%3b/secret/$secret_leaf"),
    ("nul-between-dots", "pub/.%00./secret/$secret_leaf"),
    ("nul-behind-dots", "pub/..%00/secret/$secret_leaf"),
    ("overlong-dots", "pub/%c0%ae%c0%ae/secret/$secret_leaf"),
    ("overlong-slash", "pub/..%c0%afsecret%c0%af$secret_leaf"),
    ("overlong-of-three", "pub/%e0%80%ae%e0%80%ae/secret/$secret_leaf"),
    ("two-dot-leader", "pub/%e2%80%a5/secret/$secret_leaf"),
    ("wide-dots", "pub/%ef%bc%8e%ef%bc%8e/secret/$secret_leaf"),
    ("wide-slashes", "pub/..%ef%bc%8fsecret%ef%bc%8f$secret_leaf"),
    ("percent-u", "pub/%u002e%u002e/secret/$secret_leaf"),
    ("dots-and-space", "pub/..%20/secret/$secret_leaf"),
    ("dots-and-tab", "pub/..%09/secret/$secret_leaf"),
    ("dots-and-line", "pub/..%0a/secret/$secret_leaf"),
    ("space-and-dots", "pub/%20../secret/$secret_leaf"),
    ("three-dots", "pub/.../secret/$secret_leaf"),
    ("deep-and-back", "pub/x/../../secret/$secret_leaf"),
    ("object-and-back", "$lake_pub_a/../../secret/$secret_leaf"),
    ("question-mark", "pub/%3f/../../secret/$secret_leaf"),
    ("number-sign", "pub/%23/../../secret/$secret_leaf"),
    ("another-bucket", "pub/../../other/$other_secret_a"),
    ("another-bucket-encoded", "pub/%2e%2e/%2e%2e/other/$other_secret_a"),
    ("absolute", "pub//lake/secret/$secret_leaf"),
    ("joiner-between-dots", "pub/.%e2%80%8d./secret/$secret_leaf"),
    ("mark-before-dots", "pub/%ef%bb%bf../secret/$secret_leaf"),
    ("surrogate", "pub/%ed%a0%80/../secret/$secret_leaf"),
    ("broken-percent", "pub/%2/../secret/$secret_leaf"),
]
# The same object again, for a key that may have everything but `lake/secret/`.
INTO_SECRET = [
    ("slash-first", "/secret/$secret_leaf"),
    ("slash-first-encoded", "%2fsecret/$secret_leaf"),
    ("slashes", "secret//$secret_leaf"),
    ("slash-encoded", "secret%2f$secret_leaf"),
    ("slash-encoded-twice", "secret%252f$secret_leaf"),
    ("letter-encoded", "%73ecret/$secret_leaf"),
    ("letter-encoded-twice", "%2573ecret/$secret_leaf"),
    ("dot-first", "./secret/$secret_leaf"),
    ("dot-encoded-first", "%2e/secret/$secret_leaf"),
    ("dots-first", "x/../secret/$secret_leaf"),
    ("backslash", "secret%5c$secret_leaf"),
    ("backslash-first", "%5csecret/$secret_leaf"),
    ("case", "SECRET/$secret_leaf"),
    ("capital", "Secret/$secret_leaf"),
    ("long-s", "%c5%bfecret/$secret_leaf"),
    ("wide-s", "%ef%bd%93ecret/$secret_leaf"),
    ("wide-slash", "secret%ef%bc%8f$secret_leaf"),
    ("overlong-slash", "secret%c0%af$secret_leaf"),
    ("overlong-letter", "%c1%b3ecret/$secret_leaf"),
    ("nul-behind-folder", "secret%00/$secret_leaf"),
    ("nul-first", "%00secret/$secret_leaf"),
    ("space-behind-folder", "secret%20/$secret_leaf"),
    ("space-first", "%20secret/$secret_leaf"),
    ("dot-behind-folder", "secret./$secret_leaf"),
    ("parameter-of-folder", "secret;x=y/$secret_leaf"),
    ("parameter-of-folder-encoded", "secret%3bx=y/$secret_leaf"),
    ("byte-order-mark", "%ef%bb%bfsecret/$secret_leaf"),
    ("soft-hyphen", "sec%c2%adret/$secret_leaf"),
    ("zero-width", "secret%e2%80%8b/$secret_leaf"),
    ("tab", "secret%09/$secret_leaf"),
    ("line", "%0asecret/$secret_leaf"),
    ("return-and-line", "%0d%0asecret/$secret_leaf"),
    ("folder", "secret"),
    ("folder-of-minio", "secret__XLDIR__"),
    ("folder-of-minio-below", "secret__XLDIR__/$secret_leaf"),
    ("metadata-of-minio", "secret/../secret/$secret_leaf/xl.meta"),
    ("uploads-of-versitygw", ".sgwtmp/multipart"),
    ("uploads-of-s3proxy", ".mpus-$up_secret-secret/$secret_leaf-1"),
]  # fmt: skip


def deletion(body, path="/lake", *headers, query="delete="):
    return post(path, query, body, ("Content-MD5", DIGEST), *headers)


def document_name(name):
    """A name as a document has it: what a path would have encoded is decoded once."""
    raw = urllib.parse.unquote_to_bytes(name)
    escaped = raw.replace(b"&", b"&amp;").replace(b"<", b"&lt;").replace(b"\r", b"&#13;").replace(b"\n", b"&#10;")
    return b"<Delete><Object><Key>" + escaped + b"</Key></Object></Delete>"


def operations(name):
    path = f"/lake/{name}"
    return [
        ("get", get(path)),
        ("head", head(path)),
        ("tags", get(path, "tagging=")),
        ("put", put(path, NEW)),
        ("put-tags", put(path, TAGS, query="tagging=")),
        ("delete", delete(path)),
        ("delete-list", deletion(document_name(name))),
        ("copy-from", put("/lake/pub/copied", b"", ("x-amz-copy-source", f"lake/{name}"))),
        ("copy-to", put(path, b"", ("x-amz-copy-source", "lake/$lake_pub_a"))),
        ("begin", post(path, "uploads=")),
        ("abort", delete(path, "uploadId=$up_secret")),
        ("presigned", get(path, signing=QUERY)),
        ("list", get("/lake", f"list-type=2&prefix={name}")),
        ("uploads", get("/lake", f"uploads=&prefix={name}")),
        ("in-the-host", get(f"/{name}", host="lake.s3.localhost")),
    ]


def spellings(key, names, word):
    table = [(f"{word}-{operation}-{trick}", request) for trick, name in names for operation, request in operations(name)]
    return crossed(key, table)


# --- 2. buckets: in the path and in the host

BUCKETS = [
    ("case", "/OTHER/$other_secret_a"),
    ("letter-encoded", "/%6fther/$other_secret_a"),
    ("letter-encoded-twice", "/%256fther/$other_secret_a"),
    ("slash-encoded", "/other%2f$other_secret_a"),
    ("slash-encoded-twice", "/other%252f$other_secret_a"),
    ("slash-first", "//other/$other_secret_a"),
    ("dot-first", "/./other/$other_secret_a"),
    ("dots-first", "/lake/../other/$other_secret_a"),
    ("dots-encoded", "/lake/%2e%2e/other/$other_secret_a"),
    ("dots-in-bucket", "/lake%2f..%2fother/$other_secret_a"),
    ("nul", "/other%00/$other_secret_a"),
    ("nul-first", "/%00other/$other_secret_a"),
    ("space", "/other%20/$other_secret_a"),
    ("space-first", "/%20other/$other_secret_a"),
    ("dot-behind", "/other./$other_secret_a"),
    ("parameter", "/other;x/$other_secret_a"),
    ("wide-letters", "/%ef%bd%8fther/$other_secret_a"),
    ("backslash", "/other%5c$other_secret_a"),
    ("backslash-first", "/%5cother/$other_secret_a"),
    ("tenant-of-ceph", "/:other/$other_secret_a"),
    ("tenant-with-colon", "/root:other/$other_secret_a"),
    ("arn", "/arn:aws:s3:::other/$other_secret_a"),
    ("arn-encoded", "/arn%3Aaws%3As3%3A%3A%3Aother/$other_secret_a"),
    ("access-point", "/arn:aws:s3:us-east-1:1:accesspoint/other/object/$other_secret_a"),
    ("folder-of-minio", "/other__XLDIR__/$other_secret_a"),
    ("parent", "/../other/$other_secret_a"),
    ("user", "/~root/other/$other_secret_a"),
    ("system-of-minio", "/.minio.sys/buckets/other/$other_secret_a"),
    ("configuration-of-minio", "/.minio.sys/config/config.json"),
    ("users-of-minio", "/.minio.sys/config/iam/users/$user/identity.json"),
    ("format-of-minio", "/.minio.sys/format.json"),
    ("system-of-minio-encoded", "/%2eminio.sys/config/config.json"),
    ("uploads-of-versitygw", "/.sgwtmp/multipart"),
    ("empty", "/%20/other/$other_secret_a"),
    ("hidden-by-dot", "/.other/$other_secret_a"),
]  # fmt: skip
HOSTS = [
    ("name", "other.s3.localhost"),
    ("case", "OTHER.s3.LOCALHOST"),
    ("dot-behind", "other.s3.localhost."),
    ("port", "other.s3.localhost:1"),
    ("two-names", "lake.other.s3.localhost"),
    ("two-names-reversed", "other.lake.s3.localhost"),
    ("user", "lake@other.s3.localhost"),
    ("comma", "lake.s3.localhost,other.s3.localhost"),
    ("space", "lake.s3.localhost other.s3.localhost"),
    ("nul", "other\0.s3.localhost"),
    ("encoded", "%6fther.s3.localhost"),
    ("slash", "other/x.s3.localhost"),
    ("slash-encoded", "lake%2f..%2fother.s3.localhost"),
    ("dots", "..s3.localhost"),
    ("dot-first", ".s3.localhost"),
    ("dots-first", ".other.s3.localhost"),
    ("suffix", "otherxs3.localhost"),
    ("tab", "\tother.s3.localhost"),
    ("bracket", "[other.s3.localhost]"),
    ("wide", "other\uff0es3.localhost".encode().decode("latin-1")),
    ("minio", "minio.s3.localhost"),
    ("admin", "admin.s3.localhost"),
    ("empty-port", "other.s3.localhost:"),
    ("number-sign", "other.s3.localhost#.s3.localhost"),
    ("question-mark", "other.s3.localhost?x"),
]


def buckets():
    table = []
    for trick, path in BUCKETS:
        table += [
            (f"bucket-get-{trick}", get(path)),
            (f"bucket-head-{trick}", head(path)),
            (f"bucket-put-{trick}", put(path, NEW)),
            (f"bucket-delete-{trick}", delete(path)),
            (f"bucket-copy-{trick}", put("/lake/pub/copied", b"", ("x-amz-copy-source", path))),
            (f"bucket-list-{trick}", get(path.split("/$")[0], "list-type=2")),
        ]
    for trick, host in HOSTS:
        table += [
            (f"host-get-{trick}", get("/$other_secret_a", host=host)),
            (f"host-delete-{trick}", delete("/$other_secret_a", host=host)),
            (f"host-list-{trick}", get("/", "list-type=2", host=host)),
            (f"host-policy-{trick}", put("/", POLICY.replace(b"lake", b"other"), query="policy=", host=host)),
            (f"host-remove-{trick}", delete("/", host=host)),
        ]
    return crossed("not-other", table)


# --- 3. two operations in one request: the key may do one of them

SETTINGS = (
    "abac", "accelerate", "acl", "analytics", "cors", "encryption", "intelligent-tiering", "inventory", "lifecycle",
    "logging", "metadataConfiguration", "metadataTable", "metrics", "notification", "object-lock", "ownershipControls",
    "policy", "policyStatus", "publicAccessBlock", "replication", "requestPayment", "tagging", "versioning", "website",
    "events", "quota", "replication-metrics", "session", "torrent", "attributes", "delete", "restore", "select",
)  # fmt: skip
SPELLED = ("acl", "cors", "delete", "lifecycle", "policy", "replication", "tagging", "versioning", "website")
MAY = [("location", "location"), ("list", "list-type=2&prefix=pub/"), ("versions", "versions&prefix=pub/"), ("uploads", "uploads&prefix=pub/")]


def two_operations():
    table = []
    for word, query in MAY:
        for sub in SETTINGS:
            table.append((f"both-{word}-{sub}", get("/lake", f"{query}&{sub}")))
            table.append((f"both-{word}-{sub}-first", get("/lake", f"{sub}=x&{query}")))
    for sub in SPELLED:
        table.append((f"setting-case-{sub}", get("/lake", f"{sub.upper()}=&list-type=2")))
        table.append((f"setting-encoded-{sub}", get("/lake", "%" + sub[0].encode().hex() + f"{sub[1:]}=")))
        table.append((f"setting-nul-{sub}", get("/lake", f"{sub}%00=&prefix=pub/")))
        table.append((f"setting-plus-{sub}", get("/lake", f"+{sub}=&prefix=pub/")))
        table.append((f"setting-in-key-{sub}", put(f"/lake/pub/%3F{sub}", NEW)))
        table.append((f"setting-in-bucket-{sub}", put(f"/lake%3F{sub}", POLICY)))
        table.append((f"setting-behind-prefix-{sub}", get("/lake", f"prefix=pub/%26{sub}")))
    for sub in SETTINGS:
        table.append((f"both-put-{sub}", put("/lake/", POLICY, query=f"{sub}&partNumber=1&uploadId=$up_pub")))
        table.append((f"both-object-put-{sub}", put(PUB, POLICY, query=f"{sub}=")))
        table.append((f"both-object-tagging-{sub}", put(PUB, TAGS, query=f"tagging=&{sub}=")))
        table.append((f"both-object-delete-{sub}", delete(PUB, f"{sub}")))
        table.append((f"both-object-post-{sub}", post(PUB, f"{sub}=&uploads", b"<X/>")))
    return crossed("pub-both", table)


# --- 4. parameters that are there twice, or spelled in another way

PARAMETERS = [
    ("upload-twice", put(PUB, NEW, query="partNumber=2&uploadId=$up_pub&uploadId=$up_secret")),
    ("upload-of-another", put(PUB, NEW, query="partNumber=2&uploadId=$up_secret")),
    ("upload-of-another-encoded", put(PUB, NEW, query="partNumber=2&upload%49d=$up_secret")),
    ("upload-case", put(PUB, NEW, query="partNumber=2&uploadid=$up_secret")),
    ("upload-with-slash", delete(PUB, "uploadId=$lake_secret_a")),
    ("upload-with-dots", delete(PUB, "uploadId=../$lake_secret_a")),
    ("upload-with-many-dots", delete(PUB, "uploadId=../../../$lake_secret_a")),
    ("upload-dot", delete(PUB, "uploadId=.")),
    ("upload-dots", delete(PUB, "uploadId=..")),
    ("upload-empty", delete(PUB, "uploadId=")),
    ("upload-valueless", delete(PUB, "uploadId")),
    ("upload-nul", delete(PUB, "uploadId=$up_pub%00$up_secret")),
    ("upload-line", delete(PUB, "uploadId=$up_pub%0a$up_secret")),
    ("upload-space", delete(PUB, "uploadId=$up_secret%20")),
    ("upload-upper-case", delete(PUB, "uploadId=%20$up_secret")),
    ("upload-and-version", delete(PUB, "uploadId=$up_secret&versionId=null")),
    ("parts-of-another", get(PUB, "uploadId=$up_secret")),
    ("parts-of-another-bucket", get(PUB, "uploadId=$up_other")),
    ("parts-twice", get(PUB, "uploadId=$up_pub&uploadId=$up_secret")),
    ("parts-key-marker", get(PUB, "uploadId=$up_secret&part-number-marker=0")),
    ("version-twice", get("/vers/$vers_pub_v", "versionId=$new_pub&versionId=$new_secret")),
    ("version-of-another", get("/vers/$vers_pub_v", "versionId=$new_secret")),
    ("version-of-another-old", get("/vers/$vers_pub_v", "versionId=$old_secret")),
    ("version-of-another-deleted", delete("/vers/$vers_pub_v", "versionId=$new_secret")),
    ("version-with-dots", get("/vers/$vers_pub_v", "versionId=../../secret/$new_secret")),
    ("version-with-path", get("/vers/$vers_pub_v", "versionId=../$vers_secret_v/$new_secret")),
    ("version-with-path-deleted", delete("/vers/$vers_pub_v", "versionId=../$vers_secret_v")),
    ("version-dots-deleted", delete("/vers/$vers_pub_v", "versionId=..")),
    ("version-dot-deleted", delete("/vers/$vers_pub_v", "versionId=.")),
    ("version-nul", get("/vers/$vers_pub_v", "versionId=%00")),
    ("version-empty", get("/vers/$vers_pub_v", "versionId=")),
    ("version-empty-deleted", delete(PUB, "versionId=")),
    ("version-case", get("/vers/$vers_pub_v", "versionid=$new_secret")),
    ("version-tags-of-another", get("/vers/$vers_pub_v", "tagging&versionId=$new_secret")),
    ("version-copied", put("/vers/pub/copied", b"", ("x-amz-copy-source", "vers/$vers_pub_v?versionId=$new_secret"))),
    ("version-in-key", get("/vers/$vers_pub_v%3FversionId=$new_secret")),
    ("percent-alone", get(PUB, "%")),
    ("percent-half", get(PUB, "versionId=%4")),
    ("percent-wrong", get(PUB, "versionId=%zz")),
    ("overlong-name", get("/lake", "%c1%b0refix=secret/&prefix=pub/")),
    ("only-ampersands", get("/lake", "&&&&prefix=pub/&&&")),
    ("equals-only", get("/lake", "=&=&==&prefix=pub/")),
    ("many", get("/lake", "prefix=pub/&" + "&".join(f"a{n}=b" for n in range(500)))),
    ("many-prefixes", get("/lake", "&".join(["prefix=pub/"] * 100 + ["prefix=secret/"]))),
    ("very-long", get("/lake", "prefix=pub/" + "a" * 60000)),
    ("very-long-name", get("/lake", "a" * 60000 + "=1&prefix=pub/")),
    ("delete-with-prefix", post("/lake", "delete&prefix=secret/", b"<Delete><Object><Key>$lake_secret_a</Key></Object></Delete>", ("Content-MD5", DIGEST))),
    ("delete-in-key", post("/lake/?delete", "", b"<Delete><Object><Key>$lake_secret_a</Key></Object></Delete>", ("Content-MD5", DIGEST))),
    ("delete-below", post("/lake/pub/", "delete", b"<Delete><Object><Key>$lake_secret_a</Key></Object></Delete>", ("Content-MD5", DIGEST))),
    ("delete-below-object", post(PUB, "delete", b"<Delete><Object><Key>$lake_secret_a</Key></Object></Delete>", ("Content-MD5", DIGEST))),
    ("compose", put("/lake/pub/composed", b"<ComposeRequest><Component><Name>$lake_secret_a</Name></Component></ComposeRequest>", query="compose")),
    ("append-position", post(PUB, "append&position=0", NEW)),
    ("rename", put("/lake/pub/renamed", b"", ("x-amz-rename-source", "/lake/$lake_secret_a"), query="renameObject")),
    ("lambda", get(PUB, "lambdaArn=arn:minio:s3-object-lambda::x:webhook")),
    ("force-delete", delete(PUB, "", ("x-minio-force-delete", "true"))),
    ("force-delete-bucket", delete("/lake", "", ("x-minio-force-delete", "true"))),
    ("force-delete-folder", delete("/lake/pub/", "", ("x-minio-force-delete", "true"))),
    ("x-id", get(PUB, "x-id=DeleteObject")),
    ("method-override", get(SECRET, "_method=GET&x-id=HeadObject")),
    ("action", post("/", "", b"Action=AssumeRole&Version=2011-06-15&DurationSeconds=3600", ("Content-Type", "application/x-www-form-urlencoded"))),
    ("action-in-the-query", get("/", "Action=ListUsers&Version=2010-05-08")),
    ("action-on-bucket", post("/lake", "Action=AssumeRole&Version=2011-06-15")),
]  # fmt: skip

# --- 5. headers as parameters, in URLs that are signed

AS_PARAMETERS = [
    ("copy-source", "PUT", "x-amz-copy-source=/lake/$lake_secret_a"),
    ("copy-source-case", "PUT", "X-Amz-Copy-Source=lake%2F$lake_secret_a"),
    ("copy-source-encoded", "PUT", "x-amz-copy%2Dsource=lake%2F$lake_secret_a"),
    ("copy-source-underscores", "PUT", "x_amz_copy_source=lake%2F$lake_secret_a"),
    ("copy-source-part", "PUT", "partNumber=2&uploadId=$up_pub&X-Amz-Copy-Source=lake%2F$lake_secret_a"),
    ("copy-source-twice", "PUT", "x-amz-copy-source=lake/$lake_pub_a&x-amz-copy-source=lake/$lake_secret_a"),
    ("copy-source-two-cases", "PUT", "x-amz-copy-source=lake/$lake_pub_a&X-AMZ-COPY-SOURCE=lake/$lake_secret_a"),
    ("rename-source", "PUT", "renameObject&X-Amz-Rename-Source=/lake/$lake_secret_a"),
    ("acl", "PUT", "X-Amz-Acl=public-read-write"),
    ("acl-upper-case", "PUT", "X-AMZ-ACL=public-read-write"),
    ("grant", "PUT", "X-Amz-Grant-Full-Control=uri%3D%22http%3A%2F%2Facs.amazonaws.com%2Fgroups%2Fglobal%2FAllUsers%22"),
    ("tagging", "PUT", "X-Amz-Tagging=a%3Db"),
    ("meta-snowball", "PUT", "X-Amz-Meta-Snowball-Auto-Extract=true"),
    ("meta-minio", "PUT", "X-Amz-Meta-X-Minio-Internal-Y=1"),
    ("meta-line", "PUT", "X-Amz-Meta-A=b%0D%0Ax-amz-copy-source%3A%20lake%2F$lake_secret_a"),
    ("meta-line-in-name", "PUT", "X-Amz-Meta-A%0D%0Ax-amz-copy-source%3A%20lake%2F$lake_secret_a%0D%0Ab=c"),
    ("meta-colon-in-name", "PUT", "x-amz-copy-source%3A%20lake%2F$lake_secret_a=x"),
    ("storage-class", "PUT", "X-Amz-Storage-Class=REDUCED_REDUNDANCY"),
    ("lock", "PUT", "X-Amz-Object-Lock-Mode=GOVERNANCE&X-Amz-Object-Lock-Retain-Until-Date=2035-01-01T00:00:00Z"),
    ("bypass", "DELETE", "X-Amz-Bypass-Governance-Retention=true"),
    ("force-delete", "DELETE", "X-Minio-Force-Delete=true"),
    ("minio-source", "PUT", "X-Minio-Source-Mtime=2001-01-01T00:00:00Z"),
    ("minio-extract", "GET", "X-Minio-Extract=true"),
    ("method-override", "GET", "X-HTTP-Method-Override=DELETE"),
    ("host", "GET", "Host=other.s3.localhost"),
    ("range", "GET", "Range=bytes%3D0-1"),
    ("if-none-match", "PUT", "If-None-Match=%2A"),
    ("content-length", "PUT", "Content-Length=0"),
    ("content-hash", "PUT", "X-Amz-Content-Sha256=" + "0" * 64),
    ("content-hash-streaming", "PUT", "X-Amz-Content-Sha256=STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ("trailer", "PUT", "X-Amz-Trailer=x-amz-copy-source"),
    ("decoded-length", "PUT", "X-Amz-Decoded-Content-Length=1"),
    ("token", "GET", "X-Amz-Security-Token=forged"),
    ("token-twice", "GET", "X-Amz-Security-Token=a&X-Amz-Security-Token=b"),
    ("date-twice", "GET", "X-Amz-Date=20200101T000000Z"),
    ("expires-twice", "GET", "X-Amz-Expires=604800"),
    ("credential-twice", "GET", "X-Amz-Credential=key-all%2F20200101%2Fus-east-1%2Fs3%2Faws4_request"),
    ("signature-twice", "GET", "X-Amz-Signature=00"),
    ("signed-headers-twice", "GET", "X-Amz-SignedHeaders=host%3Bx-amz-copy-source"),
    ("algorithm-twice", "GET", "X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256"),
    ("algorithm-case", "GET", "x-amz-algorithm=AWS4-HMAC-SHA256"),
    ("version-2", "GET", "AWSAccessKeyId=key-all&Signature=x&Expires=9999999999"),
    ("region-set", "GET", "X-Amz-Region-Set=*"),
]  # fmt: skip


def as_parameters():
    table = []
    for trick, method, query in AS_PARAMETERS:
        body = NEW if method == "PUT" else b""
        pub = Request(method, "/lake/pub/presigned" if method == "PUT" else PUB, query, body=body, signing=QUERY)
        other = Request(method, SECRET, query, body=body, signing=QUERY)
        headed = Request(method, PUB, query, body=body)
        table += [(f"presigned-{trick}", pub), (f"presigned-secret-{trick}", other), (f"signed-query-{trick}", headed)]
    return [*crossed("pub-writer", table), *crossed("pub-both", table)]


# --- 6. headers in every dress

DANGEROUS = [
    ("copy-source", "x-amz-copy-source", "lake/$lake_secret_a", "/lake/pub/dressed", ""),
    ("copy-source-part", "x-amz-copy-source", "lake/$lake_secret_a", PUB, "partNumber=2&uploadId=$up_pub"),
    ("rename-source", "x-amz-rename-source", "/lake/$lake_secret_a", "/lake/pub/dressed", "renameObject="),
    ("acl", "x-amz-acl", "public-read-write", PUB, ""),
    ("snowball", "x-amz-meta-snowball-auto-extract", "true", "/lake/pub/dressed", ""),
    ("minio-mtime", "x-minio-source-mtime", "2001-01-01T00:00:00Z", PUB, ""),
    ("minio-version", "x-minio-source-version-id", "00000000-0000-0000-0000-000000000000", PUB, ""),
    ("goog-copy", "x-goog-copy-source", "lake/$lake_secret_a", "/lake/pub/dressed", ""),
    ("oss-copy", "x-oss-copy-source", "/lake/$lake_secret_a", "/lake/pub/dressed", ""),
    ("offset", "x-amz-write-offset-bytes", "0", PUB, ""),
    ("if-none-match", "if-none-match", "*", PUB, ""),
    ("retention", "x-amz-object-lock-retain-until-date", "2035-01-01T00:00:00Z", PUB, ""),
]


def dressed():
    table = []
    for trick, name, value, path, query in DANGEROUS:
        plain = [(name, value)]
        forms = [
            ("plain", plain, ()),
            ("upper-case", [(name.upper(), value)], ()),
            ("unsigned", [], plain),
            ("underscores", [], [(name.replace("-", "_"), value)]),
            ("some-underscores", [], [(name.replace("-", "_", 1), value)]),
            ("space-before-colon", [], [(name + " ", value)]),
            ("tab-before-colon", [], [(name + "\t", value)]),
            ("folded", [(name, f"\r\n {value}")], ()),
            ("folded-into-meta", [], [("x-amz-meta-a", f"b\r\n {name}: {value}")]),
            ("line-feed-only", [], [("x-amz-meta-a", f"b\n{name}: {value}")]),
            ("return-only", [], [("x-amz-meta-a", f"b\r{name}: {value}")]),
            ("twice-first-harmless", [(name, "lake/$lake_pub_a"), (name, value)], ()),
            ("twice-last-unsigned", [(name, "lake/$lake_pub_a")], plain),
            ("twice-first-empty", [(name, ""), (name, value)], ()),
            ("comma", [(name, f"lake/$lake_pub_a, {value}")], ()),
            ("nul-in-name", [], [(name + "\0", value)]),
            ("byte-behind-name", [], [(name + "\xa0", value)]),
            ("by-connection", [], [("Connection", f"close, {name}"), *plain]),
            ("in-a-trailer", [("x-amz-trailer", name)], ()),
            ("value-quoted", [(name, f'"{value}"')], ()),
            ("value-padded", [(name, f"\t {value} \t")], ()),
        ]
        for form, headers, unsigned in forms:
            copies = "copy" in name or "rename" in name
            request = Request("PUT", path, query, headers, b"" if copies else NEW, unsigned=list(unsigned))
            table.append((f"header-{trick}-{form}", request))
    return crossed("pub-writer", table)


# --- 7. lists

LISTS = [
    ("no-slash", "list-type=2&prefix=pub"),
    ("plus", "list-type=2&prefix=pub/+"),
    ("percent-alone", "list-type=2&prefix=pub/%"),
    ("double-encoded", "list-type=2&prefix=pub%252F"),
    ("double-encoded-another", "list-type=2&prefix=%2573ecret%252F"),
    ("overlong", "list-type=2&prefix=pub%c0%af"),
    ("not-utf-8", "list-type=2&prefix=pub/%ff"),
    ("back", "list-type=2&prefix=pub/../"),
    ("back-and-delimiter", "list-type=2&prefix=pub/../&delimiter=/"),
    ("back-behind", "list-type=2&prefix=pub/.."),
    ("back-behind-delimiter", "list-type=2&prefix=pub/..&delimiter=/"),
    ("dot", "list-type=2&prefix=pub/./"),
    ("slashes", "list-type=2&prefix=pub//"),
    ("slashes-first", "list-type=2&prefix=//pub/"),
    ("object-as-folder", "list-type=2&prefix=$lake_pub_a/../"),
    ("line", "list-type=2&prefix=pub/%0a"),
    ("return-and-line", "list-type=2&prefix=pub/%0d%0ax-minio-extract:%20true"),
    ("nul-and-more", "list-type=2&prefix=pub/%00/../secret/"),
    ("case", "list-type=2&prefix=PUB/"),
    ("folder-of-minio", "list-type=2&prefix=pub__XLDIR__/"),
    ("uploads-of-versitygw", "list-type=2&prefix=.sgwtmp/"),
    ("uploads-of-versitygw-multipart", "list-type=2&prefix=.sgwtmp/multipart/"),
    ("uploads-of-s3proxy", "list-type=2&prefix=.mpus-"),
    ("delimiter-letter", "list-type=2&prefix=pub/&delimiter=a"),
    ("delimiter-long", "list-type=2&prefix=pub/&delimiter=/a-"),
    ("delimiter-nul", "list-type=2&prefix=pub/&delimiter=%00"),
    ("delimiter-dots", "list-type=2&prefix=pub/&delimiter=.."),
    ("delimiter-twice", "list-type=2&prefix=pub/&delimiter=/&delimiter="),
    ("delimiter-prefix", "list-type=2&prefix=pub/&delimiter=pub/"),
    ("encoding", "list-type=2&prefix=pub/&encoding-type=url"),
    ("encoding-wrong", "list-type=2&prefix=pub/&encoding-type=base64"),
    ("encoding-twice", "list-type=2&prefix=pub/&encoding-type=url&encoding-type="),
    ("encoded-prefix-with-encoding", "list-type=2&prefix=%2570ub%252F&encoding-type=url"),
    ("start-before", "list-type=2&prefix=pub/&start-after=a"),
    ("start-back", "list-type=2&prefix=pub/&start-after=pub/../secret/"),
    ("start-beyond", "list-type=2&prefix=pub/&start-after=zzz"),
    ("marker-back", "prefix=pub/&marker=pub/../secret/a"),
    ("marker-dots", "prefix=pub/&marker=../../"),
    ("marker-of-minio", "prefix=pub/&marker=pub/[minio_cache:v2,return:]"),
    ("marker-of-minio-with-id", "prefix=pub/&marker=secret/[minio_cache:v2,id:00000000-0000-0000-0000-000000000000,p:0,s:0]"),
    ("marker-with-slashes", "prefix=pub/&marker=//secret"),
    ("marker-and-token", "list-type=2&prefix=pub/&marker=a&continuation-token=c2VjcmV0Lw=="),
    ("token-object", "list-type=2&prefix=pub/&continuation-token=eyJwcmVmaXgiOiJzZWNyZXQvIn0="),
    ("token-path", "list-type=2&prefix=pub/&continuation-token=../secret/"),
    ("token-empty", "list-type=2&prefix=pub/&continuation-token="),
    ("token-and-start", "list-type=2&prefix=pub/&continuation-token=cHViLw==&start-after=a"),
    ("keys-none", "list-type=2&prefix=pub/&max-keys=0"),
    ("keys-negative", "list-type=2&prefix=pub/&max-keys=-1"),
    ("keys-huge", "list-type=2&prefix=pub/&max-keys=99999999999999999999"),
    ("keys-one", "list-type=2&prefix=pub/&max-keys=1"),
    ("keys-twice", "list-type=2&prefix=pub/&max-keys=1&max-keys=1000"),
    ("owner", "list-type=2&prefix=pub/&fetch-owner=true"),
    ("metadata", "list-type=2&prefix=pub/&metadata=true"),
    ("versions-markers", "versions&prefix=pub/&key-marker=pub/&version-id-marker=$new_secret"),
    ("versions-beyond", "versions&prefix=pub/&key-marker=secret/"),
    ("versions-delimiter", "versions&prefix=pub/&delimiter=e"),
    ("versions-back", "versions&prefix=pub/../secret/"),
    ("uploads-one", "uploads&prefix=pub/"),
    ("uploads-markers", "uploads&prefix=pub/&key-marker=secret/&upload-id-marker=$up_secret"),
    ("uploads-key-marker", "uploads&prefix=pub/&key-marker=a"),
    ("uploads-delimiter", "uploads&prefix=pub/&delimiter=/"),
    ("uploads-encoding", "uploads&prefix=pub/&encoding-type=url"),
    ("uploads-none", "uploads&prefix=pub/&max-uploads=0"),
    ("uploads-exact", "uploads&prefix=$lake_secret_a"),
    ("uploads-back", "uploads&prefix=pub/../$lake_secret_a"),
    ("uploads-slash", "uploads&prefix=/"),
    ("uploads-pub-without-slash", "uploads&prefix=pub"),
    ("uploads-empty", "uploads&prefix="),
    ("type-zero", "list-type=0&prefix=pub/"),
    ("type-valueless", "list-type&prefix=pub/"),
    ("x-id", "x-id=ListBuckets&prefix=pub/"),
]  # fmt: skip


def lists():
    found = []
    for trick, query in LISTS:
        found.append((f"list-{trick}", get("/lake", query)))
        found.append((f"list-versioned-{trick}", get("/vers", query)))
        found.append((f"list-host-{trick}", get("/", query, host="lake.s3.localhost")))
    table = [
        (f"buckets-{trick}", get("/", query))
        for trick, query in [
            ("prefix", "prefix=hidden"),
            ("prefix-empty", "prefix="),
            ("token", "continuation-token=aGlkZGVu"),
            ("max", "max-buckets=1"),
            ("max-none", "max-buckets=0"),
            ("region", "bucket-region=us-east-1"),
            ("prefix-twice", "prefix=lake&prefix=hidden"),
            ("versions", "versions="),
            ("policy", "policy="),
            ("location", "location="),
            ("extended", "x-id=ListBuckets&metadata=true"),
            ("list", "list-type=2&prefix="),
        ]
    ]
    return [*crossed("pub-reader", [*found, *table]), *crossed("read-not-secret", found[::3])]


# --- 8. methods

METHODS = (
    "get", "Get", "PATCH", "TRACE", "CONNECT", "COPY", "MOVE", "MKCOL", "PROPFIND", "PROPPATCH", "LOCK", "LINK", "QUERY",
    "SEARCH", "PURGE", "BAN", "REPORT", "OPTIONS", "GETX", "DELETE\t", "G\0ET", "PRI", "SOURCE", "M-SEARCH", "post", "delete", "put",
)  # fmt: skip


def methods():
    table = []
    for method in METHODS:
        word = method.replace("\0", "nul").replace("\t", "tab")
        more = [("Destination", "/lake/pub/moved"), ("X-HTTP-Method-Override", "GET")]
        for place, path, query in [
            ("secret", SECRET, ""),
            ("bucket", "/lake", "policy="),
            ("users", "/create-user", ""),
            ("list-buckets", "/list-buckets", ""),
            ("owner", "/change-bucket-owner", "bucket=lake&owner=$user"),
            ("admin", "/minio/admin/v3/export-iam", ""),
        ]:
            body = b"<Account><Access>forged</Access><Secret>forged-secret</Secret><Role>admin</Role></Account>"
            table.append((f"method-{word}-{place}", Request(method, path, query, more, body)))
    return crossed("not-secret", table)


# --- 9. reads that could leave something wrong in the cache


def reading(request, *more):
    """Reads what is not cached yet; the judge then compares every name with the origin."""

    def flow(actor):
        actor.gateway.purge(["lake/", "vers/"])
        for each in (request, *more):
            actor.send(each)

    return flow


READS = [
    *[(f"response-{name}", f"response-{name}=text%2Fevil", ()) for name in ("content-type", "content-language", "content-encoding", "content-disposition", "cache-control", "expires")],
    ("response-line", "response-content-disposition=a%0D%0Ax-evil%3A%20b", ()),
    ("response-case", "Response-Content-Type=text%2Fevil", ()),
    ("part", "partNumber=1", ()),
    ("part-two", "partNumber=2", ()),
    ("part-none", "partNumber=0", ()),
    ("part-range", "partNumber=1", (("Range", "bytes=0-1"),)),
    ("version-null", "versionId=null", ()),
    ("version-unknown", "versionId=00000000-0000-0000-0000-000000000000", ()),
    ("version-wrong", "versionId=x", ()),
    ("torrent", "torrent", ()),
    ("tags", "tagging", ()),
    ("acl", "acl", ()),
    ("parts", "uploadId=00000000-0000-0000-0000-000000000000", ()),
    ("attributes", "attributes", (("x-amz-object-attributes", "ETag"),)),
    ("retention", "retention", ()),
    ("unknown", "foo=bar", ()),
    ("range-first", "", (("Range", "bytes=0-0"),)),
    ("range-last", "", (("Range", "bytes=-1"),)),
    ("range-beyond", "", (("Range", "bytes=99999999-"),)),
    ("range-two", "", (("Range", "bytes=0-0,5-9"),)),
    ("range-unit", "", (("Range", "lines=0-1"),)),
    ("range-case", "", (("Range", "BYTES=0-1"),)),
    ("range-twice", "", (("Range", "bytes=0-1"), ("Range", "bytes=5-9"))),
    ("range-spaces", "", (("Range", "bytes = 0 - 1"),)),
    ("range-huge", "", (("Range", "bytes=0-99999999999999999999999999"),)),
    ("range-negative", "", (("Range", "bytes=--1"),)),
    ("range-if", "", (("Range", "bytes=0-1"), ("If-Range", '"x"'))),
    ("if-match-wrong", "", (("If-Match", '"x"'),)),
    ("if-match-any", "", (("If-Match", "*"),)),
    ("if-none-match-any", "", (("If-None-Match", "*"),)),
    ("if-modified-future", "", (("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"),)),
    ("if-unmodified-past", "", (("If-Unmodified-Since", "Mon, 01 Jan 1990 00:00:00 GMT"),)),
    ("gzip", "", (("Accept-Encoding", "gzip, br, zstd"),)),
    ("no-encoding", "", (("Accept-Encoding", "identity;q=0, *;q=0"),)),
    ("origin", "", (("Origin", "http://evil.example"),)),
    ("checksum", "", (("x-amz-checksum-mode", "ENABLED"),)),
    ("sse-c", "", (("x-amz-server-side-encryption-customer-algorithm", "AES256"), ("x-amz-server-side-encryption-customer-key", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="), ("x-amz-server-side-encryption-customer-key-MD5", "hRasmdxgYDKV3nvbahU1MA=="))),
    ("owner", "", (("x-amz-expected-bucket-owner", "000000000000"),)),
    ("payer", "", (("x-amz-request-payer", "requester"),)),
    ("accept", "", (("Accept", "application/json"),)),
    ("expect", "", (("Expect", "100-continue"),)),
    ("forwarded", "", (("X-Forwarded-Host", "other.s3.localhost"), ("X-Original-URL", "/lake/$lake_secret_a"))),
    ("no-store", "", (("Cache-Control", "no-store"),)),
    ("no-cache", "", (("Cache-Control", "no-cache"),)),
    ("max-age", "", (("Cache-Control", "max-age=0"),)),
    ("max-age-huge", "", (("Cache-Control", "max-age=99999999999999999999"),)),
    ("only-if-cached", "", (("Cache-Control", "only-if-cached"),)),
    ("cache-control-many", "", (("Cache-Control", "max-age=1, max-age=2, no-cache=\"x, y\", min-fresh=-1"),)),
    ("pragma", "", (("Pragma", "no-cache"),)),
    ("api-version", "", (("x-amz-api-version", "2006-03-01"),)),
    ("snowball", "", (("x-amz-meta-a", "b"),)),
    ("trace", "", (("traceparent", "00-00000000000000000000000000000001-0000000000000001-01"),)),
]  # fmt: skip


def cold_reads():
    found = []
    for trick, query, headers in READS:
        for place, path in (("there", PUB), ("absent", ABSENT), ("big", "/lake/$lake_pub_big"), ("versioned", "/vers/$vers_pub_v")):
            for method in ("GET", "HEAD"):
                if method == "HEAD" and place in ("big", "versioned"):
                    continue
                request = Request(method, path, query, list(headers))
                name = f"cold-{method.lower()}-{place}-{trick}"
                found.append(Attack(FAMILY, name, "pub-reader", flow=reading(request, request)))
    return found


# --- 10. two names that an origin could take for one: a write of the one, then a read of the other

LONG = "n" * 200
ALIASES = [
    ("folder", "pub/n", "pub/n/"),
    ("folder-of-minio", "pub/n/", "pub/n__XLDIR__"),
    ("folder-of-minio-deep", "pub/m/n/", "pub/m/n__XLDIR__"),
    ("folder-of-minio-both", "pub/n__XLDIR__", "pub/n__XLDIR__/"),
    ("not-utf-8", "pub/%ff", "pub/%fe"),
    ("not-utf-8-replaced", "pub/%ff", "pub/%ef%bf%bd"),
    ("surrogate-replaced", "pub/%ed%a0%80", "pub/%ef%bf%bd%ef%bf%bd%ef%bf%bd"),
    ("surrogate-question-mark", "pub/%ed%a0%80", "pub/%3f"),
    ("question-mark", "pub/%ff", "pub/%3f"),
    ("overlong", "pub/n", "pub/%c1%ae"),
    ("plus-and-space", "pub/a+b", "pub/a%20b"),
    ("plus-encoded", "pub/a%2bb", "pub/a%20b"),
    ("composed", "pub/%c3%a9", "pub/e%cc%81"),
    ("case", "pub/n", "pub/N"),
    ("dot-behind", "pub/n", "pub/n."),
    ("space-behind", "pub/n", "pub/n%20"),
    ("space-first", "pub/n", "pub/%20n"),
    ("tab-behind", "pub/n", "pub/n%09"),
    ("line-behind", "pub/n", "pub/n%0a"),
    ("nul-behind", "pub/n", "pub/n%00"),
    ("nul-and-more", "pub/n", "pub/n%00x"),
    ("backslash", "pub/m/n", "pub/m%5cn"),
    ("parameter", "pub/n", "pub/n;x=1"),
    ("parameter-encoded", "pub/n", "pub/n%3bx=1"),
    ("session", "pub/n", "pub/n;jsessionid=1"),
    ("query", "pub/n", "pub/n%3fx=1"),
    ("version-in-key", "pub/n", "pub/n%3fversionId=null"),
    ("number-sign", "pub/n", "pub/n%23x"),
    ("double-encoded", "pub/n", "pub/%256e"),
    ("double-encoded-slash", "pub/m/n", "pub/m%252fn"),
    ("wide-slash", "pub/m/n", "pub/m%ef%bc%8fn"),
    ("zero-width", "pub/n", "pub/n%e2%80%8b"),
    ("mark", "pub/n", "pub/%ef%bb%bfn"),
    ("long", f"pub/{LONG}", f"pub/{LONG}n"),
    ("very-long", "pub/" + f"{LONG}/" * 4 + "a", "pub/" + f"{LONG}/" * 4 + "a/"),
    ("entity", "pub/n&amp;", "pub/n&"),
    ("quotes", "pub/%22n%22", "pub/n"),
    ("three-dots", "pub/.../n", "pub/n"),
    ("dot-file", "pub/.n", "pub/n"),
    ("data-of-minio", "pub/n", "pub/n/xl.meta"),
    ("tilde", "pub/~n", "pub/%7en"),
    ("percent", "pub/%25", "pub/%2525"),
    ("slash-twice", "pub/n", "pub//n"),
    ("dot", "pub/n", "pub/./n"),
    ("slash-first", "pub/n", "/pub/n"),
    ("below", "pub/n/", "pub/n/k"),
    ("below-deep", "pub/n/", "pub/n/k/l/m"),
    ("above", "pub/n/k/", "pub/n"),
]  # fmt: skip
# How the second name is changed, with the keys by which; and how when the first was absent before.
CHANGES = (("put", ("all", "pub-both")), ("delete", ("all", "pub-both")), ("delete-list", ("all",)), ("copy", ("all",)))
BEGINNINGS = ("put", "multipart", "put-and-delete")


def asked(session, path):
    """A read by who may read everything; some origins sign another spelling of a path."""
    for signing in ("raw", "encoded"):
        request = Request("GET", path, signing=Signing(path=signing))
        answer = session.send(request.encode(session.address, session.key), "GET")
        if answer.status != 403:
            break
    return answer


def same_as_origin(actor, *names):
    for name in names:
        path = f"/lake/{name}"
        # In one spelling: s3proxy takes a plus for a space.
        here, there = asked(actor.gateway.session, path), asked(actor.world.root, reencoded(path))
        is_wrong = here.status == 200 and (there.status != 200 or here.body != there.body)
        if is_wrong or (here.status == 404 and there.status == 200):
            x_cache = here.header("x-cache")
            actor.complaints.append(f"stale: {path} is {here} ({x_cache}) {here.body[:30]!r}, the origin says {there} {there.body[:30]!r}")


def change(actor, how, name):
    path = f"/lake/{name}"
    if how == "put":
        actor.send(put(path, OTHER))
    elif how == "delete":
        actor.send(delete(path))
    elif how == "delete-list":
        actor.send(deletion(document_name(name)))
    elif how == "copy":
        actor.send(put(path, b"", ("x-amz-copy-source", "lake/$lake_pub_b")))
    elif how == "put-and-delete":
        actor.send(put(path, OTHER))
        actor.send(delete(path))
    else:
        begun = actor.send(post(path, "uploads="))
        if begun.status != 200:
            return
        upload = begun.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
        upload = urllib.parse.quote(upload, safe="")
        part = actor.send(put(path, OTHER, query=f"partNumber=1&uploadId={upload}"))
        etag = (part.header("etag") or "").strip('"')
        body = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        actor.send(post(path, f"uploadId={upload}", body.encode()))


def aliased(kept, changed, how, begins_absent):
    def flow(actor):
        if not begins_absent:
            actor.send(put(f"/lake/{kept}", NEW if not kept.endswith("/") else b""))
        for name in (kept, changed, kept):
            actor.send(get(f"/lake/{name}"))
        change(actor, how, changed)
        same_as_origin(actor, kept, changed)
        if not begins_absent:
            actor.send(delete(f"/lake/{kept}"))
            same_as_origin(actor, changed, kept)

    return flow


def aliases():
    found = []
    for trick, one, other in ALIASES:
        for how, keys in CHANGES:
            found += [Attack(FAMILY, f"alias-{how}-{trick}", key, flow=aliased(one, other, how, False)) for key in keys]
        for how in BEGINNINGS:
            found.append(Attack(FAMILY, f"alias-absent-{how}-{trick}", "all", flow=aliased(one, other, how, True)))
        found.append(Attack(FAMILY, f"alias-reversed-{trick}", "all", flow=aliased(other, one, "put", False)))
        found.append(Attack(FAMILY, f"alias-reversed-delete-{trick}", "all", flow=aliased(other, one, "delete", False)))
    return found


# --- 11. signatures that belong to something else


def moved(path, query=""):
    """Signed for an object that the key may read, sent for another."""
    return get(PUB, target=path + (f"?{query}" if query else ""))


def edited(old, new):
    return lambda encoded: encoded.replace(old, new, 1)


def authorization(value):
    return get(SECRET, signing=Signing(where="none"), unsigned=[("Authorization", value), ("x-amz-date", "20300101T000000Z")])


def two_signatures(actor):
    """One of a key that may, one of a key that there is none of the right for."""
    for first, second in (("pub-reader", "all"), ("all", "pub-reader")):
        one = actor.encoded(get(SECRET), actor.key("pub-reader")).decode("latin-1")
        lines = [line for line in one.split("\r\n") if line.lower().startswith("authorization:")]
        named = [line.replace("key-pub-reader", f"key-{name}") for line, name in ((lines[0], first), (lines[0], second))]
        answer = actor.send_bytes(one.replace(lines[0], "\r\n".join(named)).encode("latin-1"))
        actor.expect(answer, REFUSED_OR_CLOSED)


def other_key_in_scope(actor):
    """Signed with the secret of one key and the name of another."""
    for name in ("all", "lake-owner", "", "key-all/x", "KEY-ALL", "key-all ", "key-all%00"):
        encoded = actor.encoded(get(SECRET)).replace(b"Credential=key-pub-reader", b"Credential=" + (f"key-{name}" if name in ("all", "lake-owner") else name).encode())
        actor.expect(actor.send_bytes(encoded), REFUSED_OR_CLOSED)


def both_places(actor):
    """A right signature of the query for one object, and one of the header for another."""
    encoded = actor.encoded(get(PUB, signing=QUERY)).decode("latin-1")
    target = encoded.split(" ")[1]
    forged = encoded.replace(target, target.replace(actor.substituted("$lake_pub_a"), actor.substituted("$lake_secret_a")))
    header = actor.encoded(get(PUB)).decode("latin-1").split("\r\n")
    extra = [line for line in header if line.lower().startswith(("authorization", "x-amz"))]
    answer = actor.send_bytes(forged.replace("\r\n\r\n", "\r\n" + "\r\n".join(extra) + "\r\n\r\n").encode("latin-1"))
    actor.expect(answer, REFUSED_OR_CLOSED)


def other_body(actor):
    """The signature of one body with another."""
    for body in (OTHER, NEW + b"x", b"", NEW[:-1]):
        request = put("/lake/pub/other-body", NEW, wire_body=body)
        actor.expect(actor.send(request), REFUSED_OR_CLOSED | {500, 503}, "another body")
    there = asked(actor.world.root, "/lake/pub/other-body")
    if there.status == 200:
        actor.complaints.append(f"a body that was not signed was stored: {there.body[:40]!r}")


def chunked(actor):
    """Chunks that are signed wrongly, left out, or longer than they say."""
    size = f"{len(NEW):x}".encode()
    bodies = {
        "wrong": size + b";chunk-signature=" + b"0" * 64 + b"\r\n" + NEW + b"\r\n0;chunk-signature=" + b"0" * 64 + b"\r\n\r\n",
        "none": size + b"\r\n" + NEW + b"\r\n0\r\n\r\n",
        "empty": b"0;chunk-signature=" + b"0" * 64 + b"\r\n\r\n",
        "huge": b"ffffffffffffffff;chunk-signature=" + b"0" * 64 + b"\r\n" + NEW,
        "negative": b"-1;chunk-signature=" + b"0" * 64 + b"\r\n" + NEW,
    }
    for payload in ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"):
        for body in bodies.values():
            headers = [("Content-Encoding", "aws-chunked"), ("x-amz-decoded-content-length", str(len(NEW)))]
            request = Request("PUT", "/lake/pub/chunked", "", headers, body, signing=Signing(payload=payload))
            actor.expect(actor.send(request), REFUSED_OR_CLOSED | {500, 503}, payload)
    if asked(actor.world.root, "/lake/pub/chunked").status == 200:
        actor.complaints.append("chunks with wrong signatures were stored")


def trailers(actor):
    """Trailers that are headers of the request to some origins."""
    body = f"{len(NEW):x}".encode() + b"\r\n" + NEW + b"\r\n0\r\n"
    for name, value in (
        ("x-amz-copy-source", "lake/$lake_secret_a"),
        ("x-amz-meta-snowball-auto-extract", "true"),
        ("x-amz-acl", "public-read-write"),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-checksum-crc32\r\nx-amz-acl", "public-read"),
    ):
        for announced in (name, "x-amz-checksum-crc32", ""):
            headers = [("Content-Encoding", "aws-chunked"), ("x-amz-decoded-content-length", str(len(NEW)))]
            headers += [("x-amz-trailer", announced.split("\r")[0])] if announced else []
            tail = actor.substituted(f"{name}:{value}\r\n\r\n").encode()
            request = Request("PUT", "/lake/pub/trailed", "", headers, body + tail, signing=Signing(payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER"))
            actor.send(request)


SIGNATURES = [
    ("moved", moved(SECRET)),
    ("moved-in-query", get(PUB, signing=QUERY, target=SECRET)),
    ("moved-absolute", moved(f"http://lake.s3.localhost{SECRET}")),
    ("moved-host-of-target", get(PUB, target="http://other.s3.localhost/$other_secret_a")),
    ("moved-case", moved("/lake/SECRET/$secret_leaf")),
    ("moved-query", moved(PUB, "acl")),
    ("moved-more-query", moved("/lake", "list-type=2&prefix=")),
    ("scope-region", get(SECRET, signing=Signing(region="us-west-2"))),
    ("scope-region-empty", get(SECRET, signing=Signing(region=""))),
    ("scope-region-star", get(SECRET, signing=Signing(region="*"))),
    ("scope-service", get(SECRET, signing=Signing(service="sts"))),
    ("scope-service-express", get(SECRET, signing=Signing(service="s3express"))),
    ("scope-date", get(SECRET, signing=Signing(scope_date="20200101"))),
    ("scope-date-empty", get(SECRET, signing=Signing(scope_date=""))),
    ("late", get(SECRET, signing=Signing(skew=-3600))),
    ("early", get(SECRET, signing=Signing(skew=3600))),
    ("late-url", get(SECRET, signing=Signing(where="query", skew=-900, expires="300"))),
    ("expires-none", get(SECRET, signing=Signing(where="query", expires=None))),
    ("expires-zero", get(SECRET, signing=Signing(where="query", expires="0", skew=-5))),
    ("expires-negative", get(SECRET, signing=Signing(where="query", expires="-1"))),
    ("expires-long", get(SECRET, signing=Signing(where="query", expires="604801"))),
    ("expires-huge", get(SECRET, signing=Signing(where="query", expires="99999999999999999999"))),
    ("expires-text", get(SECRET, signing=Signing(where="query", expires="1e3"))),
    ("expires-plus", get(SECRET, signing=Signing(where="query", expires="%2B300"))),
    ("expires-early", get(SECRET, signing=Signing(where="query", skew=3600))),
    ("names-empty", get(SECRET, signing=Signing(names=()))),
    ("names-without-host", get(SECRET, signing=Signing(names=("x-amz-date",)))),
    ("names-without-date", get(SECRET, signing=Signing(names=("host",)))),
    ("names-upper-case", get(SECRET, signing=Signing(names=("Host", "X-Amz-Date", "X-Amz-Content-Sha256")))),
    ("names-twice", get(SECRET, signing=Signing(names=("host", "host", "x-amz-content-sha256", "x-amz-date")))),
    ("names-absent", get(SECRET, signing=Signing(names=("host", "x-amz-content-sha256", "x-amz-date", "x-not-there")))),
    ("forged-zeros", get(SECRET, signing=Signing(forge=lambda signature: "0" * 64))),
    ("forged-empty", get(SECRET, signing=Signing(forge=lambda signature: ""))),
    ("forged-upper-case", get(SECRET, signing=Signing(forge=str.upper))),
    ("forged-shorter", get(SECRET, signing=Signing(forge=lambda signature: signature[:32]))),
    ("forged-longer", get(SECRET, signing=Signing(forge=lambda signature: signature + "00"))),
    ("v2", get(SECRET, signing=Signing(where="v2"))),
    ("scheme-case", get(SECRET, edit=edited(b"AWS4-HMAC-SHA256 Credential", b"aws4-hmac-sha256 Credential"))),
    ("scheme-asymmetric", get(SECRET, edit=edited(b"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256-SHA256"))),
    ("scheme-sha-512", get(SECRET, edit=edited(b"AWS4-HMAC-SHA256", b"AWS4-HMAC-SHA512"))),
    ("basic", authorization("Basic a2V5LWFsbDo=")),
    ("bearer", authorization("Bearer x")),
    ("empty", authorization("")),
    ("anonymous-principal", authorization("AWS4-HMAC-SHA256 Credential=/20300101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=")),
    ("no-parts", authorization("AWS4-HMAC-SHA256")),
    ("commas", authorization("AWS4-HMAC-SHA256 ,,,,=,=,Credential=,SignedHeaders=,Signature=")),
    ("jwt", authorization("Bearer eyJhbGciOiJub25lIn0.e30.")),
    ("v2-query", get(SECRET, "AWSAccessKeyId=key-all&Expires=9999999999&Signature=AAAA", signing=Signing(where="none"))),
    ("token-only", get(SECRET, "X-Amz-Security-Token=x", signing=Signing(where="none"))),
    ("goog", get(SECRET, "X-Goog-Algorithm=GOOG4-HMAC-SHA256&X-Goog-Credential=key-all&X-Goog-Signature=00", signing=Signing(where="none"))),
    ("anonymous-list", get("/lake", "list-type=2&prefix=pub/", signing=Signing(where="none"))),
    ("anonymous-put", put("/lake/pub/anonymous", NEW, signing=Signing(where="none"))),
    ("anonymous-options", Request("OPTIONS", PUB, "", [("Origin", "http://x"), ("Access-Control-Request-Method", "GET")], signing=Signing(where="none"))),
]  # fmt: skip
# The tables above aim at what `signature` aims at, so that the report does not say of each that it ended there.
SIGNED = [
    *rows("signature", "pub-reader", [(f"fresh-{trick}", request) for trick, request in SIGNATURES], expects=REFUSED_OR_CLOSED),
    *rows("signature", "reader", [(f"fresh-{trick}", request) for trick, request in SIGNATURES if trick.startswith(("scope", "late", "early", "expires", "names-w", "names-e", "forged-z", "forged-e", "forged-s", "v2", "scheme-s", "basic", "bearer", "empty", "anonymous"))], expects=REFUSED_OR_CLOSED, rights="nothing"),
    Attack("signature", "fresh-two-signatures", "pub-reader", flow=two_signatures),
    Attack("signature", "fresh-other-key-in-scope", "pub-reader", flow=other_key_in_scope),
    Attack("signature", "fresh-both-places", "pub-reader", flow=both_places),
    Attack("signature", "fresh-other-body", "pub-both", flow=other_body),
    Attack("signature", "fresh-chunked", "pub-both", flow=chunked),
    Attack("signature", "fresh-trailers", "pub-both", flow=trailers),
]  # fmt: skip

# --- 12. forms, as browsers send them


def form(actor, path, host, key_name, target, extra=()):
    """A POST form whose policy is signed rightly; it must not be taken, or be judged as a PUT."""
    key = actor.key(key_name)
    signer = wire.Signer(get("/"), key, "x")
    conditions = {"expiration": "2099-01-01T00:00:00Z", "conditions": [{"bucket": "lake"}, ["starts-with", "$key", ""]]}
    policy = base64.b64encode(json.dumps(conditions).encode()).decode()
    signature = wire.mac(signer.signing_key(), policy).hex()
    fields = [("key", target), ("policy", policy), ("x-amz-algorithm", "AWS4-HMAC-SHA256"), ("x-amz-credential", f"{key.access_key}/{signer.scope}"), ("x-amz-date", signer.time), ("x-amz-signature", signature), *extra]
    parts = "".join(f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields)
    body = parts + '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nforged\r\n--b--\r\n'
    for where in ("none", "header"):
        request = Request("POST", path, "", [("Content-Type", "multipart/form-data; boundary=b")], body.encode(), host=host, signing=Signing(where=where))
        actor.send(request)


FORMS = [
    Attack(FAMILY, f"form-{word}-{trick}", key, flow=lambda actor, path=path, host=host, key=key, target=target, extra=extra: form(actor, path, host, key, target, extra))
    for word, path, host in (("path", "/lake", None), ("slash", "/lake/", None), ("host", "/", "lake.s3.localhost"), ("root", "/", None), ("object", PUB, None))
    for trick, target, extra in (
        ("secret", "$lake_secret_a", ()),
        ("file-name", "secret/${filename}", ()),
        ("acl", "pub/form", (("acl", "public-read-write"),)),
        ("redirect", "pub/form", (("success_action_redirect", "http://evil.example"),)),
    )
    for key in ("pub-both", "reader")
]  # fmt: skip

# --- 13. interfaces of origins, where the first word of a path is no bucket

INTERFACES = [
    "/minio/admin/v3/info", "/minio/admin/v3/export-iam", "/minio/admin/v3/list-users", "/minio/v2/metrics/cluster",
    "/minio/metrics/v3/cluster", "/minio/prometheus/metrics", "/minio/health/live", "/minio/kms/v1/status",
    "/minio/admin/v3/config", "/minio/admin/v3/accountinfo", "/minio/admin/v3/service", "/minio/bootstrap/v1/verify",
    "/list-users", "/list-buckets", "/create-user", "/healthz", "/health", "/statusz", "/version", "/status",
]  # fmt: skip
SHAPES = [
    ("plain", lambda path: get(path)),
    ("post", lambda path: post(path, "", b"x")),
    ("patch", lambda path: Request("PATCH", path)),
    ("put", lambda path: put(path, b"x")),
    ("delete", lambda path: delete(path)),
    ("slash-first", lambda path: get("/" + path)),
    ("encoded", lambda path: get(path.replace("/", "%2F").replace("%2F", "/", 1))),
    ("dot", lambda path: get("/." + path)),
    ("from-a-bucket", lambda path: get("/lake/.." + path)),
    ("host", lambda path: get("/" + "/".join(path.split("/")[2:]), host=path.split("/")[1] + ".s3.localhost")),
    ("location", lambda path: get(path, "location")),
    ("list", lambda path: get(path, "list-type=2&prefix=pub/")),
    ("copy", lambda path: put("/lake/pub/copied", b"", ("x-amz-copy-source", path))),
    ("presigned", lambda path: get(path, signing=QUERY)),
    ("range", lambda path: get(path, "", ("Range", "bytes=0-9"))),
]


def interfaces():
    table = [(f"interface-{shape}-{path.strip('/').replace('/', '-')}", made(path)) for path in INTERFACES for shape, made in SHAPES]
    return [*crossed("not-secret", table), *crossed("minio-reader", table[::4]), *crossed("minio-writer", table[1::4])]


# --- 14. where origins keep their own notes within a bucket: parts of uploads that the key may not read, and records of them


def notes_of_versitygw(actor):
    folder = ".sgwtmp/multipart/" + hashlib.sha256(actor.world.names["lake_secret_a"].encode()).hexdigest() + "/"
    for prefix in (".sgwtmp/multipart/", folder, folder + "$up_secret/"):
        actor.send(get("/lake", f"list-type=2&prefix={prefix}"))
    read_and_written(actor, [f"{folder}$up_secret/1"])


def notes_of_s3proxy(actor):
    for prefix in (".mpus-", ".mpus-$up_secret-secret/"):
        actor.send(get("/lake", f"list-type=2&prefix={prefix}"))
    read_and_written(actor, [".mpus-$up_secret-$lake_secret_a-1", ".mpus-$up_secret-$lake_secret_a-stub", "$up_secret"])


def read_and_written(actor, names):
    for name in names:
        answer = actor.send(get(f"/lake/{name}"))
        if b"part-up_secret" in answer.body:
            actor.complaints.append(f"told: {name} has the bytes of an upload of a name that is forbidden")
        if actor.attack.key == "not-secret":
            actor.send(put(f"/lake/{name}", OTHER))
            actor.send(delete(f"/lake/{name}"))


def forged_upload(actor):
    """A record of an upload whose id is the name of an object: s3proxy removes what is called as the upload."""
    victim = "secret/" + "v" * 29
    actor.world.root.call("PUT", f"/lake/{victim}", body=OTHER)
    actor.send(put(f"/lake/.mpus-{victim}-pub/forged-stub", b""))
    actor.send(delete("/lake/pub/forged", f"uploadId={victim}"))
    actor.send(post("/lake/pub/forged", f"uploadId={victim}", b"<CompleteMultipartUpload/>"))
    if asked(actor.world.root, f"/lake/{victim}").status != 200:
        actor.complaints.append(f"changed: {victim} was removed by the abort of a forged upload")
    actor.world.root.call("DELETE", f"/lake/{victim}")
    actor.world.root.call("DELETE", f"/lake/.mpus-{victim}-pub/forged-stub")


def folder_of_minio(actor):
    """MinIO keeps the object `secret/` under another name, and takes that name, too."""
    if actor.world.origin.name != "minio":
        # Elsewhere it is a name as any other, and a folder that was made for this would stay.
        actor.send(get("/lake/secret__XLDIR__"))
        return
    marker = "folder-" + actor.world.names["secret_leaf"]
    actor.world.root.call("PUT", "/lake/secret/", headers=[("x-amz-meta-note", marker)])
    before = asked(actor.world.root, "/lake/secret/").header("last-modified")
    name = "/lake/secret__XLDIR__"
    for request in (get(name), head(name), get(name, "tagging="), get("/lake", "list-type=2&prefix=secret__XLDIR__")):
        if marker.encode() in actor.send(request).raw:
            actor.complaints.append("told: the metadata of lake/secret/")
    if actor.attack.key == "not-secret":
        actor.send(put(name, TAGS, query="tagging="))
        if b"forged" in actor.world.root.call("GET", "/lake/secret/", "tagging=").body:
            actor.complaints.append("changed: the tags of lake/secret/")
        actor.send(delete(name))
        after = asked(actor.world.root, "/lake/secret/")
        if before and (after.status != 200 or after.header("last-modified") != before):
            actor.complaints.append(f"changed: lake/secret/ is {after}")
    actor.world.root.call("DELETE", "/lake/secret/")


NOTES = [
    Attack(FAMILY, f"notes-{word}", key, flow=flow, needs=needs)
    for word, flow, needs in (
        ("of-versitygw", notes_of_versitygw, frozenset({"uploads"})),
        ("of-s3proxy", notes_of_s3proxy, frozenset({"uploads"})),
        ("forged-upload", forged_upload, frozenset({"uploads"})),
        ("folder-of-minio", folder_of_minio, frozenset()),
    )
    for key in ("not-secret", "read-not-secret")
]

# --- 15. the admin endpoint

ORDERS = ("/cache/off", "/cache/purge", "/cache/pin", "/cache/unpin", "/cache/warm")
EVIL_HOSTS = (
    "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:80", "evil-localhost", "localhostx",
    "127.0.0.1@evil.example", "evil.example.", "xn--localhost", "metadata", "a.localhost.b", "127.0.0.1, evil.example", "evil.example, 127.0.0.1",
    "127.0.0.1 evil.example", "[::1].evil.example", "0x7f.evil.example", "[::1]evil.example", "127.0.0.1:80:evil.example", "127.0.0.1/evil.example", "1.evil",
)  # fmt: skip
OF_PAGES = [
    ("origin", [("Origin", "http://evil.example")]),
    ("origin-null", [("Origin", "null")]),
    ("origin-empty", [("Origin", "")]),
    ("origin-of-itself", [("Origin", "http://127.0.0.1")]),
    ("origin-upper-case", [("ORIGIN", "http://evil.example")]),
    ("origin-twice", [("Origin", "http://127.0.0.1"), ("Origin", "http://evil.example")]),
    ("fetch", [("Sec-Fetch-Site", "cross-site")]),
    ("fetch-same", [("Sec-Fetch-Site", "same-origin")]),
    ("fetch-none", [("Sec-Fetch-Site", "none")]),
    ("fetch-case", [("sec-fetch-site", "cross-site")]),
]


def ordered(requests, statuses=REFUSED_OR_CLOSED):
    """Orders that must be refused, and change nothing of what the cache does."""

    def flow(actor):
        for request in requests:
            actor.expect(actor.send(request, None, "admin"), statuses, request.path)
        warm = [asked(actor.gateway.session, actor.substituted(PUB)) for _ in range(2)]
        if warm[-1].header("x-cache") != "HIT":
            actor.complaints.append(f"the cache answers {warm[-1].header('x-cache')}")
            # The next attack finds it as this one did.
            actor.send(post("/cache/on", signing=Signing(where="none")), None, "admin")

    return flow


def admin():
    unsigned = Signing(where="none")
    found = []
    for host in EVIL_HOSTS:
        orders = [Request("POST", path, body=b"lake/\t*\n", host=host, signing=unsigned) for path in ORDERS]
        looks = [get(path, host=host, signing=unsigned) for path in ("/stats", "/metrics", "/readyz")]
        found.append(Attack(FAMILY, f"admin-orders-host-{host}", "nothing", flow=ordered(orders)))
        found.append(Attack(FAMILY, f"admin-looks-host-{host}", "nothing", flow=ordered(looks)))
    for trick, headers in OF_PAGES:
        orders = [Request("POST", path, "", headers, b"lake/\t*\n", signing=unsigned) for path in ORDERS]
        found.append(Attack(FAMILY, f"admin-page-{trick}", "nothing", flow=ordered(orders)))
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "post", "TRACE"):
        orders = [Request(method, path, "", [("X-HTTP-Method-Override", "POST")], b"", signing=unsigned) for path in ORDERS]
        found.append(Attack(FAMILY, f"admin-method-{method}", "nothing", flow=ordered(orders)))
    for path in ("//cache/off", "/cache//off", "/cache/off/", "/cache/OFF", "/cache/%6fff", "/cache%2foff", "/./cache/off", "/x/../cache/off", "/cache/off;x", "/cache/off%00", "/lake/" + "x", SECRET, PUB, "/minio/admin/v3/info", "/../../etc/passwd", "/debug/pprof/", "/cache/"):
        found.append(Attack(FAMILY, f"admin-path-{path}", "nothing", flow=ordered([Request("POST", path, signing=unsigned), get(path, signing=unsigned)])))
    two = [post("/cache/off", signing=unsigned, unsigned=[("Host", "evil.example")]), post("/cache/off", host="", signing=unsigned), post("/cache/off", target="http://evil.example/cache/off", signing=unsigned)]
    found.append(Attack(FAMILY, "admin-two-hosts", "nothing", flow=ordered(two)))
    # The endpoint of the clients has none of it.
    for path in ("/cache/purge", "/cache/off", "/metrics", "/stats", "/healthz", "/readyz", "/cache/warm"):
        for method in ("GET", "POST"):
            found += crossed("pub-both", [(f"endpoint-{method}-{path}", Request(method, path, body=b"lake/\t*\n" if method == "POST" else b""))], expects=REFUSED)
            found += crossed(None, [(f"endpoint-{method}-{path}", Request(method, path, body=b"lake/\t*\n" if method == "POST" else b""))], expects=DENIED | {400, 401})
    return found


# --- 16. what an answer tells of a name, to who may only write


def twins():
    path = "/lake/$t"
    requests = [
        ("put", [put(path, NEW)]),
        ("delete", [delete(path)]),
        ("delete-with-size", [delete(path, "", ("x-amz-if-match-size", "1"))]),
        ("delete-with-time", [delete(path, "", ("x-amz-if-match-last-modified-time", "Mon, 01 Jan 1990 00:00:00 GMT"))]),
        ("if-none-match", [put(path, NEW, ("If-None-Match", "*"))]),
        ("if-none-match-presigned", [put(path, NEW, query="If-None-Match=%2A", signing=QUERY)]),
        ("if-match", [put(path, NEW, ("If-Match", '"x"'))]),
        ("if-modified", [put(path, NEW, ("If-Modified-Since", "Mon, 01 Jan 1990 00:00:00 GMT"))]),
        ("if-unmodified", [put(path, NEW, ("If-Unmodified-Since", "Mon, 01 Jan 1990 00:00:00 GMT"))]),
        ("if-range", [put(path, NEW, ("If-Range", '"x"'))]),
        ("offset", [put(path, NEW, ("x-amz-write-offset-bytes", "0"))]),
        ("content-range", [put(path, NEW, ("Content-Range", "bytes 0-19/20"))]),
        ("get", [get(path)]),
        ("head", [head(path)]),
        ("options", [Request("OPTIONS", path, "", [("Origin", "http://x"), ("Access-Control-Request-Method", "GET")])]),
        ("begin-and-nothing", [post(path, "uploads=", b"", ("If-None-Match", "*"))]),
        ("abort-unknown", [delete(path, "uploadId=00000000-0000-0000-0000-000000000000")]),
        ("parts-unknown", [get(path, "uploadId=00000000-0000-0000-0000-000000000000")]),
        ("complete-unknown", [post(path, "uploadId=00000000-0000-0000-0000-000000000000", b"<CompleteMultipartUpload/>")]),
        ("part-unknown", [put(path, NEW, query="partNumber=1&uploadId=00000000-0000-0000-0000-000000000000")]),
        ("version", [delete(path, "versionId=null")]),
        ("version-unknown", [delete(path, "versionId=00000000-0000-0000-0000-000000000000")]),
        ("tags", [put(path, TAGS, query="tagging=")]),
        ("copy-of-itself", [put(path, b"", ("x-amz-copy-source", path), ("x-amz-metadata-directive", "REPLACE"))]),
        ("delete-list", [deletion(b"<Delete><Object><Key>$t</Key></Object></Delete>")]),
        ("delete-list-etag", [deletion(b"<Delete><Object><Key>$t</Key><ETag>x</ETag></Object></Delete>")]),
        ("delete-list-quiet", [deletion(b"<Delete><Quiet>false</Quiet><Object><Key>$t</Key></Object></Delete>")]),
        ("wrong-digest", [put(path, NEW, ("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="))]),
        ("wrong-checksum", [put(path, NEW, ("x-amz-checksum-crc32", "AAAAAA=="))]),
        ("tagging-header", [put(path, NEW, ("x-amz-tagging", "a=b"))]),
        ("storage-class", [put(path, NEW, ("x-amz-storage-class", "WRONG"))]),
        ("owner", [put(path, NEW, ("x-amz-expected-bucket-owner", "000000000000"))]),
        ("sse-c", [put(path, NEW, ("x-amz-server-side-encryption-customer-algorithm", "AES256"))]),
    ]  # fmt: skip
    found = [Attack(FAMILY, f"twins-{trick}", "pub-writer", made, twins=("$lake_pub_a", "$no_pub")) for trick, made in requests]
    for key in ("nothing", "other-reader", "pub-both"):
        found += [Attack(FAMILY, f"twins-secret-{trick}", key, made, twins=("$lake_secret_a", "$no_secret")) for trick, made in requests]
    return found


ATTACKS = [
    *CONTROLS,
    *spellings("pub-both", OUT_OF_PUB, "out"),
    *spellings("not-secret", INTO_SECRET, "into"),
    *buckets(),
    *two_operations(),
    *crossed("pub-both", [(f"parameter-{trick}", request) for trick, request in PARAMETERS]),
    *as_parameters(),
    *dressed(),
    *lists(),
    *methods(),
    *cold_reads(),
    *aliases(),
    *SIGNED,
    *FORMS,
    *interfaces(),
    *NOTES,
    *admin(),
    *twins(),
]
