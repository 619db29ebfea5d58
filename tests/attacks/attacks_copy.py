"""Copy sources that the gateway and the origin read as different objects."""

import re

from attack import Attack, post, put

# What a copy source may look like that means `$s`: an object that the key may not read.
SPELLINGS = [
    ("plain", "/$s"),
    ("without-slash", "$s"),
    ("two-slashes", "//$s"),
    ("three-slashes", "///$s"),
    ("authority", "//lake/$s"),
    ("authority-pub", "//lake/pub/../../$s"),
    ("authority-port", "//lake:80/$s"),
    ("authority-user", "//u@lake/$s"),
    ("authority-user-and-port", "//u:p@lake:1/$s"),
    ("authority-empty-host", "//:80/$s"),
    ("three-slashes-authority", "///lake/$s"),
    ("slash-and-url", "/http://lake/$s"),
    ("scheme", "x:/$s"),
    ("scheme-of-the-bucket", "lake:/$s"),
    ("scheme-authority", "x://lake/$s"),
    ("scheme-http", "http://lake/$s"),
    ("scheme-http-address", "http://127.0.0.1/$s"),
    ("scheme-s3", "s3://$s"),
    ("scheme-opaque", "x:$s"),
    ("dots", "/lake/pub/../../$s"),
    ("dots-encoded", "/lake/pub/%2e%2e/%2e%2e/$s"),
    ("dots-slash-encoded", "/lake/pub/..%2f..%2f$s"),
    ("dots-twice-encoded", "/lake/pub/%252e%252e/%252e%252e/$s"),
    ("dot", "/./$s"),
    ("dots-first", "/../$s"),
    ("slash-encoded-first", "%2f$s"),
    ("slash-encoded-twice", "%252f$s"),
    ("backslash", "\\$s"),
    ("backslashes", "/lake\\pub\\..\\..\\$s"),
    ("backslash-encoded", "/lake/pub/..%5c..%5c$s"),
    ("arn", "arn:aws:s3:::$s"),
    ("arn-access-point", "arn:aws:s3:us-east-1:123456789012:accesspoint/lake/object/$s"),
    ("leading-space", " /$s"),
    ("leading-encoded-space", "%20/$s"),
    ("leading-tab", "\t/$s"),
    ("trailing-space", "/$s "),
    ("quoted", '"/$s"'),
    ("null-version", "/$s?versionId=null"),
    ("empty-version", "/$s?versionId="),
    ("query", "/lake/$lake_pub_a?versionId=null&/../../$s"),
    ("query-is-a-path", "/lake/$lake_pub_a?/../../$s"),
    ("query-other-parameter", "/$s?x=y"),
    ("query-encoded", "/$s%3FversionId=null"),
    ("query-twice", "/$s?versionId=null?versionId=null"),
    ("version-traversal", "/lake/$lake_pub_a?versionId=../../../$s"),
    ("fragment", "/$s#/lake/pub/"),
    ("fragment-behind-allowed", "/lake/$lake_pub_a#/../../$s"),
    ("fragment-encoded", "/$s%23"),
    ("nul", "/$s%00/lake/pub/"),
    ("nul-behind-allowed", "/lake/$lake_pub_a%00/../../$s"),
    ("comma", "/lake/$lake_pub_a,/$s"),
    ("semicolon", "/lake/$lake_pub_a;/../../$s"),
    ("plus", "/lake/pub/+/../../../$s"),
    ("broken-percent", "/lake/pub/%zz/../../../$s"),
    ("empty-segment", "/lake//../$s"),
]
# Header lines around the source: which of two counts, and whether it is a source at all.
PLACES = [
    ("twice-allowed-first", [("x-amz-copy-source", "/lake/$lake_pub_a"), ("x-amz-copy-source", "/$s")], []),
    ("twice-allowed-last", [("x-amz-copy-source", "/$s"), ("x-amz-copy-source", "/lake/$lake_pub_a")], []),
    ("empty-and-source", [("x-amz-copy-source", ""), ("x-amz-copy-source", "/$s")], []),
    ("upper-case", [("X-AMZ-COPY-SOURCE", "/$s")], []),
    ("underscores", [], [("x_amz_copy_source", "/$s")]),
    ("unsigned", [], [("x-amz-copy-source", "/$s")]),
    ("unsigned-beside-signed", [("x-amz-copy-source", "/lake/$lake_pub_a")], [("x-amz-copy-source", "/$s")]),
    ("google", [], [("x-goog-copy-source", "/$s")]),
    ("alibaba", [], [("x-oss-copy-source", "/$s")]),
    ("azure", [], [("x-ms-copy-source", "/$s")]),
    ("folded", [], [("x-amz-copy-source", "/lake/$lake_pub_a\r\n /../../$s")]),
    ("space-before-colon", [], [("x-amz-copy-source ", "/$s")]),
    ("connection-names-it", [("x-amz-copy-source", "/$s"), ("Connection", "close, x-amz-copy-source")], []),
]


