"""The client programs for the SDKs of Java and JavaScript: builds, starts and asks them.

A program reads one operation per line from standard input, and answers each with one line. So a
Java machine starts once for many operations. Maven and npm build below `.tools` and fetch what is
missing.
"""

import contextlib
import dataclasses
import os
import pathlib
import queue
import shutil
import subprocess
import threading

import s3_clients
import servers

SOURCES = pathlib.Path(__file__).resolve().parent
BUILT = servers.ROOT / ".tools/sdks"
# Seconds that Maven or npm may take: each version of Hadoop has 700 MB to fetch.
BUILD_SECONDS_MAX = 900
# Seconds that an operation may take, with the start of its program: 2 were the most seen.
OPERATION_SECONDS_MAX = 60
# Seconds until a program must have ended after its standard input did.
STOP_SECONDS_MAX = 10


@dataclasses.dataclass(frozen=True)
class Program:
    """A built program."""

    command: list
    # Its working directory.
    folder: pathlib.Path


def java(sdk_version, crt_version):
    properties = {"sdk.version": sdk_version, "crt.version": crt_version}
    return maven("java", sdk_version, properties, "JavaClient")


def hadoop(version):
    return maven("hadoop", version, {"hadoop.version": version}, "HadoopClient")


def maven(project, version, properties, main_class):
    """Builds a program of one class. Its jars stay in Maven's own repository."""
    sources, folder = SOURCES / project, BUILT / f"{project}-{version}"
    classpath = folder / "classpath"
    if not is_built(classpath, folder / f"classes/{main_class}.class", sources):
        command = ["mvn", "--quiet", "--batch-mode", "--file", sources / "pom.xml"]
        command += [f"-D{name}={value}" for name, value in properties.items()]
        command += [f"-Dbuild.folder={folder}", "package"]
        # When everything was fetched before, the build needs no network.
        if run(command + ["--offline"]) is not None:
            failure = run(command)
            assert failure is None, failure
        # Maven does not touch a file that stays as it was, and the time of this one counts.
        classpath.touch()
    command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{folder / 'classes'}:{classpath.read_text().strip()}"]
    return Program([*command, main_class], folder)


def is_built(classpath, compiled, sources):
    """Whether a program is younger than its sources, and all its jars exist."""
    if not (classpath.exists() and compiled.exists()):
        return False
    youngest = max(path.stat().st_mtime for path in sources.iterdir())
    jars = classpath.read_text().strip().split(":")
    return youngest < classpath.stat().st_mtime and all(map(os.path.exists, jars))


def javascript(version):
    """Installs the SDK. The one program takes the SDK from its working directory."""
    sources, folder = SOURCES / "javascript", BUILT / f"javascript-{version}"
    lock, done = sources / version / "package-lock.json", folder / "installed"
    if not done.exists() or done.read_bytes() != lock.read_bytes():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sources / version, folder)
        command = ["npm", "ci", "--prefix", folder, "--prefer-offline", "--ignore-scripts"]
        failure = run([*command, "--no-audit", "--no-fund", "--loglevel", "error"])
        assert failure is None, failure
        shutil.copyfile(lock, done)
    return Program(["node", sources / "client.mjs"], folder)


def run(command):
    """Runs a build, and returns why it failed, or `None`."""
    BUILT.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["nice", "-n", "10", *map(str, command)],
        cwd=BUILT,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS_MAX,
    )
    if done.returncode == 0:
        return None
    return f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}".strip()


class Session:
    """A program that talks to one endpoint. The first operation starts it, and so does the first
    one after a failure."""

    def __init__(self, program, endpoint, folder):
        self._program = program
        self._endpoint = endpoint
        self._folder = folder
        self._running = None
        self._answers = None

    def ask(self, *words):
        """Runs one operation, and returns the fields of its answer."""
        if self._running is None:
            self._start()
        try:
            self._running.stdin.write(" ".join(map(str, words)) + "\n")
            self._running.stdin.flush()
            answer = self._answers.get(timeout=OPERATION_SECONDS_MAX)
        except (OSError, queue.Empty) as error:
            self._kill()
            why = f"no answer to {words} within {OPERATION_SECONDS_MAX} s"
            raise RuntimeError(f"{why}; its last words: {self._last_words()}") from error
        if answer is None:
            self._kill()
            raise RuntimeError(f"it ended at {words}; its last words: {self._last_words()}")
        status, *fields = answer.rstrip("\n").split("\t")
        assert status == "ok", ' '.join(fields)
        return fields

    def close(self):
        if self._running is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._running.stdin.close()
                self._running.wait(timeout=STOP_SECONDS_MAX)
            self._kill()

    def _start(self):
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            # For native libraries that a program unpacks, and for what S3A buffers. Java looks at
            # the second of the two.
            "TMPDIR": str(folder),
            "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={folder}",
            "S3_ENDPOINT": self._endpoint.url,
            "S3_BUCKET": s3_clients.BUCKET,
            "AWS_ACCESS_KEY_ID": self._endpoint.access_key,
            "AWS_SECRET_ACCESS_KEY": self._endpoint.secret_key,
            "AWS_REGION": servers.REGION,
            # The user's own configuration must not reach the program.
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        with (folder / "stderr").open("ab") as log:
            self._running = subprocess.Popen(
                [str(word) for word in self._program.command],
                cwd=self._program.folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._answers = queue.SimpleQueue()
        arguments = self._running.stdout, self._answers
        threading.Thread(target=pass_on, args=arguments, daemon=True).start()

    def _kill(self):
        self._running.kill()
        self._running.wait()
        self._running = None

    def _last_words(self):
        lines = (self._folder / "stderr").read_text(errors="replace").splitlines()
        return "\n".join(lines[-servers.LOG_LINES_SHOWN :])


def pass_on(lines, answers):
    """Puts lines into a queue, and `None` at their end: reading a pipe has no time limit."""
    for line in lines:
        answers.put(line)
    answers.put(None)
