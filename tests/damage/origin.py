"""An S3 origin in memory: one bucket whose objects are versions that can be made anew, and so need not be kept.

It answers what a cache asks: GET with ranges and If-Match, HEAD, PUT and DELETE. Signatures are not looked at.
"""

import contextlib
import email.utils
import hashlib
import http.server
import re
import threading

# The same for each version: a cache tells versions apart by their entity tags.
MODIFIED = email.utils.formatdate(1_700_000_000, usegmt=True)

# What the bucket is asked for before the first write.
LOCATION = b'<?xml version="1.0"?><LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"/>'


class Origin(http.server.ThreadingHTTPServer):
    """`versions` has the version of each object by name, and `content(name, version)` its bytes."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, content):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.versions = content, {}
        # Versions that are being put, by name: the bytes must be theirs.
        self.expected = {}

    @property
    def spec(self):
        return f"s3:http://127.0.0.1:{self.server_port}?region=us-east-1&path-style=true"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    @property
    def _name(self):
        return self.path.partition("?")[0].lstrip("/").partition("/")[2]

    def do_GET(self):
        if not self._name:
            return self._answer(200, LOCATION)
        version = self.server.versions.get(self._name)
        if version is None:
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        body = self.server.content(self._name, version)
        tag = f'"{hashlib.md5(body).hexdigest()}"'
        headers = {"ETag": tag, "Last-Modified": MODIFIED, "Accept-Ranges": "bytes"}
        if self.headers.get("If-Match", tag) != tag:
            return self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        if self.headers.get("If-None-Match") == tag:
            return self._answer(304, b"", headers)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            return self._answer(200, body, headers)
        first, last = int(asked[1]), min(int(asked[2] or len(body)), len(body) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
        return self._answer(206, body[first : last + 1], headers)

    do_HEAD = do_GET

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        version = self.server.expected[self._name]
        if body != self.server.content(self._name, version):
            return self._answer(400, b"<Error><Code>BadDigest</Code></Error>")
        self.server.versions[self._name] = version
        return self._answer(200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'})

    def do_DELETE(self):
        self.server.versions.pop(self._name, None)
        self._answer(204, b"")

    def _answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextlib.contextmanager
def serving(content):
    origin = Origin(content)
    thread = threading.Thread(target=origin.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield origin
    finally:
        origin.shutdown()
        origin.server_close()
