"""Runs the commands of the pages that users meet first.

    python3 tests/docs --zonal BIN [--only PAGE]

Each page has its blocks in `PLAN`, in their order: a block that is added must be added here. Each
page runs in a world of its own (world.py). Exit code: 0 if all did what the page says, else 1.
"""

import argparse
import pathlib
import sys
import tempfile

from blocks import blocks_of
from steps import Config, Elsewhere, Env, Keys, Lines, Python, Server, Session, Shell
from world import Failed, World

ROOT = pathlib.Path(__file__).resolve().parents[2]

SERVES = "survives a restart"
# `make run` is this, after a build.
MAKE_RUN = ("make run", "exec target/quick/zonal serve")

# What came before the table of statistics on the page: a warm-up, and six reads.
SIX_READS = """
zonal cache warm lake/dim/a.parquet
eval "$(zonal env)"
for n in 1 2 3 4 5 6; do
  aws s3api get-object --bucket lake --key dim/a.parquet /dev/null
done
"""

PLAN = {
    "README.md": [
        Server(SERVES, instead=MAKE_RUN),
        Env(prints=("x-cache: MISS", "x-cache: REVALIDATED")),
        Shell(prints=("  -",)),
        Python(prints=("city,country",)),
        Server(SERVES),
    ],
    "docs/serve/caching.md": [Config(), Session(), Config()],
    "docs/serve/clients.md": [Config()],
    "docs/serve/credentials.md": [Session(), Config(), Config(), Config()],
    "docs/serve/devices.md": [Elsewhere("needs a zoned drive; tests/zoned has one")],
    "docs/serve/keys.md": [Keys("lake-reader"), Session()],
    "docs/serve/operating-the-cache.md": [
        Session(),
        Session(),
        Session(before="zonal cache warm lake/dim/a.parquet"),
        Session(),
        Session(before=SIX_READS),
    ],
    "docs/serve/origins.md": [Config(), Config(), Config(), Shell()],
    "docs/serve/running.md": [],
    "docs/start/install.md": [Elsewhere("installs into the system; the stages `packages` and `image` do")] * 7,
    "docs/operations/encryption.md": [
        Elsewhere("encrypts a drive; the zoned drive `encrypted` of `make test-zoned` is made so"),
        Elsewhere("as above"),
        Config(),
        Elsewhere("a drop-in of systemd"),
    ],
    "docs/block.md": [
        Lines({"zonal": "servers: see below"}),
        Lines(
            {
                "nbd-client": "needs the kernel's nbd module",
                "qemu-system-x86_64": "starts a virtual machine",
                "nbdcopy": "writes an image that does not exist",
            }
        ),
        Elsewhere("needs nbdkit and certificates"),
    ],
    "CONTRIBUTING.md": [
        Elsewhere("runs this test"),
        Elsewhere("a row of a table; `tidy` checks that table"),
    ],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zonal", required=True, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--only", help="a page")
    arguments = parser.parse_args()
    makefile = (ROOT / "Makefile").read_text()
    if "run --profile quick --package zonal -- serve\n" not in makefile:
        print("`make run` is another command now: change MAKE_RUN")
        return 1
    failures = 0
    for page, steps in PLAN.items():
        if arguments.only in (None, page):
            failures += not is_true(page, steps, arguments.zonal)
    return 1 if failures else 0


def is_true(page, steps, zonal):
    blocks = blocks_of(ROOT, page)
    if len(blocks) != len(steps):
        print(f"{page}: {len(blocks)} code blocks, and {len(steps)} steps in the plan of tests/docs")
        return False
    with tempfile.TemporaryDirectory(prefix="zonal-docs-") as folder:
        world = World(folder, zonal)
        try:
            prepare(world, page)
            for block, step in zip(blocks, steps):
                try:
                    step.run(world, block)
                except Failed as failed:
                    print(f"{block.place}: {failed}")
                    return False
        finally:
            world.close()
    elsewhere = sum(isinstance(step, Elsewhere) for step in steps)
    print(f"{page}: {len(steps) - elsewhere} of {len(steps)} blocks ran", flush=True)
    return True


def prepare(world, page):
    """Starts the servers that a page's commands take for granted."""
    serve = "zonal serve --device 'file:flash?size=1GiB' --shards 1 --origin file:origin"
    match page:
        case "README.md":
            # The object store of the last command. Its key pair is that of the command.
            origin = world.ports["origin"]
            world.start(
                f"zonal serve --data-dir store --listen 127.0.0.1:{origin} --admin 127.0.0.1:0 "
                "--access-key AKIA... --secret-key-file etc/origin-secret",
                SERVES,
            )
        case "docs/serve/caching.md" | "docs/serve/operating-the-cache.md":
            world.start(serve, SERVES)
            (world.folder / "nightly.txt").write_text("lake/dim/a.parquet\nlake/dim/b.parquet\n")
        case "docs/serve/credentials.md":
            origin = world.ports["origin"]
            world.start(
                f"{serve} --listen 127.0.0.1:{origin} --access-key AKIA... "
                "--secret-key-file etc/origin-secret",
                SERVES,
            )
            (world.folder / "zonal.toml").write_text(
                f"[[origin]]\nspec = 's3:http://127.0.0.1:{origin}'\nname = 'lake'\n"
                "buckets = ['lake']\naccess-key = 'AKIA...'\n"
                "secret-key-file = 'etc/origin-secret'\n"
            )
        case "docs/serve/keys.md":
            certificate = "--admin-certificate-file etc/ca.pem --admin-private-key-file etc/key.pem"
            world.start(f"{serve} {certificate} --admin-token-file etc/admin-token", SERVES)
        case "docs/block.md":
            world.start(
                world.replaced(
                    "zonal block --capacity block:/dev/nvme1n1 --buffer block:/dev/nvme0n1 "
                    "--export vm=500GiB --export db=200GiB,postgres"
                ),
                "serves vm",
            )


if __name__ == "__main__":
    sys.exit(main())
