// The AWS SDK for JavaScript v3: runs the operations that come on standard input.
//
// A line is `FLAVOUR OPERATION KEY [FILE]`; the flavour is always `client` here. Its answer is one
// line of fields, with tabs between them: `ok`, what was seen and, of a presigned URL, its query; or
// `error` and why.
//
// The endpoint is S3_ENDPOINT and the bucket is S3_BUCKET. All else is the SDK's default, which takes
// its keys and its region from the environment as well. The SDK is that of the working directory.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.cwd()}/`);
const s3 = require("@aws-sdk/client-s3");
const { Upload } = require("@aws-sdk/lib-storage");
const { getSignedUrl } = require("@aws-sdk/s3-request-presigner");

// Of an upload by hand: the least that S3 takes, so that a file of 20 MB has four parts.
const PART_BYTES = 5 << 20;
// What `range` reads: more than one block of the cache, and off their borders.
const RANGE = "bytes=1000-2000000";

const Bucket = process.env.S3_BUCKET;
const client = new s3.S3Client({ endpoint: process.env.S3_ENDPOINT, forcePathStyle: true });

const operations = {
  get: (Key) => get({ Bucket, Key }),
  range: (Key) => get({ Bucket, Key, Range: RANGE }),
  head,
  put: async (Key, file) => {
    await client.send(new s3.PutObjectCommand({ Bucket, Key, Body: await readFile(file) }));
    return "";
  },
  upload: async (Key, file) => {
    await new Upload({ client, params: { Bucket, Key, Body: createReadStream(file) } }).done();
    return "";
  },
  "presigned-get": async (Key) => {
    const url = await signed(new s3.GetObjectCommand({ Bucket, Key }));
    const answer = await fetched(url);
    return `${digest(Buffer.from(await answer.arrayBuffer()))}\t${query(url)}`;
  },
  "presigned-head": async (Key) => {
    const url = await signed(new s3.HeadObjectCommand({ Bucket, Key }));
    const { headers } = await fetched(url, { method: "HEAD" });
    return `${headers.get("content-length")} ${headers.get("etag")}\t${query(url)}`;
  },
  "presigned-put": async (Key, file) => {
    const url = await signed(new s3.PutObjectCommand({ Bucket, Key }));
    await fetched(url, { method: "PUT", body: await readFile(file) });
    return `\t${query(url)}`;
  },
  "presigned-upload": presignedUpload,
};

async function get(wanted) {
  const answer = await client.send(new s3.GetObjectCommand(wanted));
  return digest(await answer.Body.transformToByteArray());
}

async function head(Key) {
  const answer = await client.send(new s3.HeadObjectCommand({ Bucket, Key }));
  const { ContentLength, ETag, ContentType, LastModified, Metadata } = answer;
  return JSON.stringify([ContentLength, ETag, ContentType, LastModified, Metadata]);
}

// A browser that uploads in parts: a server signs a URL for each, and the browser sends it there.
async function presignedUpload(Key, file) {
  const { UploadId } = await client.send(new s3.CreateMultipartUploadCommand({ Bucket, Key }));
  const bytes = await readFile(file);
  const Parts = [];
  let url;
  for (let start = 0; start < bytes.length; start += PART_BYTES) {
    const PartNumber = Parts.length + 1;
    url = await signed(new s3.UploadPartCommand({ Bucket, Key, UploadId, PartNumber }));
    const body = bytes.subarray(start, start + PART_BYTES);
    const answer = await fetched(url, { method: "PUT", body });
    Parts.push({ PartNumber, ETag: answer.headers.get("etag") });
  }
  const all = { Bucket, Key, UploadId, MultipartUpload: { Parts } };
  await client.send(new s3.CompleteMultipartUploadCommand(all));
  return `\t${query(url)}`;
}

function signed(command) {
  return getSignedUrl(client, command, { expiresIn: 600 });
}

async function fetched(url, options) {
  const answer = await fetch(url, options);
  if (answer.status !== 200) {
    throw new Error(`${answer.status} ${await answer.text()}`);
  }
  return answer;
}

function query(url) {
  return new URL(url).search.slice(1);
}

function digest(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}

for await (const line of createInterface({ input: process.stdin })) {
  const [, operation, key, file] = line.split(" ");
  let answer;
  try {
    answer = `ok\t${await operations[operation](key, file)}`;
  } catch (error) {
    answer = `error\t${String(error).replaceAll(/\s+/g, " ")}`;
  }
  console.log(answer);
}
