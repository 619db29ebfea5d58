//! Generator of `docs/s3-operations.md` from the table.

#![cfg(test)]

use std::fmt::Write;

use super::names::VENDORS;
use super::row::{Field, Level, NameKind};
use super::{ApiOperation, Cached, Invalidates, Permission, fields};
use crate::bypass::BypassReason;

const HEAD: &str = "\
# The operations of S3 that are served

This page is made from the table in `crates/gateway/src/api/table.rs`, which authorization, invalidation and forwarding follow; a test
holds the two together.

With `endpoint.authorization = \"keys\"` Zonal lends its own identity at the origin to whoever holds one of its keys. So a request is
parsed, judged and written anew; the origin gets what was judged and nothing else.

- An operation that is not in the table is answered `501 NotImplemented`, after authentication. So is a parameter that an operation does
  not have, when it has no value or a vendor's prefix, or when the operation is no read: it may be the name of another operation.
- An id of a version or an upload that could be a path out of its folder (`..`, a backslash, a control character) is answered `400 InvalidArgument`.
- Headers and parameters of the operation are written anew. Values that decide nothing here are not looked at: the origin judges them.
- A write with a header that has a vendor's prefix and is not the operation's is answered `400 InvalidArgument` with its name, after
  authentication. `headers.passed` can name headers that writes carry all the same.
- A read with such a header is answered without it: the header is dropped, and the answer is `X-Cache: BYPASS` with its name in
  `X-Cache-Reason`, unless `headers.harmless` names it.
- Any other header is dropped. So is one with an underscore in its name, which some servers take for a hyphen; only below
  `x-amz-meta-` names may have them.
- What decides and is there twice, or as a header and as a parameter with two values, is answered `400 InvalidRequest`.
- `x-amz-meta-*` is the client's own. Some origins take `x-amz-meta-snowball-*`, `x-amz-meta-minio-*` and `x-amz-meta-x-minio-*` for
  orders: these are answered 400 as well, with underscores in place of hyphens too.
- A request with an `uploadId` is handed on when the origin lists that upload under the object's name: to some origins the id is the
  name of an object. Who may read and write everything is not asked for that.
- `x-amz-trailer` announces a checksum, or nothing: to some origins another trailer is a header of the request.
- A presigned URL may carry headers as parameters; they are handed on as headers, and judged as such. A checksum of the body is
  not among them: origins take no notice of `x-amz-checksum-*` and `x-amz-sdk-checksum-algorithm` in a query, and the SDK for
  JavaScript names the checksum of nothing there. A value that no header can have is answered 400, a name that none can have 501.

";

/// Description of a right.
const fn need(need: Permission) -> &'static str {
    match need {
        Permission::ReadObject => "read the object",
        Permission::WriteObject => "write the object",
        Permission::ReadSource => "read the source",
        Permission::ListPrefix => "read all below the prefix",
        Permission::SomeOfBucket => "anything in the bucket",
        Permission::ReadBucket => "read the whole bucket",
        Permission::WriteBucket => "write the whole bucket",
        Permission::AllOfBucket => "read and write the whole bucket",
        Permission::Anything => "anything anywhere",
        Permission::Everything => "read and write every bucket",
        Permission::NamedInBody => {
            "write each object that is named; read it as well where a version, an ETag, a date or a size is named"
        }
        Permission::Rename => "read and write, the same everywhere",
    }
}

const fn invalidates(invalidates: Invalidates) -> &'static str {
    match invalidates {
        Invalidates::Nothing => "",
        Invalidates::Object => "the object",
        Invalidates::ObjectAndUpload => "the object, and one that is called as the upload",
        Invalidates::Upload => "an object that is called as the upload",
        Invalidates::ObjectAndRenamed => "the object and its source",
        Invalidates::Bucket => "the bucket",
        Invalidates::NamedInBody => "the objects that are named",
    }
}

fn request(operation: &ApiOperation) -> String {
    let path = match operation.level {
        Level::Service => "/",
        Level::Bucket => "/BUCKET",
        Level::Object => "/BUCKET/KEY",
    };
    let mut text = format!("`{} {path}", operation.method.name());
    for (n, selector) in operation.selectors.iter().enumerate() {
        text.push(if n == 0 { '?' } else { '&' });
        text.push_str(selector);
    }
    text.push('`');
    if operation.is_copy {
        text.push_str(" with `x-amz-copy-source`");
    }
    text
}

/// Headers of an operation that need more rights than the operation does.
fn more(operation: &ApiOperation) -> String {
    let of = |kind: NameKind| -> Vec<String> {
        let fields = operation.headers.iter().copied().flatten();
        fields.filter(|field| field.kind == kind).map(|field| format!("`{}`", field.name)).collect()
    };
    let rows = [
        (NameKind::CopySource, "read the source"),
        (NameKind::Probing, "read the object as well"),
        (NameKind::Governing, "the whole bucket"),
        (NameKind::Acl, "the whole bucket, unless `private` or for the bucket's owner"),
    ];
    let told = rows.into_iter().filter_map(|(kind, needs)| {
        let names = of(kind);
        (!names.is_empty()).then(|| format!("{}: {needs}", names.join(", ")))
    });
    told.collect::<Vec<_>>().join("; ")
}

