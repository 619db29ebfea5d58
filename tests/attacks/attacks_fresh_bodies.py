"""Documents, sources of copies, uploads, conditions and the wire, each trick with each kind of key; and writes that
are followed by the read that was cached before.

`fresh-bodies` runs once, `fresh-stale` under every freshness. What is named `control` must work: it shows that the
same request is served to a key that has the right.
"""

import base64
import contextlib
import hashlib
import re
import socket
import threading
import time
import zlib

import judge
import wire
import world as worlds
from attack import DIGEST, REFUSED_OR_CLOSED, Attack, Request, delete, get, head, post, put
from wire import Signing

NEW = b"written by an attack"
PUB, OWN, SECRET, ABSENT = "/lake/$lake_pub_a", "/lake/pub/own", "/lake/$lake_secret_a", "/lake/$no_pub"
OK = frozenset({200, 204})
BUILT = []


def attack(trick, key, requests=None, **more):
    """Adds an attack of the family that looks at rights."""
    requests = requests if isinstance(requests, list) or requests is None else [requests]
    BUILT.append(Attack(more.pop("family", "fresh-bodies"), trick, key, requests or [], **more))


# --- 1. DeleteObjects: what is judged must be what the origin reads


def document(objects, before=b"", root="Delete"):
    objects = objects if isinstance(objects, bytes) else objects.encode()
    name = root.split(" ")[0].encode()
    return before + b"<" + root.encode() + b">" + objects + b"</" + name + b">"


def entry(key, more=""):
    return f"<Object><Key>{key}</Key>{more}</Object>"


def deletion(body, *headers, path="/lake", query="delete=", **more):
    return post(path, query, body, ("Content-MD5", DIGEST), *headers, **more)


# Spellings of a folder and a leaf that an origin could take for the plain name. {f} is the folder, {l} the leaf.
SPELLINGS = {
    "space-reference-before": "&#32;{f}/{l}",
    "tab-before": "&#9;{f}/{l}",
    "line-feed-before": "&#10;{f}/{l}",
    "carriage-return-before": "&#13;{f}/{l}",
    "no-break-space-before": "&#160;{f}/{l}",
    "line-separator-before": "&#x2028;{f}/{l}",
    "next-line-before": "&#x85;{f}/{l}",
    "byte-order-mark-before": "&#xFEFF;{f}/{l}",
    "zero-width-before": "&#x200B;{f}/{l}",
    "space-reference-behind": "{f}/{l}&#32;",
    "tab-behind": "{f}/{l}&#9;",
    "line-feed-behind": "{f}/{l}&#xA;",
    "carriage-return-behind": "{f}/{l}&#xD;",
    "no-break-space-behind": "{f}/{l}&#xA0;",
    "slash-reference-before": "&#x2F;{f}/{l}",
    "two-slashes-before": "//{f}/{l}",
    "dot-before": "./{f}/{l}",
    "slash-dot-before": "/./{f}/{l}",
    "up-and-down": "x/../{f}/{l}",
    "up-and-down-twice": "x/y/../../{f}/{l}",
    "above-the-bucket": "../lake/{f}/{l}",
    "bucket-before": "lake/{f}/{l}",
    "slash-reference-within": "{f}&#47;{l}",
    "padded-reference": "&#x0000000000{first:x};{rest}/{l}",
    "decimal-reference": "&#{first};{rest}/{l}",
    "reference-beyond-32-bits": "&#{wide};{rest}/{l}",
    "reference-of-a-reference": "&amp;#{first};{rest}/{l}",
    "reference-without-semicolon": "&#{first}{rest}/{l}",
    "reference-in-capitals": "&#X{first:X};{rest}/{l}",
    "reference-with-sign": "&#+{first};{rest}/{l}",
    "backslash": "{f}\\{l}",
    "backslash-reference": "{f}&#92;{l}",
    "percent-slash": "{f}%2F{l}",
    "percent-letter": "%{first:x}{rest}/{l}",
    "full-width-slash": "{f}&#xFF0F;{l}",
    "division-slash": "{f}&#x2215;{l}",
    "empty-segment": "{f}//{l}",
    "dot-segment": "{f}/./{l}",
    "dots-segment": "{f}/x/../{l}",
    "dot-behind": "{f}/{l}/.",
    "slash-behind": "{f}/{l}/",
    "nul-behind": "{f}/{l}&#0;",
    "control-behind": "{f}/{l}&#1;",
    "delete-behind": "{f}/{l}&#127;",
    "surrogate-behind": "{f}/{l}&#xD800;",
    "noncharacter-behind": "{f}/{l}&#xFFFE;",
    "query-behind": "{f}/{l}?versionId=null",
    "fragment-behind": "{f}/{l}#x",
    "star-behind": "{f}/*",
    "url": "s3://lake/{f}/{l}",
    "resource-name": "arn:aws:s3:::lake/{f}/{l}",
    "capitals": "{capitals}/{l}",
    "soft-hyphen-within": "{f}&#xAD;/{l}",
    "folder-with-dot": "{f}./{l}",
    "folder-with-space": "{f} /{l}",
    "cdata-within": "{f}<![CDATA[/]]>{l}",
    "cdata-twice": "<![CDATA[{f}]]><![CDATA[/{l}]]>",
    "comment-between": "{f}<!-- - -->/{l}",
    "instruction-between": "{f}<?x y?>/{l}",
    "markup-in-references": "pub/x&#60;/Key&#62;&#60;/Object&#62;&#60;Object&#62;&#60;Key&#62;{f}/{l}",
    "markup-in-names": "pub/x&lt;/Key&gt;&lt;/Object&gt;&lt;Object&gt;&lt;Key&gt;{f}/{l}",
    "markup-twice-escaped": "pub/x&amp;lt;/Key&amp;gt;&amp;lt;Key&amp;gt;{f}/{l}",
    "end-of-cdata": "pub/x]]&gt;&lt;/Key&gt;&lt;Key&gt;{f}/{l}",
    "own-folder-before": "pub/../{f}/{l}",
    "own-folder-and-backslashes": "pub\\..\\{f}\\{l}",
    "own-folder-and-percents": "pub/%2e%2e/{f}/{l}",
}


def spelled(form, folder, leaf):
    return form.format(
        f=folder, l=leaf, first=ord(folder[0]), rest=folder[1:], wide=2**32 + ord(folder[0]), capitals=folder.upper()
    )


def add_spellings():
    for trick, form in SPELLINGS.items():
        body = document(entry(spelled(form, "secret", "$secret_leaf")))
        for key in ("not-secret", "pub-writer"):
            attack(f"delete-{trick}", key, deletion(body))
        behind = document(entry("$lake_pub_b") + entry(spelled(form, "secret", "$secret_leaf")))
        attack(f"delete-behind-an-own-{trick}", "pub-both", deletion(behind))
        if "/" in form and "own-folder" not in trick and "markup" not in trick and "cdata" not in trick:
            # The hole in a prefix, reached from within the prefix: $lake_pub_deep_c lies in pub/deep/.
            deep = "pub/" + spelled(form, "deep", "$deep_leaf")
            attack(f"delete-hole-{trick}", "pub-minus", flow=with_deep_leaf(deletion(document(entry(deep)))))


def with_deep_leaf(request):
    def flow(actor):
        actor.bound = {"deep_leaf": actor.world.names["lake_pub_deep_c"].rsplit("/", 1)[1]}
        actor.send(request)

    return flow


BOTH = entry("$lake_pub_b") + entry("$lake_secret_a")
ONLY_OWN, ONLY_SECRET = entry("$lake_pub_b"), entry("$lake_secret_a")


def encoded_as(codec, text=None, mark=b""):
    """A document in another encoding. Names are filled in before, so it is made when the attack runs."""

    def flow(actor):
        plain = actor.substituted(f"<Delete>{text or ONLY_SECRET}</Delete>")
        body = mark + plain.encode(codec)
        actor.expect(actor.send(deletion(body)), REFUSED_OR_CLOSED)

    return flow


