"""The packages as an administrator meets them.

    python3 tests/packages --dist DIR [--release NAME...] [--roots DIR]

1. lintian finds nothing in the Debian packages.
2. In a root of each Debian release, with a running systemd: install, first hit, reload, crash, wrong configuration,
   upgrade, removal, purge; then the archive, as docs/start/install.md says (guest.sh).
3. In a root with RPM packages: install, start by hand, upgrade, removal.

Needs root, and what `cargo xtask setup --rest` installs. Exit code: 0 when everything passed, 1 when something did not.
"""

import argparse
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time

import roots
import rpm

INSTALL = pathlib.Path(__file__).resolve().parents[2] / "docs/start/install.md"
RELEASES = ["bookworm", "trixie"]


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--dist", type=pathlib.Path, required=True)
    arguments.add_argument("--release", nargs="*", default=RELEASES)
    # RPM takes absolute paths only.
    arguments.add_argument("--roots", type=lambda path: pathlib.Path(path).resolve(), required=True)
    given = arguments.parse_args()
    debs, rpms = sorted(given.dist.glob("*.deb")), sorted(given.dist.glob("*.rpm"))
    archives = sorted(given.dist.glob(f"zonal-*-{platform.machine()}-linux.tar.gz"))
    if (len(debs), len(rpms), len(archives)) != (2, 2, 1):
        print(f"{given.dist} has {len(debs)} .deb, {len(rpms)} .rpm and {len(archives)} archives", file=sys.stderr)
        return 1
    results = [timed("lintian", lambda: lint(debs))]
    for release in given.release:
        results.append(timed(release, lambda release=release: in_systemd(release, given.roots, [*debs, *archives])))
    results.append(timed("rpm", lambda: with_rpm(given.roots, rpms)))
    return 0 if all(results) else 1


def timed(name: str, check) -> bool:
    begin = time.monotonic()
    why = check()
    print(f"{name:<10} {'passed' if why is None else 'FAILED'} in {time.monotonic() - begin:.1f} s", flush=True)
    if why is not None:
        print(why, flush=True)
    return why is None


def lint(debs: list[pathlib.Path]) -> str | None:
    command = ["lintian", "--fail-on", "error,warning", "--allow-root", *debs]
    told = subprocess.run(command, capture_output=True, text=True)
    return None if told.returncode == 0 else told.stdout + told.stderr


def in_systemd(release: str, folder: pathlib.Path, files: list[pathlib.Path]) -> str | None:
    root = roots.make(release, folder)
    try:
        log = roots.boot(root, pathlib.Path(__file__).with_name("guest.sh"), files, {"install.sh": of_archive()})
        is_passed = (root / "packages/result").exists()
        if is_passed:
            (folder / f"{root.name}.boot.log").unlink()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for line in log.splitlines():
        if line.startswith("seconds to"):
            print(f"{release}: {line}")
    return None if is_passed else log[-6000:]


def of_archive() -> str:
    """The commands of the installation page that install the archive as a service."""
    section = INSTALL.read_text().split("\n## Any Linux: the archive\n")[1].split("\n## ")[0]
    unpacked, service = re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    lines = [line for line in unpacked.splitlines() if not line.startswith("./zonal serve")]
    return "\n".join([*lines, *service.splitlines(), ""]).replace("sudo ", "")


def with_rpm(folder: pathlib.Path, rpms: list[pathlib.Path]) -> str | None:
    root = roots.make(RELEASES[0], folder)
    try:
        return rpm.check(root, rpms)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
