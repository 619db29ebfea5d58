"""Starts and stops `zonal`, and tells a start that was refused from one that broke."""

import contextlib
import dataclasses
import re
import signal
import subprocess
import time

START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
PAUSE_SECONDS = 0.004
# Lines of a log that may hold the reason.
LINES_SHOWN = 3

# Exit codes of a start that was refused; docs/serve/running.md says which mean what.
REFUSAL_CODES = (1, 2)
# A refusal says what is refused, and what to do.
NAMES_DEVICE = re.compile(r"\b(buffer|capacity)\b|/(b|c|device)\b")
NAMES_REMEDY = re.compile(
    r"--salvage|\b(format|use|write|give|put|name|start|restore|replace|remove|make|change|choose|connect|leave|look)\b"
)


@dataclasses.dataclass
class Refused(Exception):
    """The process ended before it served."""

    code: int
    message: str

    @property
    def is_crash(self):
        return self.code not in REFUSAL_CODES

    @property
    def is_clear(self):
        return bool(NAMES_DEVICE.search(self.message) and NAMES_REMEDY.search(self.message))


class Hung(Exception):
    """The process neither served nor ended, or did not stop, in time."""


class Server:
    """A running process with its log in a file."""

    def __init__(self, command, log):
        self.log = log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output)

    def wait_until(self, is_up):
        """Waits until `is_up` gives something, and returns that."""
        try:
            return self._waited_until(is_up)
        except BaseException:
            self.kill()
            raise

    def _waited_until(self, is_up):
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if (up := is_up()) is not None:
                    return up
            if self.process.poll() is not None:
                raise Refused(self.process.returncode, self.last_words())
            time.sleep(PAUSE_SECONDS)
        raise Hung(f"not up after {START_SECONDS_MAX} s: {self.last_words()}")

    def last_words(self):
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        said = [line for line in lines if line.startswith("zonal: ")]
        return " / ".join(said[-1:] or lines[-LINES_SHOWN:])

    def stop(self):
        """SIGTERM; whatever it was doing must come to its end."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Hung(f"not stopped after {STOP_SECONDS_MAX} s: {self.last_words()}") from None
        if code:
            raise Refused(code if code not in REFUSAL_CODES else -code, self.last_words())

    def kill(self):
        self.process.kill()
        self.process.wait()
