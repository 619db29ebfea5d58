"""Roots of Debian releases, and a systemd that runs in one of them."""

import pathlib
import shutil
import subprocess
import tempfile

# With systemd as the init, and what guest.sh uses.
INCLUDED = "systemd,systemd-sysv,dbus,udev,curl,ca-certificates,procps,bash-completion"
# Several times what it takes on two idle cores: half a minute.
BOOT_MAX_S = 300

SERVICE = """[Unit]
Description=Test of the packages
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /packages/guest.sh
[Install]
WantedBy=graphical.target
"""


def make(release: str, folder: pathlib.Path) -> pathlib.Path:
    """A new root of a release. Its archive is kept, so that a repetition takes a second."""
    archive = folder / f"{release}.tar"
    folder.mkdir(parents=True, exist_ok=True)
    if not archive.exists():
        unfinished = folder / f"{release}.unfinished.tar"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={INCLUDED}"]
        subprocess.run([*command, release, unfinished], check=True)
        unfinished.rename(archive)
    root = pathlib.Path(tempfile.mkdtemp(prefix=f"{release}-", dir=folder))
    # The services of the root run as their own users.
    root.chmod(0o755)
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", root], check=True)
    return root


def boot(root: pathlib.Path, script: pathlib.Path, packages: list[pathlib.Path], texts: dict[str, str]) -> str:
    """Boots systemd in a root, runs a script there as a service, and returns the log of the script. `texts` are further
    files beside it.

    Raises `Unbootable` where this machine lets no systemd run in a container."""
    place = root / "packages"
    place.mkdir()
    for file in [*packages, script]:
        shutil.copy(file, place)
    for name, text in texts.items():
        (place / name).write_text(text)
    unit = root / "etc/systemd/system/packages-test.service"
    unit.write_text(SERVICE)
    wanted = root / "etc/systemd/system/graphical.target.wants"
    wanted.mkdir(parents=True, exist_ok=True)
    (wanted / unit.name).symlink_to(f"/etc/systemd/system/{unit.name}")
    command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "--boot"]
    command += ["--directory", root, "--console=pipe"]
    environment = {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    with (root.parent / f"{root.name}.boot.log").open("wb") as log:
        booted = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            booted.wait(BOOT_MAX_S)
        except subprocess.TimeoutExpired:
            booted.kill()
            booted.wait()
    told = place / "log"
    if not told.exists():
        raise Unbootable(pathlib.Path(log.name).read_text(errors="replace")[-600:])
    return told.read_text(errors="replace")


class Unbootable(Exception):
    """No systemd runs in a container of this machine."""