STRUCTURES = {
    "secret-last-of-1000": document("".join(entry(f"pub/n{n}") for n in range(999)) + ONLY_SECRET),
    "secret-first-of-1000": document(ONLY_SECRET + "".join(entry(f"pub/n{n}") for n in range(999))),
    "nested-deeply": document("<a>" * 20000 + ONLY_SECRET + "</a>" * 20000),
    "many-attributes": document("<Object " + " ".join(f"a{n}='x'" for n in range(5000)) + "><Key>$lake_secret_a</Key></Object>"),
    "long-name": document(entry("pub/" + "x" * 100_000) + ONLY_SECRET),
    "long-comment": document(b"<!--" + b"x" * 500_000 + b"-->" + ONLY_SECRET.encode()),
    "beyond-two-mebibytes": document(ONLY_OWN.encode() + b" " * (2 * 1024 * 1024) + ONLY_SECRET.encode()),
    "nil": document('<Object xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><Key xsi:nil="true">pub/x</Key><Key>$lake_secret_a</Key></Object>'),
    "space-kept": document('<Object><Key xml:space="preserve">$lake_secret_a</Key></Object>'),
    "base": document('<Object xml:base="secret/"><Key>$secret_leaf</Key></Object>'),
    "encoding-type": document("<EncodingType>url</EncodingType>" + entry("%73ecret/$secret_leaf")),
    "encoding-attribute": document('<Object><Key encoding-type="url">%73ecret/$secret_leaf</Key></Object>'),
    "prefix-element": document("<Prefix>secret/</Prefix>" + ONLY_OWN),
    "object-prefix": document("<Object><Prefix>secret/</Prefix><Key>$secret_leaf</Key></Object>"),
    "include-element": document('<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd" parse="text"/>' + ONLY_SECRET),
    "parameter-entity": b'<!DOCTYPE d [<!ENTITY % x "<!ENTITY y \'secret/\'>"> %x;]>' + document(entry("&y;$secret_leaf")),
    "attribute-default": b'<!DOCTYPE Delete [<!ATTLIST Key k CDATA "secret/">]>' + document(ONLY_SECRET),
    "redefined-lt": b'<!DOCTYPE Delete [<!ENTITY lt "&#38;#60;">]>' + document(entry("$lake_secret_a&lt;")),
    "doctype-lower": b"<!doctype Delete>" + document(ONLY_SECRET),
    "doctype-within": document("<!DOCTYPE x>" + ONLY_SECRET),
    "declaration-within": document("<?xml version='1.0'?>" + ONLY_SECRET),
    "version-1-1": b"<?xml version='1.1'?>" + document(entry("$lake_secret_a&#x85;")),
    "version-2": b"<?xml version='2.0'?>" + document(BOTH),
    "standalone": b"<?xml version='1.0' standalone='no'?>" + document(BOTH),
    "two-marks": b"\xef\xbb\xbf\xef\xbb\xbf" + document(BOTH),
    "mark-within": document(b"\xef\xbb\xbf" + BOTH.encode()),
    "invalid-bytes": document(b"<Object><Key>\xc1\xb3ecret/$secret_leaf</Key></Object>"),
    "lone-continuation": document(b"<Object><Key>$lake_secret_a\x80</Key></Object>"),
    "encoded-surrogates": document(b"<Object><Key>$lake_secret_a\xed\xa0\x80</Key></Object>"),
    "nul-bytes": document(b"<Object><Key>$lake_secret_a\0</Key></Object>"),
    "nul-behind-the-root": document(ONLY_OWN) + b"\0" + document(ONLY_SECRET),
    "nul-before-the-root": b"\0" + document(BOTH),
    "default-namespace-of-an-object": document("<Object xmlns=''><Key>$lake_secret_a</Key></Object>", root="Delete xmlns='http://s3.amazonaws.com/doc/2006-03-01/'"),
    "namespace-rebound": document("<s:Object xmlns:s='urn:o'><s:Key>$lake_pub_b</s:Key></s:Object><s:Object><s:Key>$lake_secret_a</s:Key></s:Object>", root="s:Delete xmlns:s='http://s3.amazonaws.com/doc/2006-03-01/'"),
    "xml-prefix": document("<xml:Object><xml:Key>$lake_secret_a</xml:Key></xml:Object>" + ONLY_OWN),
    "same-attribute-twice": document("<Object a='1' a='2'><Key>$lake_secret_a</Key></Object>"),
    "attribute-without-quotes": document("<Object a=1><Key>$lake_secret_a</Key></Object>"),
    "attribute-holds-markup": document("<Object a='><Key>pub/x</Key><Object><Key>'><Key>$lake_secret_a</Key></Object>"),
    "end-tag-with-attribute": document("<Object><Key>$lake_secret_a</Key a='b'></Object>"),
    "end-tag-with-space": document("<Object><Key>$lake_secret_a</Key ></Object >"),
    "wrong-nesting": document("<Object><Key>$lake_secret_a</Object></Key>"),
    "end-tag-left-out": document("<Object><Key>pub/x<Object><Key>$lake_secret_a</Key></Object></Object>"),
    "self-closed-key": document("<Object><Key/>$lake_secret_a</Object>"),
    "text-in-an-object": document("<Object>$lake_secret_a<Key>$lake_pub_b</Key></Object>"),
    "cdata-over-objects": document("<![CDATA[<Object>]]>" + BOTH),
    "cdata-never-closed": document(ONLY_OWN + "<![CDATA[" + ONLY_SECRET),
    "comment-never-closed": document(ONLY_OWN + "<!--" + ONLY_SECRET),
    "comment-with-dashes": document("<!-- -- " + ONLY_OWN + " -->" + ONLY_SECRET),
    "instruction-never-closed": document(ONLY_OWN + "<?x " + ONLY_SECRET),
    "instruction-holds-objects": document("<?x > " + ONLY_OWN + "?>" + ONLY_SECRET),
    "quiet-twice": document("<Quiet>true</Quiet><Quiet>false</Quiet>" + BOTH),
    "third-key": document("<Object><Key>$lake_pub_b</Key><Key>$lake_pub_a</Key><Key>$lake_secret_a</Key></Object>"),
    "key-and-name": document("<Object><Name>$lake_secret_a</Name><Key>$lake_pub_b</Key></Object>"),
    "bucket-in-an-object": document("<Object><Bucket>other</Bucket><Key>$other_secret_a</Key></Object>"),
    "delete-result": document("<Deleted><Key>$lake_secret_a</Key></Deleted>" + ONLY_OWN, root="DeleteResult"),
    "empty": b"",
    "only-space": b"   ",
    "form": b"delete=%3CDelete%3E&key=$lake_secret_a",
}  # fmt: skip
ENCODINGS = {
    "utf-16": ("utf-16", None, b""),
    "utf-16-little": ("utf-16-le", None, b""),
    "utf-16-big": ("utf-16-be", None, b""),
    "utf-32": ("utf-32", None, b""),
    "ebcdic": ("cp037", None, b""),
    "utf-7": ("utf-7", None, b"<?xml version='1.0' encoding='UTF-7'?>"),
    "wide-behind-narrow": ("utf-16-le", None, document("<Object><Key>pub/x</Key></Object>")),
    "mark-of-the-other-order": ("utf-16-le", None, b"\xfe\xff"),
}


def add_structures():
    for trick, body in STRUCTURES.items():
        for key in ("pub-writer", "not-secret"):
            attack(f"document-{trick}", key, deletion(body))
    for trick, made in ENCODINGS.items():
        attack(f"document-{trick}", "pub-writer", flow=encoded_as(*made))
        attack(f"document-{trick}", "not-secret", flow=encoded_as(*made))
    # A condition in any spelling takes the right to read: here the names are there and not there.
    for trick, more in (
        ("version", "<VersionId>null</VersionId>"),
        ("version-empty", "<VersionId></VersionId>"),
        ("version-space", "<VersionId> </VersionId>"),
        ("version-lower", "<versionid>null</versionid>"),
        ("version-capitals", "<VersionID>null</VersionID>"),
        ("version-namespace", "<x:VersionId xmlns:x='urn:x'>null</x:VersionId>"),
        ("version-cdata", "<VersionId><![CDATA[null]]></VersionId>"),
        ("version-reference", "<VersionId>&#110;ull</VersionId>"),
        ("version-attribute", "<Version Id='null'/>"),
        ("etag", "<ETag>*</ETag>"),
        ("etag-wrong", '<ETag>"x"</ETag>'),
        ("etag-lower", "<etag>*</etag>"),
        ("etag-capitals", "<Etag>*</Etag>"),
        ("size", "<Size>270</Size>"),
        ("size-wrong", "<Size>1</Size>"),
        ("size-twice", "<Size>1</Size><Size>270</Size>"),
        ("size-signed", "<Size>+270</Size>"),
        ("size-in-a-child", "<x><Size>1</Size></x>"),
        ("time", "<LastModifiedTime>Tue, 01 Jan 2030 00:00:00 GMT</LastModifiedTime>"),
        ("time-lower", "<lastModifiedTime>x</lastModifiedTime>"),
        ("time-namespace", "<x:LastModifiedTime xmlns:x='urn:x'>Tue, 01 Jan 2030 00:00:00 GMT</x:LastModifiedTime>"),
    ):
        body = document(entry("$t", more))
        for key in ("pub-writer", "drop-box"):
            attack(f"document-tells-{trick}", key, deletion(body), twins=("$lake_pub_a", "$no_pub"))
    for number, body in enumerate((document(entry("$t")), document("<Quiet>true</Quiet>" + entry("$t")))):
        attack(f"document-tells-nothing-{number}", "pub-writer", deletion(body), twins=("$lake_pub_a", "$no_pub"))
    # Of a secret name, beside one that may be deleted.
    attack("document-tells-secret", "pub-writer", deletion(document(ONLY_OWN + entry("$t"))), twins=("$lake_secret_a", "$no_secret"))
    attack("document-wrong-digest", "all", post("/lake", "delete=", document(BOTH), ("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")), expects=REFUSED_OR_CLOSED, rights="nothing")
    attack("document-swapped", "all", deletion(document(ONLY_OWN), wire_body=document(ONLY_SECRET)), expects=REFUSED_OR_CLOSED, rights="nothing")
    attack("document-control", "pub-writer", deletion(document(ONLY_OWN)), expects=OK, shows=(b"<Key>$lake_pub_b</Key>",))
    attack("document-control-references", "pub-writer", deletion(document(entry("&#112;ub<!--x-->/<![CDATA[own]]>"))), expects=OK | {400})


# --- 2. sources of copies

# {b} is the bucket and {k} the key of what may not be read, {o} one that may be.
SOURCES = {
    "plain": "/{b}/{k}",
    "without-slash": "{b}/{k}",
    "two-slashes": "//{b}/{k}",
    "three-slashes": "///{b}/{k}",
    "empty-segment": "/{b}//{k}",
    "dot": "/{b}/./{k}",
    "dot-bucket": "./{b}/{k}",
    "slash-dot-bucket": "/./{b}/{k}",
    "up": "/lake/pub/../{k}",
    "up-encoded": "/lake/pub/%2E%2E/{k}",
    "up-encoded-twice": "/lake/pub/%252e%252e/{k}",
    "up-with-encoded-slashes": "/lake/pub%2F..%2F{k}",
    "up-to-the-bucket": "/lake/pub/../../{b}/{k}",
    "up-out-of-the-bucket": "/lake/../{b}/{k}",
    "other-up-first": "/other/../{b}/{k}",
    "all-encoded": "%2F{b}%2F{k}",
    "slash-encoded": "{b}%2F{k}",
    "slash-encoded-twice": "{b}%252F{k}",
    "bucket-encoded": "/%6cake/{k}",
    "key-encoded": "/{b}/%73ecret/$secret_leaf",
    "key-encoded-twice": "/{b}/%2573ecret/$secret_leaf",
    "inner-slash-encoded": "/{b}/secret%2F$secret_leaf",
    "inner-slash-encoded-twice": "/{b}/secret%252F$secret_leaf",
    "overlong": "/{b}/%c1%b3ecret/$secret_leaf",
    "full-width-slash": "/{b}/secret%ef%bc%8f$secret_leaf",
    "backslash": "\\{b}\\{k}",
    "backslash-up": "/lake/pub\\..\\..\\{b}\\{k}",
    "backslash-encoded": "/lake/pub%5C..%5C..%5C{k}",
    "version-null": "/{b}/{k}?versionId=null",
    "version-empty": "/{b}/{k}?versionId=",
    "version-lower": "/{b}/{k}?versionid=null",
    "version-twice": "/{b}/{k}?versionId=null&versionId=x",
    "version-encoded": "/{b}/{k}%3FversionId=null",
    "unknown-parameter": "/{b}/{k}?x=y",
    "two-queries": "/lake/{o}?x?/../../{b}/{k}",
    "version-is-a-path": "/lake/{o}?versionId=../../{b}/{k}",
    "version-is-an-encoded-path": "/lake/{o}?versionId=..%2F..%2F{k}",
    "fragment": "/{b}/{k}#x",
    "behind-a-fragment": "/lake/{o}#/../../{b}/{k}",
    "access-point": "arn:aws:s3:us-east-1:123456789012:accesspoint/{b}/object/{k}",
    "resource-name": "arn:aws:s3:::{b}/{k}",
    "outpost": "arn:aws:s3-outposts:us-east-1:123456789012:outpost/o/bucket/{b}/object/{k}",
    "s3-url": "s3://{b}/{k}",
    "url": "http://127.0.0.1/{b}/{k}",
    "url-of-amazon": "https://{b}.s3.amazonaws.com/{k}",
    "spaces": "  /{b}/{k}  ",
    "space-encoded-before": "%20/{b}/{k}",
    "space-encoded-behind": "/{b}/{k}%20",
    "line-feed-encoded": "/{b}/{k}%0a",
    "nul-encoded": "/{b}/{k}%00",
    "nul-and-own": "/{b}/{k}%00/lake/{o}",
    "own-and-nul": "/lake/{o}%00/../../{b}/{k}",
    "list": "/lake/{o}, /{b}/{k}",
    "list-without-space": "/lake/{o},/{b}/{k}",
    "list-secret-first": "/{b}/{k},/lake/{o}",
    "semicolon": "/lake/{o};/{b}/{k}",
    "quoted": '"/{b}/{k}"',
    "angle": "</{b}/{k}>",
    "slash-behind": "/{b}/{k}/",
    "dot-behind": "/{b}/{k}/.",
    "capitals": "/LAKE/{k}",
    "plus": "/{b}/+{k}",
    "percent-alone": "/{b}/%{k}",
    "percent-u": "/{b}/%u0073ecret/$secret_leaf",
    "latin": b"/{b}/{k}\xe9",
    "bucket-only": "/{b}",
    "bucket-and-slash": "/{b}/",
    "of-minio": "/.minio.sys/config/config.json",
    "of-minio-encoded": "/%2Eminio.sys/config/config.json",
    "of-minio-up": "/lake/../.minio.sys/config/config.json",
    "of-versitygw": "/lake/.sgwtmp/x",
    "of-the-sidecar": "/../metadata/lake/secret",
    "of-the-system": "/../../../../etc/passwd",
    "of-the-system-encoded": "/lake/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "of-s3proxy": "/lake/.mpus-$up_secret",
    "of-an-upload": "/lake/$up_secret",
}
# What the sources are filled with: who may not read, and what.
VICTIMS = {
    "pub-both": ("lake", "$lake_secret_a"),
    "not-secret": ("lake", "$lake_secret_a"),
    "not-other": ("other", "$other_secret_a"),
}


