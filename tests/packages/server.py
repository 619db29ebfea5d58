"""A `zonal serve` under test: its key, and reads of its sample object."""

import contextlib
import pathlib
import re
import socket
import subprocess
import time

START_MAX_S = 30
STOP_MAX_S = 20


def reads(port: int, credentials_file: pathlib.Path, process: subprocess.Popen) -> str | None:
    """Reads an object twice, as soon as the server answers. Returns what went wrong."""
    try:
        credentials = await_keys(credentials_file, process)
    except TimeoutError as error:
        return str(error)
    answers = [get(port, credentials) for _ in range(2)]
    return None if answers == ["MISS", "REVALIDATED"] else f"X-Cache: {answers}"


def stops(process: subprocess.Popen, log: pathlib.Path) -> str | None:
    """Stops a server with SIGTERM. Returns what went wrong."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_MAX_S)
    process.kill()
    process.wait()
    is_good = process.returncode == 0 and "stopped" in log.read_text()
    return None if is_good else f"it ended with {process.returncode} after SIGTERM"


def await_keys(path: pathlib.Path, process: subprocess.Popen) -> tuple[str, str]:
    """The key pair that the first start generates."""
    until = time.monotonic() + START_MAX_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, TypeError):
            text = path.read_text()
            names = ("aws_access_key_id", "aws_secret_access_key")
            return tuple(re.search(rf"^{name}\s*=\s*(\S+)", text, re.MULTILINE)[1] for name in names)
        time.sleep(0.05)
    raise TimeoutError("it does not start")


def get(port: int, credentials: tuple[str, str]) -> str:
    """Reads a sample object as soon as it is answered, and returns its X-Cache."""
    command = ["curl", "--silent", "--fail", "--retry", "40", "--retry-delay", "0", "--retry-connrefused", "--retry-all-errors"]
    command += ["--max-time", "20", "--output", "/dev/null", "--dump-header", "-"]
    command += ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", ":".join(credentials)]
    command += ["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD", f"http://127.0.0.1:{port}/demo/cities.csv"]
    head = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r"^x-cache: (\w+)", head, re.MULTILINE | re.IGNORECASE)
    return found[1] if found else ""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
