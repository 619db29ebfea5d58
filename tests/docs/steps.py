"""How a code block of a page is executed."""

import dataclasses
import re
import sys

from blocks import session_of
from world import Failed


@dataclasses.dataclass(frozen=True)
class Server:
    """A shell command that starts a server, in place of the one that the page started before."""

    ready: str
    # A part of the command, and what runs instead.
    instead: tuple[str, str] | None = None

    def run(self, world, block):
        text = world.replaced(block.text)
        if self.instead:
            page, here = self.instead
            if page not in text:
                raise Failed(f"{page} is not in it")
            text = text.replace(page, here)
        if world.of_page:
            world.stop(world.of_page)
        world.of_page = world.start(text, self.ready)


@dataclasses.dataclass(frozen=True)
class Shell:
    """A script in one shell. Its output has all of `prints`, in this order."""

    prints: tuple[str, ...] = ()

    def run(self, world, block):
        check_order(world.run("set -e\n" + world.replaced(block.text)), self.prints)


@dataclasses.dataclass(frozen=True)
class Env:
    """A script after which the shell's AWS variables stay, as in a terminal."""

    prints: tuple[str, ...] = ()

    def run(self, world, block):
        mark = "== environment =="
        script = f"set -e\n{world.replaced(block.text)}\necho '{mark}'; env"
        output, _, environment = world.run(script).partition(mark)
        known = (line.partition("=") for line in environment.splitlines())
        world.environment |= {name: value for name, _, value in known if name.startswith("AWS_")}
        check_order(output, self.prints)


@dataclasses.dataclass(frozen=True)
class Python:
    """A Python program whose output has all of `prints`."""

    prints: tuple[str, ...]

    def run(self, world, block):
        check_order(world.run(block.text, program=(sys.executable, "-c")), self.prints)


@dataclasses.dataclass(frozen=True)
class Session:
    """A terminal session. Its output equals the page's but for numbers and sizes; `...` ends a line early."""

    # A script that runs before it.
    before: str = ""

    def run(self, world, block):
        world.run("set -e\n" + self.before)
        for command, printed in session_of(world.replaced(block.text)):
            output = world.run(command, status=None).splitlines()
            check_lines(command, output, printed)


@dataclasses.dataclass(frozen=True)
class Config:
    """A part of the configuration file of `zonal serve`, which accepts it."""

    def run(self, world, block):
        path = world.folder / "page.toml"
        path.write_text(world.replaced(block.text))
        # The configuration is checked as a whole before the device, which does not exist, is opened.
        command = (
            "zonal serve --config page.toml --device file:none/flash --access-key a --secret-key b "
            "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --data-dir page-data"
        )
        output = world.run(command, status=2)
        if "page.toml" in output:
            raise Failed(output)


@dataclasses.dataclass(frozen=True)
class Keys:
    """A keys file: the environment for its first key can be printed."""

    key: str

    def run(self, world, block):
        (world.folder / "keys.toml").write_text(world.replaced(block.text))
        check_order(world.run("zonal env --keys-file keys.toml"), (f"AWS_ACCESS_KEY_ID={self.key}",))


@dataclasses.dataclass(frozen=True)
class Lines:
    """Commands for several programs, a line each. Those in `elsewhere` do not run here, for the reason given."""

    elsewhere: dict[str, str]

    def run(self, world, block):
        for line in world.replaced(block.text).splitlines():
            if line.split()[0] not in self.elsewhere:
                world.run(line)


@dataclasses.dataclass(frozen=True)
class Elsewhere:
    """No test runs this block here, for the reason given."""

    reason: str

    def run(self, world, block):
        pass


def check_order(output, prints):
    rest = output
    for text in prints:
        _, found, rest = rest.partition(text)
        if not found:
            raise Failed(f"{text!r} is not in, or not in this order:\n{output}")


# A number, with its unit where there is one.
NUMBER = re.compile(r"-?\d[\d.,]*(?: ?(?:B|KiB|MiB|GiB)\b)?")


def check_lines(command, output, printed):
    def shape(line):
        return " ".join(NUMBER.sub("0", line).split())

    def fits(got, expected):
        got, expected = shape(got), shape(expected)
        begin = expected.removesuffix("...")
        return got == expected or (begin != expected and got.startswith(begin))

    same_length = len(output) == len(printed) or not printed
    if not same_length or not all(map(fits, output, printed)):
        told, page = "\n".join(output), "\n".join(printed)
        raise Failed(f"{command}\nprinted\n{told}\nand the page has\n{page}")