def source_of(form, bucket, key):
    if isinstance(form, bytes):
        return form.replace(b"{b}", bucket.encode()).replace(b"{k}", key.encode()).replace(b"{o}", b"$lake_pub_a")
    return form.replace("{b}", bucket).replace("{k}", key).replace("{o}", "$lake_pub_a")


def part_copy(source, *headers):
    """A part that is copied, and made an object, so that the judge sees what is in it."""

    def flow(actor):
        upload = begun(actor, OWN)
        answer = actor.send(put(OWN, b"", ("x-amz-copy-source", source), *headers, query=f"partNumber=1&uploadId={upload}"))
        finish(actor, OWN, upload, etag_of(answer))

    return flow


def begun(actor, path, *headers, key=""):
    answer = actor.send(post(path, "uploads=", b"", *headers), key=key)
    found = re.search(rb"<UploadId>([^<]+)", answer.body)
    return worlds.quoted(found.group(1).decode()) if found else worlds.NO_UPLOAD


def etag_of(answer):
    found = re.search(rb"<ETag>(?:&#34;|&quot;|\")?([0-9a-f]{32}[0-9-]*)", answer.body)
    return found.group(1).decode() if found else (answer.header("etag") or "").strip('"')


def listed_part(etag, number=1):
    return f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"


def finish(actor, path, upload, etag, key=""):
    if etag:
        body = f"<CompleteMultipartUpload>{listed_part(etag)}</CompleteMultipartUpload>"
        return actor.send(post(path, f"uploadId={upload}", body.encode()), key=key)
    return actor.send(delete(path, f"uploadId={upload}"), key=key)


# How the header that decides may be hidden. The source is always the secret.
HIDDEN = {
    "capitals": put(OWN, b"", ("X-AMZ-COPY-SOURCE", SECRET)),
    "unsigned": put(OWN, b"", unsigned=[("x-amz-copy-source", SECRET)]),
    "underscores": put(OWN, b"", ("x_amz_copy_source", SECRET)),
    "twice-own-first": put(OWN, b"", ("x-amz-copy-source", PUB), ("x-amz-copy-source", SECRET)),
    "twice-own-last": put(OWN, b"", ("x-amz-copy-source", SECRET), ("x-amz-copy-source", PUB)),
    "second-unsigned": put(OWN, b"", ("x-amz-copy-source", PUB), unsigned=[("x-amz-copy-source", SECRET)]),
    "second-empty": put(OWN, b"", ("x-amz-copy-source", ""), ("x-amz-copy-source", SECRET)),
    "parameter": put(OWN, b"", query="x-amz-copy-source=/lake/$lake_secret_a", signing=Signing(where="query")),
    "parameter-in-capitals": put(OWN, b"", query="X-Amz-Copy-Source=/lake/$lake_secret_a", signing=Signing(where="query")),
    "parameter-with-a-header-signature": put(OWN, b"", query="x-amz-copy-source=/lake/$lake_secret_a"),
    "parameter-and-own-header": put(OWN, b"", ("x-amz-copy-source", PUB), query="x-amz-copy-source=/lake/$lake_secret_a"),
    "parameter-twice": put(OWN, b"", query="x-amz-copy-source=/lake/$lake_pub_a&x-amz-copy-source=/lake/$lake_secret_a", signing=Signing(where="query")),
    "parameter-encoded": put(OWN, b"", query="x-amz-copy%2Dsource=%2Flake%2F$lake_secret_a", signing=Signing(where="query")),
    "space-before-the-colon": put(OWN, b"", ("x-amz-copy-source ", SECRET)),
    "tab-before-the-colon": put(OWN, b"", ("x-amz-copy-source\t", SECRET)),
    "folded": put(OWN, b"", ("x-amz-copy-source", "/lake/$lake_pub_a\r\n /../../$lake_secret_a")),
    "folded-header": put(OWN, b"", ("x-amz-meta-a", "b\r\n x-amz-copy-source: /lake/$lake_secret_a")),
    "injected": put(OWN, b"", ("x-amz-meta-a", "b\nx-amz-copy-source: /lake/$lake_secret_a")),
    "injected-return": put(OWN, b"", ("x-amz-meta-a", "b\rx-amz-copy-source: /lake/$lake_secret_a")),
    "with-a-body": put(OWN, NEW, ("x-amz-copy-source", SECRET)),
    "range-of-a-part": put(OWN, b"", ("x-amz-copy-source", SECRET), ("x-amz-copy-source-range", "bytes=0-9")),
    "part-number-only": put(OWN, b"", ("x-amz-copy-source", SECRET), query="partNumber=1"),
    "empty-upload": put(OWN, b"", ("x-amz-copy-source", SECRET), query="partNumber=1&uploadId="),
    "in-a-trailer": put(OWN, b"", ("x-amz-trailer", "x-amz-copy-source"), wire_body=b"0\r\nx-amz-copy-source: /lake/$lake_secret_a\r\n\r\n", length="", unsigned=[("Transfer-Encoding", "chunked")], signing=Signing(payload="UNSIGNED-PAYLOAD")),
    "announced-in-connection": put(OWN, b"", ("x-amz-copy-source", SECRET), unsigned=[("Connection", "x-amz-copy-source")]),
    "at-the-begin-of-an-upload": post(OWN, "uploads=", b"", ("x-amz-copy-source", SECRET)),
    "at-tagging": put(OWN, b"<Tagging><TagSet/></Tagging>", ("x-amz-copy-source", SECRET), query="tagging="),
    "at-acl": put(OWN, b"", ("x-amz-copy-source", SECRET), query="acl="),
    "at-post": post(OWN, "", b"", ("x-amz-copy-source", SECRET)),
    "at-get": get(PUB, "", ("x-amz-copy-source", SECRET)),
    "at-head": head(PUB, "", ("x-amz-copy-source", SECRET)),
    "at-delete": delete(OWN, "", ("x-amz-copy-source", SECRET)),
    "of-google": put(OWN, b"", ("x-goog-copy-source", SECRET)),
    "of-google-moved": put(OWN, b"", ("x-goog-copy-source", SECRET), ("x-amz-copy-source", PUB)),
    "of-minio": put(OWN, b"", ("x-minio-source", SECRET)),
    "of-oss": put(OWN, b"", ("x-oss-copy-source", SECRET)),
    "of-obs": put(OWN, b"", ("x-obs-copy-source", SECRET)),
    "move": Request("MOVE", SECRET, headers=[("Destination", OWN)]),
    "copy": Request("COPY", SECRET, headers=[("Destination", OWN)]),
}  # fmt: skip