fn names(fields: &[Field]) -> String {
    fields.iter().map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(" ")
}

/// The table of headers and parameters of a read, with their meaning to the cache.
fn reads() -> String {
    let read = ApiOperation::all().iter().find(|row| row.cached == Cached::Answers);
    let read = read.expect("there are reads");
    let own = read.headers.iter().copied().flatten();
    let mut page = READS.to_owned();
    for field in fields::COMMON.iter().chain(own) {
        let meaning = match (field.bypass, field.kind) {
            (Some(reason), _) => format!("past the cache: `{}`", reason.name()),
            (None, NameKind::Dropped) => "harmless: dropped".to_owned(),
            (None, NameKind::Owner) => {
                "understood: the origin is asked whose bucket it is, and believed for as long as freshness allows; \
                 `bucket-owner` where it does not confirm it"
                    .to_owned()
            }
            (None, NameKind::Payer) => {
                "understood: from then on our own requests for the bucket carry it, too".to_owned()
            }
            (None, _) => "understood".to_owned(),
        };
        writeln!(page, "| `{}` | header | {meaning} |", field.name).expect("text can be written");
    }
    for name in read.parameters {
        let meaning = match *name {
            "partNumber" => {
                "understood: a read of the part's range, for which the origin is asked once. Past the \
                 cache: `part-number` if the origin does not tell it"
            }
            "versionId" => {
                "understood where the origin is an S3 endpoint: each version is cached under its ID, \
                 and `null` is confirmed at each read. Elsewhere past the cache: `version-id`"
            }
            _ => "understood",
        };
        writeln!(page, "| `{name}` | parameter | {meaning} |").expect("text can be written");
    }
    page.push_str(
        "| any other with a vendor's prefix | header | past the cache: `unknown-header` |\n",
    );
    page.push_str("| any other without one | header | harmless: dropped |\n");
    page.push_str(
        "| any other with a value, and without a vendor's prefix | parameter | harmless: dropped |\n",
    );
    page.push_str(REASONS);
    for reason in BypassReason::ALL {
        let remedy = reason.remedy().unwrap_or("");
        writeln!(page, "| `{}` | {} | {remedy} |", reason.name(), reason.explanation())
            .expect("text can be written");
    }
    page
}

const READS: &str = "
## Reads from the cache

GetObject and HeadObject are answered from the cache, unless a header or parameter says otherwise. `X-Cache-Reason` names the one
that does.

| name | place | to the cache |
| --- | --- | --- |
";

const REASONS: &str = "
Each answer with `X-Cache: BYPASS` has one of these in `X-Cache-Reason`, in the access log (`zonal.x_cache_reason`) and in
`zonal_gateway_bypasses_total{reason}`. Those with a remedy are logged as a warning, once for each bucket.

| `X-Cache-Reason` | what it means | what to do |
| --- | --- | --- |
";

pub(super) fn page() -> String {
    let mut page = HEAD.to_owned();
    let vendors = VENDORS.map(|prefix| format!("`{prefix}*`")).join(", ");
    writeln!(
        page,
        "Vendors' prefixes: {vendors}. Any operation may carry {}.\n",
        names(fields::COMMON)
    )
    .expect("text can be written");
    page.push_str("| operation | request | a key needs to | invalidates | the cache answers |\n");
    page.push_str("| --- | --- | --- | --- | --- |\n");
    for operation in ApiOperation::all() {
        let of_copy = operation.is_copy.then_some(&Permission::ReadSource);
        let needs: Vec<_> = operation.needs.iter().chain(of_copy).map(|it| need(*it)).collect();
        let answers = if operation.cached == Cached::Answers { "yes" } else { "" };
        writeln!(
            page,
            "| {} | {} | {} | {} | {answers} |",
            operation.name,
            request(operation),
            needs.join(", "),
            invalidates(operation.invalidates),
        )
        .expect("text can be written");
    }
    page.push_str(&reads());
    page.push_str("\n## Parameters and headers\n\n");
    page.push_str("| operation | parameters | headers | headers that need more |\n| --- | --- | --- | --- |\n");
    for operation in ApiOperation::all() {
        let parameters: Vec<_> =
            operation.parameters.iter().map(|name| format!("`{name}`")).collect();
        let headers: Vec<_> = operation.headers.iter().map(|group| names(group)).collect();
        if parameters.is_empty() && headers.is_empty() {
            continue;
        }
        let name = operation.name;
        writeln!(
            page,
            "| {name} | {} | {} | {} |",
            parameters.join(" "),
            headers.join(" "),
            more(operation)
        )
        .expect("text can be written");
    }
    page
}
