"""RPM packages in a root without a running systemd: the scripts run, the program is started by hand."""

import contextlib
import pathlib
import re
import shutil
import subprocess
import time

START_MAX_S = 10

# What a removal leaves: the data, the edited configuration (as .rpmsave), and what RPM itself and the user's creation write.
KEPT = ("/var/lib/zonal", "/etc/zonal", "/root", "/packages", "/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-")
KEPT += ("/etc/.pwd.lock",)

# Directories of other packages, which this root lacks.
OF_SHELLS = ("/usr/share/zsh", "/usr/share/zsh/site-functions", "/usr/share/fish", "/usr/share/fish/vendor_completions.d")
OF_SHELLS += ("/usr/share/licenses",)


def check(root: pathlib.Path, rpms: list[pathlib.Path]) -> str | None:
    """Installs, starts, upgrades and removes. Returns what went wrong."""
    # systemd-tmpfiles, which the packages start, needs it.
    run(["mount", "-t", "proc", "proc", root / "proc"])
    try:
        return in_root(root, rpms)
    finally:
        run(["umount", root / "proc"])


def in_root(root: pathlib.Path, rpms: list[pathlib.Path]) -> str | None:
    folder = root / "packages"
    folder.mkdir(exist_ok=True)
    names = [shutil.copy(file, folder) for file in rpms]
    before = files(root)
    begin = time.monotonic()
    try:
        # Debian's packages are unknown to RPM, so nothing that is required is found.
        rpm(root, "--install", "--nodeps", *names)
        with contextlib.ExitStack() as stack:
            serve(root, stack)
            await_hit(root)
            print(f"rpm: seconds to the first hit: {time.monotonic() - begin:.1f}")
        configuration = root / "etc/zonal/zonal.toml"
        edited = configuration.read_text().replace('#level = "info"', 'level = "warn"')
        configuration.write_text(edited)
        rpm(root, "--upgrade", "--nodeps", "--replacepkgs", *names)
        if configuration.read_text() != edited:
            return "an upgrade replaced the configuration"
        with contextlib.ExitStack() as stack:
            serve(root, stack)
            if not is_hit(root):
                return "the cache is cold after an upgrade"
        rpm(root, "--erase", "--nodeps", "zonal", "zonal-lab")
    except subprocess.CalledProcessError as error:
        return f"{error}\n{error.stdout}\n{error.stderr}"
    except TimeoutError as error:
        return str(error)
    left = [path for path in files(root) - before if not path.startswith(KEPT) and path not in OF_SHELLS]
    return f"left behind: {left}" if left else None


def rpm(root: pathlib.Path, *words) -> None:
    run(["rpm", "--root", root, *words])


def files(root: pathlib.Path) -> set[str]:
    found = run(["find", root, "-xdev", "-path", root / "proc", "-prune", "-o", "-printf", "/%P\n"])
    return set(found.splitlines())


def serve(root: pathlib.Path, stack: contextlib.ExitStack) -> None:
    """Starts the installed program as its user, in a network of its own, until the stack is closed."""
    user = ["chroot", "--userspec=zonal:zonal", root, "/usr/bin/zonal", "serve", "--config", "/etc/zonal/zonal.toml"]
    # The name space lives as long as the server: `nsenter` finds it by its process.
    command = ["unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *user]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(server.wait)
    stack.callback(server.terminate)
    (root / "packages/pid").write_text(str(server.pid))
    until = time.monotonic() + START_MAX_S
    while time.monotonic() < until:
        with contextlib.suppress(subprocess.CalledProcessError):
            get(root)
            return
        time.sleep(0.05)
    raise TimeoutError(f"the server does not answer within {START_MAX_S} s")


def await_hit(root: pathlib.Path) -> None:
    until = time.monotonic() + START_MAX_S
    while not is_hit(root):
        if until < time.monotonic():
            raise TimeoutError("no read is a hit")


def is_hit(root: pathlib.Path) -> bool:
    return get(root) in ("HIT", "REVALIDATED")


def get(root: pathlib.Path) -> str:
    """Reads a sample object, and returns its X-Cache."""
    keys = run(["chroot", "--userspec=zonal:zonal", root, "/usr/bin/zonal", "env", "--config", "/etc/zonal/zonal.toml"])
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    access, secret = (re.search(rf"{name}='?([^'\n]+)", keys)[1] for name in names)
    command = ["curl", "--silent", "--fail", "--max-time", "10", "--output", "/dev/null", "--dump-header", "-"]
    command += ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{access}:{secret}"]
    command += ["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    pid = (root / "packages/pid").read_text()
    enter = ["nsenter", "--target", pid, "--net"]
    head = run([*enter, "chroot", root, *command, "http://127.0.0.1:9000/demo/cities.csv"])
    found = re.search(r"^x-cache: (\w+)", head, re.MULTILINE | re.IGNORECASE)
    return found[1] if found else ""


def run(command: list) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