def add_copies():
    for key, (bucket, victim) in VICTIMS.items():
        for trick, form in SOURCES.items():
            source = source_of(form, bucket, victim)
            attack(f"copy-{trick}", key, put(OWN, b"", ("x-amz-copy-source", source)))
            if key != "not-other":
                attack(f"part-copy-{trick}", key, flow=part_copy(source))
    for trick in ("plain", "up", "up-encoded", "slash-encoded", "access-point", "url", "list", "version-null", "nul-encoded", "empty-segment", "backslash"):
        source = source_of(SOURCES[trick], "lake", "$lake_secret_a")
        for key in ("pub-both", "not-secret", "copier"):
            attack(f"rename-{trick}", key, put(OWN, b"", ("x-amz-rename-source", source), query="renameObject="))
    for trick, request in HIDDEN.items():
        for key in ("pub-both", "not-secret"):
            attack(f"copy-hidden-{trick}", key, request)
    for trick, source in (
        ("version-of-a-secret", "/vers/$vers_secret_v?versionId=$old_secret"),
        ("foreign-version", "/vers/$vers_pub_v?versionId=$old_secret"),
        ("version-is-a-secret", "/vers/$vers_pub_v?versionId=../$vers_secret_v"),
        ("version-is-encoded", "/vers/$vers_secret_v%3FversionId%3D$old_secret"),
        ("hidden-bucket", "/$hidden/$hidden_pub_a"),
    ):
        attack(f"copy-{trick}", "pub-both", put(OWN, b"", ("x-amz-copy-source", source)), needs=frozenset({"versions"}) if "version" in trick else frozenset())
        attack(f"part-copy-{trick}", "pub-both", flow=part_copy(source), needs=frozenset({"versions"}) if "version" in trick else frozenset())
    # Whether a source is there is told to nobody who may not read it.
    conditions = [("x-amz-copy-source-if-match", "*"), ("x-amz-copy-source-if-none-match", '"x"'), ("x-amz-copy-source-if-modified-since", "Tue, 01 Jan 2019 00:00:00 GMT"), ("x-amz-copy-source-if-unmodified-since", "Tue, 01 Jan 2019 00:00:00 GMT"), ("x-amz-copy-source-range", "bytes=0-0"), ("x-amz-source-expected-bucket-owner", "x")]
    for name, value in [("x-amz-meta-a", "b"), *conditions]:
        for key in ("pub-both", "pub-writer", "lake-writer"):
            twins = ("$lake_secret_a", "$no_secret")
            attack(f"copy-tells-{name}", key, put(OWN, b"", ("x-amz-copy-source", "/lake/$t"), (name, value)), twins=twins)
            attack(f"part-copy-tells-{name}", key, put(PUB, b"", ("x-amz-copy-source", "/lake/$t"), (name, value), query="partNumber=2&uploadId=$up_pub"), twins=twins)
    for key in ("pub-both", "not-secret", "copier"):
        attack("copy-control", key, put(OWN, b"", ("x-amz-copy-source", PUB)), expects=OK, shows=(b"<ETag>",))
        attack("part-copy-control", key, flow=copies_a_part)
    attack("copy-control-of-a-secret", "copier", put(OWN, b"", ("x-amz-copy-source", SECRET)), expects=OK)


def copies_a_part(actor):
    upload = begun(actor, OWN)
    answer = actor.send(put(OWN, b"", ("x-amz-copy-source", PUB), query=f"partNumber=1&uploadId={upload}"))
    actor.expect(answer, OK, "the part")
    actor.expect(finish(actor, OWN, upload, etag_of(answer)), OK, "the end of the upload")


# --- 3. uploads of others

FOREIGN = {"secret": "$up_secret", "other": "$up_other"}
# Spellings of a foreign id.
IDS = {
    "slash-behind": "{i}/",
    "slash-before": "%2F{i}",
    "dot-before": ".%2F{i}",
    "up-before": "..%2F{i}",
    "up-and-folder": "..%2F..%2Fsecret%2F{i}",
    "space-before": "%20{i}",
    "space-behind": "{i}%20",
    "line-feed-behind": "{i}%0A",
    "nul-behind": "{i}%00",
    "nul-and-own": "{i}%00$up_pub",
    "quoted": "%22{i}%22",
    "list": "$up_pub,{i}",
    "twice-own-first": "$up_pub&uploadId={i}",
    "twice-own-last": "{i}&uploadId=$up_pub",
    "other-spelling-first": "$up_pub&uploadid={i}",
    "other-spelling-too": "$up_pub&UploadId={i}",
    "encoded-name-too": "$up_pub&upload%49d={i}",
    "padded": "{i}%3D",
    "encoded-twice": "%2525{i}",
    "semicolon": "$up_pub;uploadId={i}",
}


def operations_of_an_upload(path, upload):
    completion = b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>$etag_up_secret</ETag></Part></CompleteMultipartUpload>"
    return {
        "part": put(path, NEW, query=f"partNumber=2&uploadId={upload}"),
        "part-copy": put(path, b"", ("x-amz-copy-source", PUB), query=f"partNumber=2&uploadId={upload}"),
        "complete": post(path, f"uploadId={upload}", completion),
        "abort": delete(path, f"uploadId={upload}"),
        "parts": get(path, f"uploadId={upload}"),
    }


ODD_LISTS = {
    "none": "",
    "no-number": "<Part><ETag>$etag_up_pub</ETag></Part>",
    "number-zero": "<Part><PartNumber>0</PartNumber><ETag>$etag_up_pub</ETag></Part>",
    "number-negative": "<Part><PartNumber>-1</PartNumber><ETag>$etag_up_pub</ETag></Part>",
    "number-huge": "<Part><PartNumber>99999999999999999999</PartNumber><ETag>$etag_up_pub</ETag></Part>",
    "number-is-a-path": "<Part><PartNumber>../../secret/1</PartNumber><ETag>$etag_up_pub</ETag></Part>",
    "twice": "<Part><PartNumber>1</PartNumber><ETag>$etag_up_pub</ETag></Part>" * 2,
    "etag-of-a-secret-part": "<Part><PartNumber>1</PartNumber><ETag>$etag_up_secret</ETag></Part>",
    "etag-any": "<Part><PartNumber>1</PartNumber><ETag>*</ETag></Part>",
    "etag-is-a-path": "<Part><PartNumber>1</PartNumber><ETag>../../$up_secret/1</ETag></Part>",
    "key-within": "<Key>$lake_secret_a</Key><Part><PartNumber>1</PartNumber><ETag>$etag_up_pub</ETag></Part>",
    "upload-within": "<UploadId>$up_secret</UploadId><Part><PartNumber>1</PartNumber><ETag>$etag_up_pub</ETag></Part>",
    "bucket-within": "<Bucket>other</Bucket><Part><PartNumber>1</PartNumber><ETag>$etag_up_pub</ETag></Part>",
    "entity": "<Part><PartNumber>1</PartNumber><ETag>&x;</ETag></Part>",
    "many": "".join(listed_part("0" * 32, number) for number in range(1, 10002)),
}


def add_uploads():
    needs = frozenset({"uploads"})
    for whose, upload in FOREIGN.items():
        for place, path in (("object", PUB), ("own", OWN), ("absent", ABSENT)):
            for operation, request in operations_of_an_upload(path, upload).items():
                for key in ("pub-both", "pub-writer", "not-secret" if whose == "secret" else "not-other"):
                    attack(f"upload-of-{whose}-{operation}-at-{place}", key, request, needs=needs, expects=REFUSED_OR_CLOSED)
    for trick, form in IDS.items():
        requests = operations_of_an_upload(PUB, form.replace("{i}", "$up_secret"))
        for operation in ("part", "complete", "abort", "parts"):
            attack(f"upload-{trick}-{operation}", "not-secret", requests[operation], needs=needs)
            if operation in ("abort", "parts"):
                attack(f"upload-{trick}-{operation}", "pub-both", requests[operation], needs=needs)
    for operation, request in operations_of_an_upload(SECRET, "$up_pub").items():
        attack(f"upload-own-{operation}-at-the-secret", "pub-both", request, needs=needs, expects=REFUSED_OR_CLOSED)
    for operation, request in operations_of_an_upload("/other/$other_secret_a", "$up_pub").items():
        attack(f"upload-own-{operation}-in-another-bucket", "pub-both", request, needs=needs, expects=REFUSED_OR_CLOSED)
    for trick, parts in ODD_LISTS.items():
        before = '<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]>' if trick == "entity" else ""
        body = f"{before}<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        for key in ("pub-both", "pub-writer"):
            attack(f"complete-{trick}", key, post(PUB, "uploadId=$up_pub", body), needs=needs)
    # An id that is the name of another object: aborting and completing must reach none.
    for name in ("$lake_secret_a", "$secret_leaf", "secret", "..%2Fsecret%2F$secret_leaf", ".mpus-$lake_secret_a", "%2E", "%2E%2E", "", "null"):
        for operation, request in operations_of_an_upload(PUB, name).items():
            if operation in ("abort", "complete", "part"):
                attack(f"upload-called-{name or 'nothing'}-{operation}", "pub-both", request)
    attack("upload-control", "pub-writer", flow=uploads_a_part, needs=needs)
    attack("upload-control-parts", "pub-both", get(PUB, "uploadId=$up_pub"), needs=needs, expects=OK)


def uploads_a_part(actor):
    upload = begun(actor, OWN)
    part = actor.send(put(OWN, NEW, query=f"partNumber=1&uploadId={upload}"))
    actor.expect(part, OK, "the part")
    actor.expect(finish(actor, OWN, upload, etag_of(part)), OK, "the end of the upload")


# --- 4. what is told to who may only write

CONDITIONS = [
    ("If-Match", "*"),
    ("If-Match", '"x"'),
    ("If-None-Match", "*"),
    ("If-None-Match", '"x"'),
    ("If-Modified-Since", "Tue, 01 Jan 2019 00:00:00 GMT"),
    ("If-Modified-Since", "Tue, 01 Jan 2030 00:00:00 GMT"),
    ("If-Unmodified-Since", "Tue, 01 Jan 2019 00:00:00 GMT"),
    ("If-Range", '"x"'),
    ("Range", "bytes=0-0"),
    ("x-amz-if-match-size", "270"),
    ("x-amz-if-match-size", "1"),
    ("x-amz-if-match-last-modified-time", "Tue, 01 Jan 2019 00:00:00 GMT"),
    ("x-amz-if-match-initiated-time", "Tue, 01 Jan 2019 00:00:00 GMT"),
    ("x-amz-write-offset-bytes", "270"),
    ("x-amz-write-offset-bytes", "0"),
    ("x-amz-mp-object-size", "5"),
    ("x-amz-expected-bucket-owner", "nobody"),
    ("if_none_match", "*"),
    ("If-None-Match ", "*"),
    ("x-amz-meta-if-none-match", "*"),
    ("x-minio-source-etag", "*"),
    ("x-goog-if-generation-match", "0"),
    ("x-amz-tagging", "a=b"),
    ("x-amz-metadata-directive", "COPY"),
]
BLIND = "/lake/$t"
COMPLETION = f"<CompleteMultipartUpload>{listed_part('0' * 32)}</CompleteMultipartUpload>".encode()
BLIND_OPERATIONS = {
    "put": put(BLIND, NEW),
    "delete": delete(BLIND),
    "begin": post(BLIND, "uploads="),
    "complete": post(BLIND, f"uploadId={worlds.NO_UPLOAD}", COMPLETION),
    "part": put(BLIND, NEW, query=f"partNumber=1&uploadId={worlds.NO_UPLOAD}"),
    "abort": delete(BLIND, f"uploadId={worlds.NO_UPLOAD}"),
}
READS = {
    "get": get(BLIND),
    "head": head(BLIND),
    "range": get(BLIND, "", ("Range", "bytes=0-0")),
    "range-beyond": get(BLIND, "", ("Range", "bytes=99999999-")),
    "only-if-cached": get(BLIND, "", ("Cache-Control", "only-if-cached")),
    "no-cache": get(BLIND, "", ("Cache-Control", "no-cache")),
    "conditional": get(BLIND, "", ("If-None-Match", "*")),
    "options": Request("OPTIONS", BLIND, headers=[("Origin", "http://a"), ("Access-Control-Request-Method", "PUT")]),
    "parts": get(BLIND, f"uploadId={worlds.NO_UPLOAD}"),
    "tags": get(BLIND, "tagging="),
    "tags-put": put(BLIND, b"<Tagging><TagSet/></Tagging>", query="tagging="),
    "tags-removed": delete(BLIND, "tagging="),
    "acl": get(BLIND, "acl="),
    "acl-put": put(BLIND, b"", ("x-amz-acl", "private"), query="acl="),
    "attributes": get(BLIND, "attributes=", ("x-amz-object-attributes", "ETag")),
    "retention": get(BLIND, "retention="),
    "legal-hold": get(BLIND, "legal-hold="),
    "torrent": get(BLIND, "torrent="),
    "select": post(BLIND, "select=&select-type=2", b"<SelectObjectContentRequest/>"),
    "restore": post(BLIND, "restore=", b"<RestoreRequest><Days>1</Days></RestoreRequest>"),
    "version": get(BLIND, "versionId=null"),
    "version-removed": delete(BLIND, "versionId=null"),
    "list": get("/lake", "list-type=2&prefix=$t"),
    "versions": get("/lake", "versions=&prefix=$t"),
    "uploads": get("/lake", "uploads=&prefix=$t"),
    "unknown": get(BLIND, "foo=bar"),
    "unknown-method": Request("PATCH", BLIND),
    "encryption": put(BLIND, b"<x/>", query="encryption="),
    "append-of-rgw": put(BLIND, NEW, query="append=&position=1"),
    "post-object": post(BLIND, "", NEW),
    "long-body-denied": Request("GET", BLIND, body=b"x" * 70000),
    "below": put(BLIND + "/below", NEW),
}


