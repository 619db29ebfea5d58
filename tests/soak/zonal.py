"""`zonal serve` under test: starts it, kills it, and hurts its device."""

import asyncio
import http.client
import json
import pathlib
import subprocess
import sys
import time
import urllib.request

import versions
from clients import BUCKET, KEY

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
from servers import free_port  # noqa: E402

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 40
# The cached objects are several times as large.
DEVICE = "emulator:sn540?size=512MiB&zone=8MiB&backing={0}/drive&trouble={0}/trouble"


class Failed(Exception):
    """Zonal ended by itself, did not start, or did not stop."""


class Zonal:
    def __init__(self, binary, folder, origin_port, shards):
        self.port, self.admin_port = free_port(), free_port()
        self.peak_kib = 0
        self.start_seconds = []
        self._folder, self._log = folder, folder / "zonal.log"
        words = ["serve", "--data-dir", folder / "data", "--listen", f"127.0.0.1:{self.port}"]
        words += ["--admin", f"127.0.0.1:{self.admin_port}", "--device", DEVICE.format(folder), "--shards", shards]
        words += ["--origin", f"s3:http://127.0.0.1:{origin_port}?region=us-east-1&path-style=true"]
        words += ["--origin-bucket", BUCKET, "--origin-access-key", "any", "--origin-secret-key", "any"]
        # All stalled reads shall wait at the origin, and none in Zonal's queue.
        words += ["--origin-answer", f"{versions.ANSWER_SECONDS}s", "--origin-reads", 1024]
        # A forwarded request may be a long copy; here none is, and five minutes would look like a hang.
        words += ["--origin-forward-answer", "20s"]
        words += ["--access-key", KEY.access_key, "--secret-key", KEY.secret_key, "--log-level", "warn"]
        for rule in versions.RULES:
            words += ["--freshness-rule", f"{BUCKET}/{rule.prefix}/={rule.freshness}"]
        self._command = [binary, *map(str, words)]
        self._process = None

    async def start(self):
        began = time.monotonic()
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not await self._is_ready():
            self.check()
            if began + START_SECONDS_MAX < time.monotonic():
                raise Failed(f"not ready after {START_SECONDS_MAX} s: {self.last_lines()}")
            await asyncio.sleep(0.05)
        self.start_seconds.append(time.monotonic() - began)

    async def _is_ready(self):
        try:
            await self.ask("/readyz")
        except OSError:
            return False
        return True

    async def is_well(self):
        told = json.loads(await self.ask("/readyz"))
        return not (told["isolated_devices"] or told["origin_trouble"] or told["silent_origins"])

    async def ask(self, path, body=None):
        """An answer of the admin endpoint; any other than a whole 200 is an OSError."""

        def asked():
            request = urllib.request.Request(f"http://127.0.0.1:{self.admin_port}{path}", data=body)
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return answer.read()
            except http.client.HTTPException as error:
                # Zonal was killed within its answer.
                raise OSError(str(error)) from error

        return await asyncio.to_thread(asked)

    def check(self):
        if self._process.poll() is not None:
            raise Failed(f"ended by itself with {self._process.returncode}: {self.last_lines()}")

    def kill(self):
        self._note_memory()
        self._process.kill()
        self._process.wait()

    async def stop(self):
        self._note_memory()
        self._process.terminate()
        try:
            code = await asyncio.to_thread(self._process.wait, STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"not stopped {STOP_SECONDS_MAX} s after SIGTERM") from None
        if code:
            raise Failed(f"exit code {code} after SIGTERM: {self.last_lines()}")

    def _note_memory(self):
        for line in pathlib.Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                self.peak_kib = max(self.peak_kib, int(line.split()[1]))

    async def hurt_device(self, how, seconds):
        trouble = self._folder / "trouble"
        trouble.write_text(how)
        await asyncio.sleep(seconds)
        trouble.unlink()

    def last_lines(self):
        return " / ".join(self._log.read_text(errors="replace").splitlines()[-5:])

    def panics(self):
        return [line for line in self._log.read_text(errors="replace").splitlines() if "panick" in line]
