"""Archives of static programs, each unpacked and started as docs/start/install.md says.

    python3 tests/packages/archive.py ARCHIVE...

Programs of another architecture run under qemu-user, which knows no io_uring: Zonal takes threads there. All archives
must simulate the same history of a seed. Exit code: 0 when everything passed, 1 when something did not.
"""

import pathlib
import platform
import re
import subprocess
import sys
import tempfile

import server

SEED = 3
PARTS = ["LICENSE", "THIRD-PARTY.txt.gz", "man", "completions", "config/zonal.toml", "systemd/zonal.service"]


def main() -> int:
    archives = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    if not archives:
        print(__doc__, file=sys.stderr)
        return 1
    outcomes = [check(archive) for archive in archives]
    for archive, (why, fingerprint) in zip(archives, outcomes):
        print(f"{archive.name}: {why or 'passed'}, history {fingerprint}")
    are_equal = len({fingerprint for _, fingerprint in outcomes}) == 1
    if not are_equal:
        print("the histories differ")
    return 0 if are_equal and all(why is None for why, _ in outcomes) else 1


def check(archive: pathlib.Path) -> tuple[str | None, str]:
    """What went wrong, and the fingerprint of a history."""
    version, architecture = re.fullmatch(r"zonal-(.+)-(\w+)-linux\.tar\.gz", archive.name).groups()
    emulator = [] if architecture == platform.machine() else [f"qemu-{architecture}-static"]
    # Beside the archive, on a disk: a temporary folder is often in memory, which knows no O_DIRECT.
    with tempfile.TemporaryDirectory(dir=archive.parent) as name:
        subprocess.run(["tar", "--extract", "--file", archive, "--directory", name], check=True)
        folder = pathlib.Path(name) / f"zonal-{version}-{architecture}-linux"
        missing = [part for part in PARTS if not (folder / part).exists()]
        if missing:
            return f"it lacks {missing}", ""
        told = [run([*emulator, folder / program, "--version"]) for program in ("zonal", "zonal-lab")]
        if told != [f"zonal {version}\n", f"zonal-lab {version}\n"]:
            return f"versions: {told}", ""
        if "INTERP" in run(["readelf", "--program-headers", folder / "zonal"]):
            return "it is not static", ""
        history = run([*emulator, folder / "zonal-lab", "sim", "--seed", str(SEED)])
        fingerprint = re.search(r"fingerprint (\w+): no violation", history)
        return serve([*emulator, folder / "zonal"], folder), fingerprint[1] if fingerprint else history


def serve(program: list, folder: pathlib.Path) -> str | None:
    """Starts a server with its defaults on free ports, and reads from it. Returns what went wrong."""
    port, admin = server.free_port(), server.free_port()
    command = [*program, "serve", "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
    command += ["--device", "file:flash?size=512MiB"]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
    why = server.reads(port, folder / "zonal-data/credentials", process)
    why = server.stops(process, log) if why is None else why
    process.kill()
    return None if why is None else f"{why}\n{log.read_text()}"


def run(command: list) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
