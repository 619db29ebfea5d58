"""The container image under an OCI runtime, with the seccomp profile that the documentation names.

    python3 tests/packages/image.py --image FILE

The root file system is read-only, all capabilities are dropped, and the user is that of the image. Needs root, buildah and
crun. Exit code: 0 when everything passed, 1 when something did not.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import server

TOP = pathlib.Path(__file__).resolve().parents[2]
STORAGE = ["--storage-driver", "vfs"]


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--image", type=lambda path: pathlib.Path(path).resolve(), required=True)
    image = arguments.parse_args().image
    with contextlib.ExitStack() as stack:
        container = run(["buildah", *STORAGE, "from", "--quiet", f"oci-archive:{image}"]).strip()
        stack.callback(run, ["buildah", *STORAGE, "rm", container])
        root = pathlib.Path(run(["buildah", *STORAGE, "mount", container]).strip())
        config = json.loads(run(["buildah", *STORAGE, "inspect", container]))["OCIv1"]["config"]
        # Beside the build output, on a disk: a temporary folder is often in memory, which knows no O_DIRECT.
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=image.parent)))
        why = serve(root, config, folder)
    print(f"image: {'passed' if why is None else why}")
    return 0 if why is None else 1


def serve(root: pathlib.Path, config: dict, folder: pathlib.Path) -> str | None:
    """Starts the image's command on a free port, reads an object twice, and stops it. Returns what went wrong."""
    uid, gid = map(int, config["User"].split(":"))
    data = folder / "data"
    data.mkdir()
    os.chown(data, uid, gid)
    port, admin = server.free_port(), server.free_port()
    command = [*config["Entrypoint"], *config["Cmd"], "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
    command = without_repeated(command)
    write_bundle(folder, root, (uid, gid), command, data)
    log = folder / "log"
    # In name spaces of its own: crun wants the second version of control groups, whatever the machine has.
    inner = 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'
    crun = ["unshare", "--mount", "sh", "-c", inner, "sh", "crun", "--cgroup-manager=disabled", "run"]
    with log.open("wb") as output:
        process = subprocess.Popen([*crun, "--bundle", folder, f"zonal-{port}"], stdout=output, stderr=output)
    why = server.reads(port, data / "credentials", process)
    why = server.stops(process, log) if why is None else why
    process.kill()
    text = log.read_text()
    if why is not None:
        return f"{why}\n{text}"
    if "io_uring" in text and uring_works():
        return f"the seccomp profile refuses io_uring\n{text}"
    return None


def without_repeated(command: list[str]) -> list[str]:
    """The command with the last value of each flag: those of the image are the first."""
    flags = dict(zip(command[2::2], command[3::2]))
    return [*command[:2], *(word for pair in flags.items() for word in pair)]


def write_bundle(folder: pathlib.Path, root: pathlib.Path, user: tuple[int, int], command: list, data: pathlib.Path) -> None:
    spec = {
        "ociVersion": "1.0.2",
        "root": {"path": str(root), "readonly": True},
        "process": {
            "user": {"uid": user[0], "gid": user[1]},
            "args": command,
            "env": ["PATH=/usr/bin"],
            "cwd": "/var/lib/zonal",
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/var/lib/zonal", "type": "bind", "source": str(data), "options": ["rbind", "rw"]},
        ],
        "linux": {
            "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}],
            "seccomp": json.loads((TOP / "packaging/seccomp.json").read_text()),
        },
    }
    # The profile is in the form of container runtimes, which have one list of architectures.
    seccomp = spec["linux"]["seccomp"]
    seccomp["architectures"] = [entry["architecture"] for entry in seccomp.pop("archMap")]
    (folder / "config.json").write_text(json.dumps(spec))


def uring_works() -> bool:
    """Whether this machine lets programs use io_uring outside of containers."""
    setting = pathlib.Path("/proc/sys/kernel/io_uring_disabled")
    return not setting.exists() or setting.read_text().strip() == "0"


def run(command: list) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