def copy_of(source):
    return put("/lake/pub/copied", b"", ("x-amz-copy-source", source))


def part_copied(source):
    """The part alone cannot be read, so the upload is completed."""

    def flow(actor):
        begun = actor.send(post("/lake/pub/copied", "uploads="))
        found = re.search(rb"<UploadId>([^<]+)", begun.body)
        upload = found.group(1).decode() if found else "none"
        query = f"partNumber=1&uploadId={upload}"
        part = actor.send(put("/lake/pub/copied", b"", ("x-amz-copy-source", source), query=query))
        etag = re.search(rb"<ETag>(?:&#34;|&quot;|\")?([0-9a-f]+)", part.body)
        if part.status == 200 and etag:
            listed = f"<Part><PartNumber>1</PartNumber><ETag>{etag.group(1).decode()}</ETag></Part>"
            body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>"
            actor.send(post("/lake/pub/copied", f"uploadId={upload}", body.encode()))

    return flow




SECRET, OTHER = "lake/$lake_secret_a", "other/$other_secret_a"
ATTACKS = []
for trick, source in SPELLINGS:
    core = trick in ("authority", "authority-port", "authority-user", "scheme")
    for word, key, target in (("secret", "pub-both", SECRET), ("other", "lake-owner", OTHER), ("other", "not-other", OTHER), ("secret", "not-secret", SECRET)):
        name, spelling = f"{word}-{trick}", source.replace("$s", target)
        ATTACKS.append(Attack("copy", name, key, [copy_of(spelling)], is_core=core))
        if key in ("pub-both", "lake-owner"):
            ATTACKS.append(Attack("copy", f"part-{name}", key, flow=part_copied(spelling), needs=frozenset({"uploads"}), is_core=core))
for trick, headers, unsigned in PLACES:
    fill = lambda pairs: [(name, value.replace("$s", SECRET)) for name, value in pairs]  # noqa: E731
    request = put("/lake/pub/copied", b"", *fill(headers), unsigned=fill(unsigned))
    ATTACKS.append(Attack("copy", f"header-{trick}", "pub-both", [request]))
    presigned = put("/lake/pub/copied", b"", query="x-amz-copy-source=%2F" + SECRET.replace("/", "%2F"))
ATTACKS.append(Attack("copy", "source-in-the-query", "pub-both", [presigned]))
ATTACKS += [
    Attack("copy", "version-of-a-secret", "pub-both", [put("/vers/pub/copied", b"", ("x-amz-copy-source", "/vers/$vers_secret_v?versionId=$old_secret"))]),
    Attack("copy", "version-of-a-secret-on-an-allowed-name", "pub-both", [put("/vers/pub/copied", b"", ("x-amz-copy-source", "/vers/$vers_pub_v?versionId=$old_secret"))]),
    Attack("copy", "two-versions", "pub-both", [put("/vers/pub/copied", b"", ("x-amz-copy-source", "/vers/$vers_pub_v?versionId=$new_pub&versionId=$old_secret"))]),
    Attack("copy", "write-only-onto-itself", "pub-writer", [put("/lake/$lake_pub_a", b"", ("x-amz-copy-source", "/lake/$lake_pub_a"), ("x-amz-metadata-directive", "REPLACE"))], frozenset({403})),
    Attack("copy", "rename-of-a-secret", "pub-both", [put("/lake/pub/renamed", b"", ("x-amz-rename-source", "/lake/$lake_secret_a"), query="renameObject=")]),
    Attack("copy", "rename-of-a-secret-relative", "pub-both", [put("/lake/pub/renamed", b"", ("x-amz-rename-source", "$lake_secret_a"), query="renameObject=")]),
    Attack("copy", "rename-by-webdav", "pub-both", [put("/lake/$lake_pub_a", b"", ("Destination", "/lake/$lake_secret_a"), ("X-HTTP-Method-Override", "MOVE"))]),
    Attack("copy", "source-on-begin", "pub-both", [post("/lake/pub/copied", "uploads=", b"", ("x-amz-copy-source", "/lake/$lake_secret_a"))]),
    Attack("copy", "source-on-append", "pub-both", [put("/lake/$lake_pub_a", b"x", ("x-amz-copy-source", "/lake/$lake_secret_a"), ("x-amz-write-offset-bytes", "270"))]),
    Attack("copy", "source-with-a-body", "pub-both", [put("/lake/pub/copied", b"x", ("x-amz-copy-source", "/lake/$lake_secret_a"))]),
    Attack("copy", "source-with-tagging-subresource", "pub-both", [put("/lake/$lake_pub_a", b"<Tagging><TagSet/></Tagging>", ("x-amz-copy-source", "/lake/$lake_secret_a"), query="tagging=")]),
    Attack("copy", "range-of-a-secret", "pub-both", flow=part_copied("/lake/$lake_secret_a?range=0-10")),
]  # fmt: skip
