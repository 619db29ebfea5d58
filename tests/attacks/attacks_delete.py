"""Documents that name objects: what the gateway reads out of them must be what the origin reads."""

import gzip

from attack import DIGEST, Attack, post
from attacks_access import COMPLETE, deletion
from wire import Signing

ALLOWED, SECRET = "$lake_pub_b", "$lake_secret_a"


def document(objects, before="", root="Delete", attributes=""):
    return f"{before}<{root}{attributes}>{objects}</{root}>".encode()


def entry(key, more=""):
    return f"<Object><Key>{key}</Key>{more}</Object>"


ENTITY = '<!DOCTYPE Delete [<!ENTITY e "pub/">]>'
FILE = '<!DOCTYPE Delete [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
BOMB = '<!DOCTYPE Delete [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>'
BOTH = entry(ALLOWED) + entry(SECRET)
# Documents of which one reading names only what is allowed, and another the secret.
DOCUMENTS = [
    ("plain", document(entry(SECRET))),
    ("both", document(BOTH)),
    ("child-before", document(entry(f"<x>pub/</x>{SECRET}"))),
    ("child-after", document(entry(f"{SECRET}<x>pub/</x>"))),
    ("child-is-the-key", document("<Object><Key>pub/<Key>" + SECRET + "</Key></Key></Object>")),
    ("child-empty", document(entry(f"<x/>{SECRET}"))),
    ("children-around", document(entry(f"<x>pub/</x>{SECRET}<y/>"))),
    ("child-in-the-middle", document(entry("secret<x>pub/</x>/$secret_leaf"))),
    ("child-with-namespace", document(entry(f"<x xmlns='urn:x'>pub/</x>{SECRET}"))),
    ("comment-before", document(entry(f"<!--pub/-->{SECRET}"))),
    ("comment-within", document(entry("secret/<!--x-->$secret_leaf"))),
    ("comment-splits-allowed", document(entry(f"pub/<!-- -->../{SECRET}"))),
    ("comment-around-an-object", document(entry(ALLOWED) + f"<!-- --><!-->{entry(SECRET)}<!-- -->")),
    ("instruction", document(entry(f"<?x pub/?>{SECRET}"))),
    ("cdata", document(entry(f"<![CDATA[{SECRET}]]>"))),
    ("cdata-and-text", document(entry(f"<![CDATA[]]>{SECRET}"))),
    ("cdata-holds-markup", document(entry(f"{ALLOWED}<![CDATA[</Key></Object><Object><Key>{SECRET}]]>"))),
    ("entity", document(entry(f"&e;{SECRET}"), ENTITY)),
    ("entity-unknown", document(entry(f"&pub;{SECRET}"))),
    ("entity-file", document(entry("&e;"), FILE)),
    ("entity-bomb", document(entry("&c;"), BOMB)),
    ("doctype", document(entry(SECRET), "<!DOCTYPE Delete>")),
    ("numeric-entities", document(entry("&#112;ub/..&#47;" + SECRET))),
    ("numeric-entity-secret", document(entry("&#115;ecret/$secret_leaf"))),
    ("numeric-entity-nul", document(entry(f"{SECRET}&#0;"))),
    ("two-keys-allowed-first", document(f"<Object><Key>{ALLOWED}</Key><Key>{SECRET}</Key></Object>")),
    ("two-keys-allowed-last", document(f"<Object><Key>{SECRET}</Key><Key>{ALLOWED}</Key></Object>")),
    ("key-in-lower-case", document(f"<Object><Key>{ALLOWED}</Key><key>{SECRET}</key></Object>")),
    ("key-in-upper-case", document(f"<Object><KEY>{SECRET}</KEY><Key>{ALLOWED}</Key></Object>")),
    ("key-with-namespace", document(f"<Object><Key>{ALLOWED}</Key><x:Key xmlns:x='urn:x'>{SECRET}</x:Key></Object>")),
    ("key-with-prefix", document(f"<Object xmlns:x='urn:x'><x:Key>{SECRET}</x:Key><Key>{ALLOWED}</Key></Object>")),
    ("key-with-unknown-prefix", document(f"<Object><x:Key>{SECRET}</x:Key><Key>{ALLOWED}</Key></Object>")),
    ("key-as-an-attribute", document(f"<Object Key='{SECRET}'><Key>{ALLOWED}</Key></Object>")),
    ("key-beside-the-object", document(f"<Key>{SECRET}</Key>{entry(ALLOWED)}")),
    ("key-deeper", document(f"<Object><x><Key>{SECRET}</Key></x><Key>{ALLOWED}</Key></Object>")),
    ("name-for-the-key", document(f"<Object><Key>{ALLOWED}</Key><ObjectName>{SECRET}</ObjectName></Object>")),
    ("object-in-an-object", document(f"<Object><Key>{ALLOWED}</Key>{entry(SECRET)}</Object>")),
    ("object-in-lower-case", document(f"{entry(ALLOWED)}<object><Key>{SECRET}</Key></object>")),
    ("object-with-namespace", document(f"{entry(ALLOWED)}<x:Object xmlns:x='urn:x'><Key>{SECRET}</Key></x:Object>")),
    ("object-in-another-element", document(f"{entry(ALLOWED)}<Objects>{entry(SECRET)}</Objects>")),
    ("root-in-a-root", document(f"{entry(ALLOWED)}<Delete>{entry(SECRET)}</Delete>")),
    ("root-around", document(document(entry(SECRET)).decode(), root="X")),
    ("root-of-another-name", document(entry(SECRET), root="DeleteObjects")),
    ("root-with-namespace", document(entry(SECRET), attributes=" xmlns='urn:x'")),
    ("two-roots", document(entry(ALLOWED)) + document(entry(SECRET))),
    ("two-roots-secret-first", document(entry(SECRET)) + document(entry(ALLOWED))),
    ("text-behind-the-root", document(entry(ALLOWED)) + SECRET.encode()),
    ("two-declarations", b"<?xml version='1.0'?><?xml version='1.0'?>" + document(BOTH)),
    ("declared-latin", b"<?xml version='1.0' encoding='ISO-8859-1'?>" + document(entry(f"pub/\u00e9/../../{SECRET}"))),
    ("declared-utf-7", b"<?xml version='1.0' encoding='UTF-7'?>" + document(entry(ALLOWED) + "+ADw-Object+AD4-")),
    ("declared-utf-16", b"<?xml version='1.0' encoding='UTF-16'?>" + document(BOTH)),
    ("byte-order-mark", b"\xef\xbb\xbf" + document(BOTH)),
    ("space-before", b"\n\n" + document(BOTH)),
    ("space-around-the-key", document(entry(f" {SECRET} "))),
    ("newline-around-the-key", document(entry(f"\n{SECRET}\n"))),
    ("carriage-return", document(entry(f"{SECRET}\r"))),
    ("slash-before-the-key", document(entry(f"/{SECRET}"))),
    ("slash-behind-the-key", document(entry(f"{SECRET}/"))),
    ("dots", document(entry(f"pub/../{SECRET}"))),
    ("dot", document(entry(f"./{SECRET}"))),
    ("empty-segment", document(entry("secret//$secret_leaf"))),
    ("encoded-key", document(entry("secret%2F$secret_leaf"))),
    ("backslash", document(entry(f"pub\\..\\{SECRET}"))),
    ("other-bucket", document(entry("../other/$other_secret_a"))),
    ("folder", document(entry("secret/"))),
    ("empty-key", document(entry(""))),
    ("no-key", document("<Object></Object>")),
    ("only-a-slash", document(entry("/"))),
    ("tag-never-closed", b"<Delete>" + BOTH.encode()),
    ("cut", document(BOTH)[:-20]),
    ("bucket-in-the-document", document(f"<Bucket>other</Bucket>{entry('$other_secret_a')}")),
    ("quiet-child", document(f"<Quiet><Object><Key>{SECRET}</Key></Object></Quiet>{entry(ALLOWED)}")),
    ("version-holds-a-key", document(entry(ALLOWED, f"<VersionId>null</VersionId><Key>{SECRET}</Key>"))),
    ("version-is-a-path", document(entry(ALLOWED, f"<VersionId>../../{SECRET}</VersionId>"))),
    ("gzip-magic", gzip.compress(document(entry(SECRET)))),
    ("json", b'{"Objects":[{"Key":"$lake_secret_a"}]}'),
    ("too-many", document("".join(entry(f"pub/x{number}") for number in range(1001)) + entry(SECRET))),
]
PLAIN = document(entry(SECRET))
# The same document in other wrappings.
WRAPPED = [
    ("gzip", post("/lake", "delete=", gzip.compress(document(entry(ALLOWED))), ("Content-Encoding", "gzip"), ("x-amz-checksum-crc32", "AAAAAA=="))),
    ("chunked-content", post("/lake", "delete=", b"5\r\n" + PLAIN[:5] + b"\r\n", ("Content-Encoding", "aws-chunked"), signing=Signing(payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER"))),
    ("parameter-twice", deletion(PLAIN, query="delete=&delete=")),
    ("parameter-with-value", deletion(PLAIN, query="delete=true")),
    ("parameter-in-upper-case", deletion(PLAIN, query="Delete=")),
    ("parameter-encoded", deletion(PLAIN, query="%64elete=")),
    ("parameter-and-uploads", deletion(PLAIN, query="delete=&uploads=")),
    ("parameter-and-tagging", deletion(PLAIN, query="tagging=&delete=")),
    ("parameter-and-version", deletion(PLAIN, query="delete=&versionId=null")),
    ("multi-delete", deletion(PLAIN, query="multi-delete=")),
    ("at-a-folder", deletion(PLAIN, "/lake/pub/")),
    ("at-an-object", deletion(PLAIN, "/lake/pub/x")),
    ("with-a-slash", deletion(PLAIN, "/lake/")),
    ("with-two-slashes", deletion(PLAIN, "//lake")),
    ("at-the-root", deletion(PLAIN, "/")),
    ("in-another-bucket", deletion(document(entry("$other_secret_a")), "/other")),
    ("virtual-hosted", post("/", "delete=", PLAIN, ("Content-MD5", DIGEST), host="lake.s3.localhost")),
]
MISMATCHED = [
    ("wrong-digest", post("/lake", "delete=", document(entry(ALLOWED)), ("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="))),
    ("wrong-hash", post("/lake", "delete=", document(entry(ALLOWED)), signing=Signing(payload="0" * 64))),
    ("wrong-checksum", post("/lake", "delete=", document(entry(ALLOWED)), ("x-amz-checksum-crc32", "AAAAAA=="))),
    ("other-body-than-signed", post("/lake", "delete=", document(entry("pub/x")), wire_body=document(entry(ALLOWED)))),
]  # fmt: skip
UPLOADS = [
    ("complete-for-another", post("/lake/$lake_pub_a", "uploadId=$up_secret", COMPLETE)),
    ("complete-twice-named", post("/lake/$lake_pub_a", "uploadId=$up_pub&uploadId=$up_secret", COMPLETE)),
    ("complete-twice-named-secret-first", post("/lake/$lake_pub_a", "uploadId=$up_secret&uploadId=$up_pub", COMPLETE)),
    ("complete-and-delete", post("/lake/$lake_pub_a", "uploadId=$up_secret&delete=", PLAIN)),
    ("complete-entities", post("/lake/$lake_pub_a", "uploadId=$up_pub", FILE.encode() + b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&e;</ETag></Part></CompleteMultipartUpload>")),
]  # fmt: skip
CORE = ("child-before", "child-after", "two-keys-allowed-last", "entity")


def utf_16(trick, bom, codec):
    """A document in two bytes for each character: its names are filled in first."""

    def flow(actor):
        text = actor.substituted("<?xml version='1.0' encoding='UTF-16'?>" + document(BOTH).decode())
        actor.send(deletion(bom + text.encode(codec)))

    return Attack("delete", trick, "pub-writer", flow=flow)


ATTACKS = [
    Attack("delete", trick, key, [deletion(body)], is_core=trick in CORE)
    for trick, body in DOCUMENTS
    for key in ("pub-writer", "not-secret")
]
ATTACKS += [Attack("delete", trick, "pub-writer", [request]) for trick, request in WRAPPED + UPLOADS]
# Whoever changes a body on its way has no rights at all.
ATTACKS += [Attack("delete", trick, "pub-writer", [request], rights="nothing") for trick, request in MISMATCHED]
ATTACKS += [
    utf_16("utf-16-little", b"\xff\xfe", "utf-16-le"),
    utf_16("utf-16-big", b"\xfe\xff", "utf-16-be"),
    utf_16("utf-16-unmarked", b"", "utf-16-le"),
    Attack("delete", "versions", "not-secret", [deletion(document(entry("$vers_pub_v", "<VersionId>$old_secret</VersionId>")), "/vers")]),
    Attack("delete", "versions-child", "not-secret", [deletion(document(entry("<x>pub/</x>$vers_secret_v", "<VersionId>$old_secret</VersionId>")), "/vers")]),
]  # fmt: skip