def with_header(request, name, value):
    return Request(request.method, request.path, request.query, [*request.headers, (name, value)], request.body)


def with_parameter(request, name, value):
    query = "&".join(part for part in (request.query, f"{name}={worlds.quoted(value)}") if part)
    return Request(request.method, request.path, query, request.headers, request.body, signing=Signing(where="query"))


def add_oracles():
    twins = ("$lake_pub_a", "$no_pub")
    for number, (name, value) in enumerate(CONDITIONS):
        for operation, request in BLIND_OPERATIONS.items():
            attack(f"blind-{operation}-{number}-{name.strip().lower()}", "pub-writer", with_header(request, name, value), twins=twins)
        for operation in ("put", "delete"):
            attack(f"blind-{operation}-parameter-{number}-{name.strip().lower()}", "pub-writer", with_parameter(BLIND_OPERATIONS[operation], name.strip(), value), twins=twins)
        copying = put(BLIND, b"", ("x-amz-copy-source", "/lake/$lake_top"), (name, value))
        attack(f"blind-copy-{number}-{name.strip().lower()}", "drop-box", copying, twins=twins)
    for operation, request in READS.items():
        # Over a file system a name cannot be a folder as well: that is told by the origin to whoever may write below.
        needs = frozenset({"flat"}) if operation == "below" else frozenset()
        attack(f"blind-read-{operation}", "pub-writer", request, twins=twins, needs=needs)
        attack(f"blind-read-{operation}", "drop-box", request, twins=twins, needs=needs)
        attack(f"blind-none-{operation}", "nothing", request, twins=twins)
        attack(f"blind-secret-{operation}", "pub-both", request, twins=("$lake_secret_a", "$no_secret"))
    buckets = ("$hidden", "hidden-000000000000")
    for name, request in (
        ("get", get("/$t", "list-type=2")),
        ("head", head("/$t")),
        ("location", get("/$t", "location=")),
        ("put", put("/$t")),
        ("delete", delete("/$t")),
        ("object", get("/$t/x")),
        ("object-put", put("/$t/x", NEW)),
        ("deletion", deletion(document(entry("x")), path="/$t")),
        ("copy", put(OWN, b"", ("x-amz-copy-source", "/$t/x"))),
        ("options", Request("OPTIONS", "/$t", headers=[("Origin", "http://a")])),
        ("uploads", get("/$t", "uploads=")),
        ("virtual", get("/x", host="$t.s3.localhost")),
    ):
        for key in ("nothing", "pub-both"):
            attack(f"bucket-tells-{name}", key, request, twins=buckets)
    # A digest that is wrong must be told in the same words, whatever is there.
    for name, headers in (("md5", [("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")]), ("crc32", [("x-amz-checksum-crc32", "AAAAAA==")]), ("md5-bad", [("Content-MD5", "x")])):
        attack(f"blind-put-wrong-{name}", "pub-writer", put(BLIND, NEW, *headers), twins=twins)
    attack("blind-control", "pub-both", put(PUB, NEW, ("If-Match", '"x"')), expects=frozenset({412, 200}))


# --- 5. the wire


def counted(request, wanted=1, key="", follower_key=None, edit=None):
    """The body of a request is itself a request: it must not be answered as one."""

    def flow(actor):
        inner = actor.encoded(put("/lake/pub/smuggled", NEW), key="pub-both")
        outer = Request(request.method, request.path, request.query, request.headers, inner, request.unsigned, request.signing)
        sent = actor.encoded(outer)
        answer = actor.send_bytes(edit(sent) if edit else sent, outer.method)
        if answer.count > wanted:
            actor.complaints.append(f"{answer.count} answers to {wanted} request: {answer}")

    return flow


def unsigned_length(sent):
    return re.sub(rb"Content-Length: (\d+)", rb"content-length: \1", sent)


def twice(sent):
    return re.sub(rb"(Content-Length: \d+\r\n)", rb"\1\1", sent)


def with_zero(sent):
    return re.sub(rb"(Content-Length: \d+\r\n)", rb"\1Content-Length: 0\r\n", sent)


def replaced_length(value):
    return lambda sent: re.sub(rb"Content-Length: \d+", b"Content-Length: " + value, sent)


def added(line):
    return lambda sent: sent.replace(b"\r\nHost:", b"\r\n" + line + b"\r\nHost:", 1)


def old_version(sent):
    return sent.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)


FRAMINGS = {
    "plain": None,
    "name-in-lower-case": unsigned_length,
    "two-lengths": twice,
    "length-and-zero": with_zero,
    "length-list": replaced_length(b"0, 0"),
    "length-plus": replaced_length(b"+0"),
    "length-minus": replaced_length(b"-1"),
    "length-hex": replaced_length(b"0x0"),
    "length-empty": replaced_length(b""),
    "length-spaces": replaced_length(b"0 0"),
    "length-huge": replaced_length(b"99999999999999999999"),
    "chunked-too": added(b"Transfer-Encoding: chunked"),
    "chunked-in-capitals": added(b"TRANSFER-ENCODING: CHUNKED"),
    "chunked-and-tab": added(b"Transfer-Encoding:\tchunked"),
    "chunked-space-before-the-colon": added(b"Transfer-Encoding : chunked"),
    "chunked-folded": added(b"Transfer-Encoding:\r\n chunked"),
    "chunked-identity": added(b"Transfer-Encoding: identity"),
    "chunked-gzip": added(b"Transfer-Encoding: gzip, chunked"),
    "chunked-twice": added(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    "chunked-and-other": added(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x"),
    "chunked-quoted": added(b'Transfer-Encoding: "chunked"'),
    "chunked-vertical-tab": added(b"Transfer-Encoding: \x0bchunked"),
    "underscores": added(b"Transfer_Encoding: chunked"),
    "expect": added(b"Expect: 100-continue"),
    "expect-other": added(b"Expect: 200-ok"),
    "upgrade": added(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"),
    "websocket": added(b"Connection: Upgrade\r\nUpgrade: websocket"),
    "keep-alive": added(b"Connection: keep-alive"),
    "old-version": old_version,
}
CARRIERS = {
    # Refused before the body is looked at, and served.
    "denied-put": ("pub-reader", put(PUB)),
    "denied-get": ("nothing", get(SECRET)),
    "served-get": ("pub-both", get(PUB)),
    "served-head": ("pub-both", head(PUB)),
    "served-delete": ("pub-both", delete(OWN)),
    "unknown-put": ("pub-both", put(PUB, query="metadata=")),
    "options": ("pub-both", Request("OPTIONS", PUB)),
    "anonymous-put": (None, put(PUB)),
}


def chunked(actor, request, payload, pieces, key="", tampered=None, trailers=b"", closing=True, length=None, content_encoding="aws-chunked", sizes=None):
    """A PUT with a body in signed chunks. Gives the bytes of all of it."""
    data = b"".join(pieces)
    headers = [*request.headers, ("x-amz-decoded-content-length", str(len(data) if length is None else length))]
    if content_encoding:
        headers.append(("Content-Encoding", content_encoding))
    head_only = Request(request.method, request.path, request.query, headers, b"", signing=Signing(payload=payload), length="0")
    encoded = actor.encoded(head_only, key)
    signature = re.search(rb"Signature=([0-9a-f]+)", encoded).group(1).decode()
    scope = re.search(rb"Credential=[^/]+/([^,]+),", encoded).group(1).decode()
    when = re.search(rb"x-amz-date: (\S+)", encoded).group(1).decode()
    secret = wire.mac(b"AWS4" + actor.key(actor.attack.key if key == "" else key).secret_key.encode(), scope.split("/")[0])
    for step in scope.split("/")[1:]:
        secret = wire.mac(secret, step)
    body = b""
    nothing = hashlib.sha256(b"").hexdigest()
    signs = payload.startswith("STREAMING-AWS4")
    for place, piece in enumerate([*pieces, b""]):
        digest = hashlib.sha256(piece).hexdigest()
        signature = wire.mac(secret, f"AWS4-HMAC-SHA256-PAYLOAD\n{when}\n{scope}\n{signature}\n{nothing}\n{digest}").hex()
        if tampered and place in tampered:
            piece = tampered[place]
        size = sizes[place] if sizes and place in sizes else f"{len(piece):x}".encode()
        if not piece and not closing:
            break
        line = size + (b";chunk-signature=" + signature.encode() if signs else b"")
        body += line + b"\r\n" + (piece + b"\r\n" if piece else b"")
    if closing:
        body += trailers + b"\r\n"
    return re.sub(rb"Content-Length: 0\r\n", b"Content-Length: %d\r\n" % len(body), encoded) + body


SIGNED, UNSIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
TWO = [b"a" * 8192, b"b" * 100]


def sends_chunks(expects=REFUSED_OR_CLOSED, payload=SIGNED, headers=(), **how):
    def flow(actor):
        sent = chunked(actor, put(OWN, b"", *headers), payload, how.get("pieces", TWO), **{k: v for k, v in how.items() if k != "pieces"})
        answer = actor.send_bytes(sent, "PUT")
        if expects:
            actor.expect(answer, expects)
        if answer.count > 1:
            actor.complaints.append(f"{answer.count} answers to one request")

    return flow


CRC = base64.b64encode(zlib.crc32(b"".join(TWO)).to_bytes(4, "big"))
CRC_TRAILER = ("x-amz-trailer", "x-amz-checksum-crc32")
CHUNKS = {
    "control-signed": sends_chunks(OK),
    # s3proxy takes such a body for one whose checksum is wrong.
    "control-unsigned": sends_chunks(OK | {400}, UNSIGNED, [CRC_TRAILER], trailers=b"x-amz-checksum-crc32:" + CRC + b"\r\n"),
    "tampered-first": sends_chunks(tampered={0: b"x" * 8192}),
    "tampered-second": sends_chunks(tampered={1: b"x" * 100}),
    "tampered-longer": sends_chunks(tampered={1: b"x" * 101}),
    "tampered-last": sends_chunks(tampered={2: b"x"}),
    "never-closed": sends_chunks(closing=False),
    "length-too-small": sends_chunks(length=5),
    "length-too-large": sends_chunks(length=99999),
    "length-negative": sends_chunks(length=-1),
    "length-no-number": sends_chunks(length="x"),
    "size-negative": sends_chunks(sizes={0: b"-1"}),
    "size-plus": sends_chunks(sizes={0: b"+2000"}),
    "size-prefix": sends_chunks(sizes={0: b"0x2000"}),
    "size-overflow": sends_chunks(sizes={0: b"10000000000002000"}),
    "size-space": sends_chunks(sizes={0: b" 2000"}),
    "size-empty": sends_chunks(sizes={0: b""}),
    "size-huge": sends_chunks(sizes={0: b"7fffffffffffffff"}),
    "size-endless": sends_chunks(sizes={0: b"0" * 100_000}),
    "wrong-checksum": sends_chunks(REFUSED_OR_CLOSED, UNSIGNED, [CRC_TRAILER], trailers=b"x-amz-checksum-crc32:AAAAAA==\r\n"),
    "trailer-not-announced": sends_chunks(None, UNSIGNED, trailers=b"x-amz-meta-note:forged\r\nx-amz-tagging:a=b\r\n"),
    "trailer-is-a-source": sends_chunks(None, UNSIGNED, [("x-amz-trailer", "x-amz-copy-source")], trailers=b"x-amz-copy-source:/lake/$lake_secret_a\r\n"),
    "trailer-is-an-acl": sends_chunks(None, UNSIGNED, [("x-amz-trailer", "x-amz-acl")], trailers=b"x-amz-acl:public-read\r\n"),
    "trailer-is-a-condition": sends_chunks(None, UNSIGNED, [("x-amz-trailer", "if-none-match")], trailers=b"if-none-match:*\r\n"),
    "trailers-of-two-names": sends_chunks(None, UNSIGNED, [("x-amz-trailer", "x-amz-checksum-crc32, x-amz-meta-note")], trailers=b"x-amz-checksum-crc32:" + CRC + b"\r\nx-amz-meta-note:forged\r\n"),
    "trailer-twice": sends_chunks(None, UNSIGNED, [CRC_TRAILER], trailers=(b"x-amz-checksum-crc32:" + CRC + b"\r\n") * 2),
    "trailer-smuggles": sends_chunks(None, UNSIGNED, [CRC_TRAILER], trailers=b"x-amz-checksum-crc32:" + CRC + b"\r\n\r\nDELETE /lake/pub/own HTTP/1.1\r\nHost: x\r\n\r\n"),
    "trailer-endless": sends_chunks(None, UNSIGNED, [CRC_TRAILER], trailers=b"x-amz-checksum-crc32:" + b"A" * 300_000 + b"\r\n"),
    "trailers-many": sends_chunks(None, UNSIGNED, [CRC_TRAILER], trailers=b"".join(b"x-amz-meta-%d: y\r\n" % n for n in range(20000))),
    "signed-trailer-without-signature": sends_chunks(REFUSED_OR_CLOSED, SIGNED_TRAILER, [CRC_TRAILER], trailers=b"x-amz-checksum-crc32:" + CRC + b"\r\n"),
    "signed-trailer-with-a-wrong-one": sends_chunks(REFUSED_OR_CLOSED, SIGNED_TRAILER, [CRC_TRAILER], trailers=b"x-amz-checksum-crc32:" + CRC + b"\r\nx-amz-trailer-signature:" + b"0" * 64 + b"\r\n"),
    "called-unsigned-but-is-not-chunked": sends_chunks(None, "UNSIGNED-PAYLOAD"),
    "called-otherwise": sends_chunks(REFUSED_OR_CLOSED, "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"),
    "called-nonsense": sends_chunks(REFUSED_OR_CLOSED, "STREAMING-X"),
    "without-encoding": sends_chunks(None, content_encoding=""),
    "encoding-twice": sends_chunks(None, content_encoding="aws-chunked,aws-chunked"),
    "encoding-and-gzip": sends_chunks(None, content_encoding="aws-chunked,gzip"),
    "gzip-and-encoding": sends_chunks(None, content_encoding="gzip, AWS-Chunked"),
    "one-byte-chunks": sends_chunks(None, pieces=[b"x"] * 3000),
    "size-with-zeros": sends_chunks(None, sizes={0: b"00002000"}),
    "size-in-capitals": sends_chunks(None, pieces=[b"a" * 0xABC], sizes={0: b"ABC"}),
}  # fmt: skip


def in_pieces(request, pieces, pause, key="", closes=False):
    """Sends a request slowly, in so many pieces, and closes before an answer where that is asked for."""

    def flow(actor):
        encoded = actor.encoded(request, key)
        size = max(1, len(encoded) // pieces)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", actor.gateway.address.port)) as connection:
            for place in range(0, len(encoded), size):
                connection.sendall(encoded[place : place + size])
                time.sleep(pause)
            if not closes:
                answer = wire.exchange_on(connection, b"", request.method)
                actor.sent.append(encoded)
                actor.answers.append(answer)
        # What was handed on may be under way yet.
        time.sleep(0.3)

    return flow


def pipelined(*pairs):
    """Requests of several keys on one connection, all sent at once."""

    def flow(actor):
        sent = b"".join(actor.encoded(request, key) for key, request in pairs)
        answer = actor.send_bytes(sent)
        # Who was refused must not see what the other was given, so each is judged by the text between the heads.
        parts = re.split(rb"(?=HTTP/1\.1 \d)", answer.raw)[1:]
        for (key, request), part in zip(pairs, parts, strict=False):
            if key == "nothing" and b" 403 " not in part[:20]:
                actor.complaints.append(f"{request.method} of {key} is answered {part[:40]!r}")

    return flow


def add_wire():
    for carrier, (key, request) in CARRIERS.items():
        for framing, edit in FRAMINGS.items():
            # A length that was made 0 leaves the inner request on the connection, where it is one of its own.
            wanted = 2 if framing in ("length-and-zero", "two-lengths") else 1
            attack(f"wire-{carrier}-{framing}", key, flow=counted(request, wanted, edit=edit), rights="pub-both")
    for trick, flow in CHUNKS.items():
        attack(f"chunks-{trick}", "pub-writer", flow=flow)
    for trick, how in (
        ("put", put("/lake/pub/slow", NEW * 20)),
        ("deletion", deletion(document(ONLY_SECRET))),
        ("completion", post(PUB, "uploadId=$up_pub", COMPLETION)),
        ("get", get(SECRET)),
    ):
        attack(f"slow-{trick}", "pub-writer", flow=in_pieces(how, 12, 0.05))
        attack(f"slow-closed-{trick}", "pub-writer", flow=in_pieces(how, 6, 0.02, closes=True))
    attack("pipelined-keys", "pub-reader", flow=pipelined(("pub-reader", get(PUB)), ("nothing", get(PUB)), ("pub-reader", head(PUB)), ("nothing", head(PUB))))
    attack("pipelined-refused-first", "pub-reader", flow=pipelined(("nothing", get(SECRET)), ("pub-reader", get(PUB)), ("nothing", get(SECRET))))
    attack("pipelined-writes", "pub-both", flow=pipelined(("pub-both", put(OWN, NEW)), ("nothing", put(SECRET, NEW)), ("nothing", delete(SECRET)), ("pub-both", get(OWN))))
    for key in ("pub-writer", "nothing"):
        attack("long-target", key, get("/lake/secret/" + "x" * 70000), expects=REFUSED_OR_CLOSED | {414})
        attack("long-header", key, get(SECRET, "", ("x-amz-meta-a", "x" * 200_000)), expects=REFUSED_OR_CLOSED)
        attack("many-headers", key, get(SECRET, unsigned=[(f"a{n}", "b") for n in range(3000)]), expects=REFUSED_OR_CLOSED)
        attack("many-parameters", key, get(SECRET, "&".join(f"a{n}=b" for n in range(5000))), expects=REFUSED_OR_CLOSED)
    for trick, target in (
        ("absolute", "http://s3.localhost/lake/$lake_secret_a"),
        ("absolute-other-host", "http://lake.s3.localhost/$lake_secret_a"),
        ("absolute-with-user", "http://a:b@s3.localhost/lake/$lake_secret_a"),
        ("authority", "s3.localhost:80"),
        ("star", "*"),
        ("tab", "/lake/$lake_secret_a\t/lake/$lake_pub_a"),
        ("space", "/lake/$lake_secret_a /lake/$lake_pub_a"),
        ("no-slash", "lake/$lake_secret_a"),
    ):
        for method in ("GET", "DELETE"):
            attack(f"target-{trick}-{method.lower()}", "pub-both", Request(method, PUB, target=target), expects=REFUSED_OR_CLOSED)


    # What is behind a fragment or a second question mark must not be read as another path.
    behind = Request("GET", PUB, target="/lake/$lake_pub_a#/../../lake/$lake_secret_a")
    attack("target-fragment-get", "pub-both", behind)
    attack("target-fragment-delete", "pub-both", Request("DELETE", PUB, target=behind.target))
    attack("target-two-queries-get", "pub-both", get(PUB, "?/../../lake/$lake_secret_a"))
    attack("target-two-queries-delete", "pub-both", delete(PUB, "?/../../lake/$lake_secret_a"))


# --- 6. writes and the reads after them, under each freshness

BEFORE = {
    "get": lambda path: get(path),
    "head": lambda path: head(path),
    "range": lambda path: get(path, "", ("Range", "bytes=3-11")),
    "suffix": lambda path: get(path, "", ("Range", "bytes=-7")),
    "unless-same": lambda path: get(path, "", ("If-None-Match", '"x"')),
    "since": lambda path: get(path, "", ("If-Modified-Since", "Tue, 01 Jan 2019 00:00:00 GMT")),
    "part": lambda path: get(path, "partNumber=1"),
}


def agrees(actor, request, when):
    """What Zonal answers now is what the origin answers."""
    here = actor.send(request, key="all")
    filled = actor.filled(request)
    root = actor.world.root
    there = root.send(filled.encode(root.address, root.key), request.method)
    one, other = judge.comparable(here, request.method), judge.comparable(there, request.method)
    for name, answer in (("content-range", one), ("content-range", other)):
        source = here if answer is one else there
        if source.status == 206:
            answer[name] = source.header(name)
    if "partNumber" in filled.query and {here.status, there.status} == {200, 206}:
        # A server that knows no parts answers with the whole object: the same bytes under another status.
        for answer in (one, other):
            del answer["status"]
            answer.pop("content-range", None)
    if one != other and not (here.status == 502 and judge.is_no_error_of_s3(there)):
        actor.complaints.append(f"stale {when}: {request.method} {filled.path} is {here} ({here.header('x-cache')}), the origin says {there}: {judge.fields(one, other)}")


def completes(path):
    def write(actor):
        upload = begun(actor, path, key="all")
        part = actor.send(put(path, NEW, query=f"partNumber=1&uploadId={upload}"), key="all")
        finish(actor, path, upload, etag_of(part), key="all")

    return write


def signed_chunks(path, **how):
    return lambda actor: actor.send_bytes(chunked(actor, put(path), SIGNED, TWO, key="all", **how), "PUT")


def http_chunked(path):
    body = b"5\r\nhello\r\n0\r\n\r\n"
    return put(path, b"", wire_body=body, length="", unsigned=[("Transfer-Encoding", "chunked")], signing=Signing(payload="UNSIGNED-PAYLOAD"))


REPLACE = ("x-amz-metadata-directive", "REPLACE")
TAGGED = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag><Tag><Key>c</Key><Value>d</Value></Tag></TagSet></Tagging>"
WRITES = {
    "put": lambda path: put(path, NEW),
    "put-same-size": lambda path: put(path, b"z" * 270),
    "put-empty": lambda path: put(path, b""),
    "put-presigned": lambda path: put(path, NEW, signing=Signing(where="query")),
    "put-unframed": http_chunked,
    "put-signed-chunks": signed_chunks,
    "put-tampered-chunks": lambda path: signed_chunks(path, tampered={1: b"y" * 100}),
    "put-wrong-hash": lambda path: put(path, NEW, wire_body=b"x" * len(NEW)),
    "put-refused-condition": lambda path: put(path, NEW, ("If-Match", '"x"')),
    "copy-onto": lambda path: put(path, b"", ("x-amz-copy-source", "/lake/$lake_top")),
    "copy-onto-itself": lambda path: put(path, b"", ("x-amz-copy-source", path), REPLACE, ("Content-Type", "text/new"), ("x-amz-meta-note", "new")),
    "complete": completes,
    "delete": lambda path: delete(path),
    "delete-many": lambda path: deletion(document(entry(path.split("/", 2)[2]))),
    "delete-many-references": lambda path: deletion(document(entry("&#112;" + path.split("/", 2)[2][1:])) if path != PUB else document(entry("<![CDATA[$lake_pub_a]]>"))),
    "tags": lambda path: put(path, TAGGED, query="tagging="),
}


def reads_around(path, before, write):
    def flow(actor):
        for _ in range(2):
            actor.send(before(path), key="all")
        written = write(path)
        if callable(written):
            written(actor)
        else:
            actor.send(written, key="all")
        for request in (before(path), get(path), head(path), before(path)):
            agrees(actor, request, "after the write")

    return flow


def sizes_of(path, count):
    return [put(path, bytes([65 + n]) * (10 + n)) for n in range(count)]


def raced(requests_of_threads, reads, rounds=6):
    """Writers and readers at once; when all are done, what is read is what the origin has."""

    def flow(actor):
        address = actor.gateway.address
        for _ in range(rounds):
            threads = [
                threading.Thread(target=wire.exchange, args=(address, actor.encoded(request, "all"), request.method))
                for request in [*requests_of_threads, *reads, *reads]
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for request in reads:
                agrees(actor, request, "after a race")

    return flow


BIG = "/lake/pub/large"


def overwritten_while_read(is_cold):
    """A reader in the middle of 24 MiB gets one version or a broken answer, never both; the next one gets the new."""

    def flow(actor):
        old, new = b"o" * (24 * 1024 * 1024), b"n" * (24 * 1024 * 1024)
        address = actor.gateway.address
        wire.exchange(address, actor.encoded(put(BIG, old), "all"), "PUT")
        if not is_cold:
            read_all(actor, BIG)
        with socket.create_connection(("127.0.0.1", address.port)) as connection:
            connection.settimeout(wire.SILENCE_SECONDS_MAX)
            connection.sendall(actor.encoded(get(BIG), "all"))
            first = connection.recv(65536)
            wire.exchange(address, actor.encoded(put(BIG, new), "all"), "PUT")
            body = drained(connection, first, len(old))
        if set(body) - {ord("o")}:
            actor.complaints.append("stale: a read under way has bytes of two versions")
        if (seen := set(read_all(actor, BIG))) != {ord("n")}:
            actor.complaints.append(f"stale: after the overwrite {seen} is read")
        wire.exchange(address, actor.encoded(delete(BIG), "all"), "DELETE")

    return flow


def drained(connection, first, length):
    raw = [first]
    count = len(first)
    with contextlib.suppress(OSError):
        while count < length + 64 and (piece := connection.recv(1 << 20)):
            raw.append(piece)
            count += len(piece)
            head_bytes = b"".join(raw[:2]).find(b"\r\n\r\n")
            if 0 <= head_bytes and length + head_bytes + 4 <= count:
                break
    return b"".join(raw).partition(b"\r\n\r\n")[2]


def read_all(actor, path):
    with socket.create_connection(("127.0.0.1", actor.gateway.address.port)) as connection:
        connection.settimeout(wire.SILENCE_SECONDS_MAX)
        connection.sendall(actor.encoded(get(path, unsigned=[("Connection", "close")]), "all"))
        return drained(connection, b"", 24 * 1024 * 1024)


def left(request, share, reads=4):
    """The client of a write goes away after a part of it, while others read."""

    def flow(actor):
        encoded = actor.encoded(request, "all")
        body_at = encoded.index(b"\r\n\r\n") + 4
        cut = body_at + int((len(encoded) - body_at) * share)
        path = request.path
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", actor.gateway.address.port)) as connection:
            connection.sendall(encoded[:cut])
        for _ in range(reads):
            actor.send(get(path), key="all")
            time.sleep(0.02)
        time.sleep(0.4)
        agrees(actor, get(path), "after its client was gone")
        agrees(actor, head(path), "after its client was gone")

    return flow


def appears(write):
    """A name that was remembered as missing."""

    def flow(actor):
        for request in (get(ABSENT), head(ABSENT), get(ABSENT, "", ("Range", "bytes=0-0"))):
            actor.send(request, key="all")
        written = write(ABSENT)
        if callable(written):
            written(actor)
        else:
            actor.send(written, key="all")
        for request in (get(ABSENT), head(ABSENT), get(ABSENT, "", ("Range", "bytes=0-0"))):
            agrees(actor, request, "after it appeared")

    return flow


def parents(actor):
    """A name below another makes folders, and takes them away: what was missing or there may not stay so."""
    names = ["/lake/pub/nest", "/lake/pub/nest/", "/lake/pub/nest/in", "/lake/pub/nest/in/"]
    for write in (put("/lake/pub/nest/in/x", NEW), delete("/lake/pub/nest/in/x"), put("/lake/pub/nest/", b""), put("/lake/pub/nest/in/x", NEW), delete("/lake/pub/nest/"), delete("/lake/pub/nest/in/x")):
        for name in names:
            actor.send(get(name), key="all")
            actor.send(head(name), key="all")
        actor.send(write, key="all")
        for name in names:
            agrees(actor, get(name), f"after {write.method} {write.path}")
            agrees(actor, head(name), f"after {write.method} {write.path}")


def odd_name(encoded, escaped):
    """A name that a document spells otherwise than a path."""

    def flow(actor):
        path = f"/lake/pub/odd{encoded}"
        near = ["/lake/pub/odd", "/lake/pub/odd%0A", "/lake/pub/odd%20", "/lake/pub/odd%0D"]
        for name in {path, *near}:
            actor.send(put(name, NEW), key="all")
            actor.send(get(name), key="all")
        actor.send(deletion(document(entry(f"pub/odd{escaped}"))), key="all")
        for name in (path, *near):
            agrees(actor, get(name), "after the deletion")
        # Lists may show such a name otherwise than it is, so it is removed by those who know it.
        for name in (path, *near):
            actor.send(delete(name), key="all")

    return flow


ODD_NAMES = {
    "return": ("%0D", "&#13;"),
    "bare-return": ("%0A", "\r"),
    "return-and-feed": ("%0A", "\r\n"),
    "feed": ("%0A", "&#10;"),
    "tab": ("%09", "&#9;"),
    "space": ("%20", " "),
    "ampersand": ("%26", "&amp;"),
    "less": ("%3C", "&lt;"),
    "greater-in-cdata": ("%5D%5D%3E", "]]&gt;"),
    "quote": ("%22", "&quot;"),
    "percent": ("%2525", "%25"),
    "plus": ("%2B", "+"),
    "plus-or-space": ("%20", "+"),
    "composed": ("%C3%A9", "\u00e9"),
    "decomposed": ("e%CC%81", "e\u0301"),
    "control": ("%01", "&#1;"),
    "emoji": ("%F0%9F%98%80", "&#128512;"),
    "replacement": ("%EF%BF%BD", "&#xFFFD;"),
    "noncharacter": ("%EF%BF%BE", "&#xFFFE;"),
}


def locked(sub, body):
    """A lock shows in the heads of objects."""

    def flow(actor):
        path = "/locked-by-an-attack/x"
        actor.send(put("/locked-by-an-attack", b"", ("x-amz-bucket-object-lock-enabled", "true")))
        actor.send(put(path, NEW, ("Content-MD5", DIGEST)))
        for request in (get(path), head(path)):
            actor.send(request)
        actor.send(put(path, body, ("Content-MD5", DIGEST), query=f"{sub}="))
        for request in (get(path), head(path)):
            here = actor.send(request)
            # Heads come from HEAD: versitygw leaves the lock out of the answer to a GET.
            filled, root = actor.filled(head(path)), actor.world.root
            there = root.send(filled.encode(root.address, root.key), "HEAD")
            for name in ("x-amz-object-lock-legal-hold", "x-amz-object-lock-mode"):
                if here.header(name) != there.header(name):
                    actor.complaints.append(f"stale: {request.method} says {name} {here.header(name)}, the origin {there.header(name)}")
        if sub == "legal-hold":
            actor.send(put(path, body.replace(b"ON", b"OFF"), ("Content-MD5", DIGEST), query=f"{sub}="))

    return flow


def origins_of_pages(actor):
    """What is cached for the page of one site must not be given to another as its own."""
    for page in ("http://one", "http://two", None, "http://three"):
        headers = [("Origin", page)] if page else []
        request = get(PUB, "", *headers)
        here = actor.send(request, key="all")
        root = actor.world.root
        there = root.send(actor.filled(request).encode(root.address, root.key), "GET")
        one, other = here.header("access-control-allow-origin"), there.header("access-control-allow-origin")
        if one not in (None, other):
            actor.complaints.append(f"for {page} {one} is allowed, at the origin {other}")


def marker_removed(actor):
    """Removing the mark of a deletion makes the object appear again."""
    path = "/vers/$vers_pub_v"
    gone = actor.send(delete(path), key="all")
    for request in (get(path), head(path)):
        agrees(actor, request, "after its deletion")
    version = gone.header("x-amz-version-id") or "null"
    actor.send(delete(path, f"versionId={worlds.quoted(version)}"), key="all")
    for request in (get(path), head(path), get(path, "", ("Range", "bytes=0-9"))):
        agrees(actor, request, "after the mark was removed")


def marker_removed_by_a_document(actor):
    path = "/vers/$vers_pub_v"
    gone = actor.send(delete(path), key="all")
    actor.send(get(path), key="all")
    version = gone.header("x-amz-version-id") or "null"
    body = document(entry("$vers_pub_v", f"<VersionId>{version}</VersionId>"))
    actor.send(deletion(body, path="/vers"), key="all")
    for request in (get(path), head(path)):
        agrees(actor, request, "after the mark was removed")


def versions_read(write):
    """Reads that name a version, around a write of it."""

    def flow(actor):
        path = "/vers/$vers_pub_v"
        reads = [get(path, "versionId=$old_pub"), head(path, "versionId=$old_pub"), get(path, "versionId=$new_pub"), get(path), head(path)]
        for request in [*reads, *reads]:
            actor.send(request, key="all")
        actor.send(write, key="all")
        for request in reads:
            agrees(actor, request, "after the write")

    return flow


def many_names(actor):
    """One document, 300 names that were all cached."""
    names = [f"pub/many-{number}" for number in range(300)]
    for name in names[::10]:
        actor.world.root.call("PUT", f"/lake/{name}", body=NEW)
        actor.gateway.session.call("GET", f"/lake/{name}")
    actor.send(deletion(document("".join(map(entry, names)))), key="all")
    for name in names[::10]:
        agrees(actor, get(f"/lake/{name}"), "after the deletion")


def settings_changed(query, body):
    def flow(actor):
        for request in (get(PUB), head(PUB)):
            actor.send(request, key="all")
        actor.send(put("/lake", body, ("Content-MD5", DIGEST), query=query), key="all")
        for request in (get(PUB), head(PUB), get("/lake/$lake_top")):
            agrees(actor, request, f"after {query}")

    return flow


ENABLED = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
LONG = b"q" * 3_000_000


def add_stale():
    def stale(trick, flow, needs=()):
        attack(trick, "all", flow=flow, family="fresh-stale", needs=frozenset(needs))

    for read, before in BEFORE.items():
        for name, write in WRITES.items():
            needs = {"tags": ("tags",), "complete": ("uploads",)}.get(name, ())
            # Of an empty object each origin answers the last bytes otherwise: all, none, or 416.
            if (read, name) != ("suffix", "put-empty"):
                stale(f"{read}-around-{name}", reads_around(PUB, before, write), needs)
    for name in ("put", "put-presigned", "put-unframed", "put-signed-chunks", "put-wrong-hash", "put-refused-condition", "copy-onto", "complete", "put-empty"):
        stale(f"missing-then-{name}", appears(WRITES[name]), {"complete": ("uploads",)}.get(name, ()))
    reads = [get(PUB), head(PUB), get(PUB, "", ("Range", "bytes=0-3"))]
    stale("race-of-puts", raced(sizes_of(PUB, 4), reads))
    stale("race-of-put-and-delete", raced([*sizes_of(PUB, 2), delete(PUB)], reads))
    stale("race-of-copies", raced([put(PUB, b"", ("x-amz-copy-source", "/lake/$lake_top")), put(PUB, b"", ("x-amz-copy-source", "/lake/$lake_private_a"))], reads))
    stale("race-of-documents", raced([deletion(document(entry("$lake_pub_a"))), put(PUB, NEW)], reads))
    stale("race-of-tags", raced([put(PUB, TAGGED, query="tagging="), delete(PUB, "tagging="), put(PUB, NEW)], reads), ("tags",))
    stale("race-of-a-missing-name", raced([*sizes_of(ABSENT, 2), delete(ABSENT)], [get(ABSENT), head(ABSENT)]))
    stale("race-of-two-spellings", raced([put("/%6cake/%70ub/$pub_leaf", NEW), put(PUB, b"other")], reads))
    stale("overwritten-while-read", overwritten_while_read(False))
    stale("overwritten-while-fetched", overwritten_while_read(True))
    for share in (0, 0.3, 0.99, 1):
        stale(f"client-left-{share}-put", left(put(PUB, LONG), share))
        stale(f"client-left-{share}-missing", left(put(ABSENT, LONG), share))
    stale("client-left-delete", left(delete(PUB), 1))
    stale("client-left-copy", left(put(PUB, b"", ("x-amz-copy-source", "/lake/$lake_pub_big")), 1))
    stale("folders", parents)
    for trick, (encoded, escaped) in ODD_NAMES.items():
        stale(f"name-{trick}", odd_name(encoded, escaped))
    hold = b"<LegalHold><Status>ON</Status></LegalHold>"
    stale("legal-hold", locked("legal-hold", hold), ("versions",))
    stale("pages", origins_of_pages)
    stale("mark-removed", marker_removed, ("versions",))
    stale("mark-removed-by-a-document", marker_removed_by_a_document, ("versions",))
    for trick, write in (
        ("put", put("/vers/$vers_pub_v", NEW)),
        ("delete", delete("/vers/$vers_pub_v")),
        ("delete-older", delete("/vers/$vers_pub_v", "versionId=$old_pub")),
        ("delete-newest", delete("/vers/$vers_pub_v", "versionId=$new_pub")),
        ("document-older", deletion(document(entry("$vers_pub_v", "<VersionId>$old_pub</VersionId>")), path="/vers")),
        ("document-newest", deletion(document(entry("$vers_pub_v", "<VersionId>$new_pub</VersionId>")), path="/vers")),
        ("tags-older", put("/vers/$vers_pub_v", TAGGED, query="tagging=&versionId=$old_pub")),
        ("copy-of-older", put("/vers/$vers_pub_v", b"", ("x-amz-copy-source", "/vers/$vers_pub_v?versionId=$old_pub"))),
    ):
        stale(f"version-{trick}", versions_read(write), ("versions",))
    stale("document-of-300", many_names)
    stale("versioning-on", settings_changed("versioning=", ENABLED))


# --- 7. where the origin judges

SOURCE_FORMS = ("plain", "without-slash", "up", "up-encoded", "all-encoded", "slash-encoded", "two-slashes", "version-null", "access-point", "nul-encoded")


def smuggles_to_the_origin(request, framing):
    """The user's refused write has a body that is a request. The connection to the origin must not read it as one."""

    def flow(actor):
        inner = b"GET /lake/x HTTP/1.1\r\nHost: x\r\n\r\n" * 400
        sent = actor.encoded(Request(request.method, request.path, request.query, request.headers, inner))
        for _ in range(4):
            answer = actor.send_bytes(FRAMINGS[framing](sent) if FRAMINGS[framing] else sent, request.method)
            if answer.count > 1 and framing == "plain":
                actor.complaints.append(f"{answer.count} answers to one request")

    return flow


def add_as_signed():
    def signed(trick, key, requests=None, **more):
        attack(f"fresh-{trick}", key, requests, family="as-signed", **more)

    for trick in SOURCE_FORMS:
        source = source_of(SOURCES[trick], "lake", "$lake_secret_a")
        signed(f"copy-{trick}", "nothing", put(OWN, b"", ("x-amz-copy-source", source)))
    for trick in ("both", "version-1-1", "nul-bytes", "invalid-bytes", "cdata-over-objects", "two-marks"):
        body = document(BOTH) if trick == "both" else STRUCTURES[trick]
        signed(f"document-{trick}", "nothing", deletion(body))
    for operation, request in operations_of_an_upload(SECRET, "$up_secret").items():
        signed(f"upload-{operation}", "nothing", request, needs=frozenset({"uploads"}))
    for trick, request in READS.items():
        path = request.path.replace("$t", "$lake_secret_a")
        query = request.query.replace("$t", "$lake_secret_a")
        signed(f"read-{trick}", "nothing", Request(request.method, path, query, request.headers, request.body))
    for framing in ("plain", "chunked-too", "expect", "old-version", "upgrade", "length-and-zero", "chunked-gzip", "chunked-twice"):
        for name, request in (("put", put(SECRET)), ("get", get(SECRET)), ("deletion", post("/lake", "delete="))):
            signed(f"smuggled-{name}-{framing}", "nothing", flow=smuggles_to_the_origin(request, framing))
    signed("control-copy", "all", put(OWN, b"", ("x-amz-copy-source", "/lake/$lake_pub_a")), expects=OK)


add_spellings()
add_structures()
add_copies()
add_uploads()
add_oracles()
add_wire()
add_stale()
add_as_signed()
ATTACKS = BUILT
