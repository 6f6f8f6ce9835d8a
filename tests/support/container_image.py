"""Builds and runs the repository's image without a Docker engine: buildah in a chroot, on a base of the host's files.

How packages are fetched is the host's business: its pip does that, by the lock; building fetches nothing else.
"""

import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pytest

from tests.support.debian_files import copy_debian
from tests.support.named_skips import needs_root, needs_tool

REPOSITORY: Final = Path(__file__).resolve().parent.parent.parent
LOCK: Final = REPOSITORY / "requirements" / "image.txt"
DEBIAN_PYTHON: Final = "/usr/bin/python3"
"""What the image runs, too."""
LONGEST: Final = 900.0
"""Seconds that one step of building may take: it fetches packages, from servers that may be slow."""


@dataclass(frozen=True, slots=True)
class ContainerTools:
    """Buildah with a storage of its own, so that nothing of the host's containers is touched.

    Attributes:
        storage: an empty folder.
        driver: how layers are kept: `overlay` where the host can mount them, or `vfs`, which copies each one.
    """

    storage: Path
    driver: str = "overlay"

    @classmethod
    def usable(cls, storage: Path) -> Self:
        """Return the tools with the cheapest driver that works in a folder of this host."""
        overlay = cls(storage)
        tried = subprocess.run(overlay.command("from", "scratch"), capture_output=True, check=False, timeout=LONGEST)
        return overlay if tried.returncode == 0 else cls(storage / "vfs", "vfs")

    def command(self, *arguments: str) -> list[str]:
        """Return the whole command line of a buildah call."""
        place = ["--root", str(self.storage / "root"), "--runroot", str(self.storage / "run")]
        return ["buildah", *place, "--storage-driver", self.driver, *arguments]

    def call(self, *arguments: str, seconds: float = LONGEST) -> str:
        """Run buildah and return what it printed; fail the test with all its words if it fails."""
        return _output(self.command(*arguments), seconds)

    def debian_image(self, name: str) -> None:
        """Make an image of one layer that has Python, of this machine's own files."""
        container = self.call("from", "scratch").strip()
        copy_debian(Path(self.call("mount", container).strip()))
        self.call("commit", "-q", container, name)
        self.call("rm", container)

    def configuration(self, image: str) -> Mapping[str, Any]:
        """Return the image's configuration as Docker names it: `Entrypoint`, `Cmd`, `User`, `Healthcheck`, ..."""
        found: dict[str, Any] = json.loads(self.call("inspect", "--type", "image", image))["Docker"]["config"]
        return found

    def remove(self) -> None:
        """Take the storage away again."""
        subprocess.run(self.command("rm", "--all"), capture_output=True, check=False, timeout=LONGEST)
        shutil.rmtree(self.storage, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Inside:
    """A process in a container. Chroot isolation shares the host's process ids, so it can be signalled directly."""

    outside: subprocess.Popen[str]
    pid: int

    def signal(self, which: signal.Signals) -> None:
        """Send a signal to the process itself, as a container engine would."""
        os.kill(self.pid, which)

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.outside.poll() is None

    def ended(self, seconds: float) -> tuple[int, str]:
        """Wait for its end; return its exit code and everything it printed."""
        printed, _ = self.outside.communicate(timeout=seconds)
        return self.outside.returncode, printed


@dataclass(frozen=True, slots=True)
class Container:
    """A container of an image; its commands share one file system and the host's network."""

    tools: ContainerTools
    id: str

    def command(self, *arguments: str, mounts: Mapping[Path, str] | None = None) -> list[str]:
        """Return the command line that runs something inside, as the image's user.

        Args:
            arguments: the command inside.
            mounts: where host folders and files appear inside, for reading only.
        """
        volumes = [f"--volume={outside}:{inside}:ro" for outside, inside in (mounts or {}).items()]
        return self.tools.command("run", "--isolation", "chroot", *volumes, self.id, "--", *arguments)

    def output(self, *arguments: str) -> str:
        """Run something inside to its end and return what it printed."""
        return _output(self.command(*arguments), LONGEST)

    def succeeds(self, *arguments: str, mounts: Mapping[Path, str] | None = None) -> bool:
        """Run something inside to its end; whether it ended with 0."""
        command = self.command(*arguments, mounts=mounts)
        return subprocess.run(command, capture_output=True, timeout=300, check=False).returncode == 0

    @contextmanager
    def running(self, *arguments: str, mounts: Mapping[Path, str] | None = None) -> Iterator[Inside]:
        """Start something inside; whatever is still running at the end is killed."""
        command = self.command("sh", "-c", 'echo $$; exec "$@"', "sh", *arguments, mounts=mounts)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as outside:
            assert outside.stdout is not None
            inside = Inside(outside, int(outside.stdout.readline()))
            try:
                yield inside
            finally:
                if outside.poll() is None:
                    inside.signal(signal.SIGKILL)


def needs_debian() -> None:
    """Skip the test, by name, where root, buildah or Debian itself is missing."""
    needs_root()
    needs_tool("buildah")
    system = platform.freedesktop_os_release()
    if system["ID"] != "debian":
        pytest.skip(f"missing system: Debian (this is {system['ID']})")


def locked_wheels(kept: Path) -> Path:
    """Return a folder with all wheels of the image's lock.

    Where nothing has changed since they were fetched, they are there: to look through the pages of sixty packages for
    the right files takes 25 s of a core.

    Args:
        kept: a folder that outlives the run.
    """
    asked = LOCK.read_bytes() + subprocess.check_output([DEBIAN_PYTHON, "--version"])
    folder = kept / hashlib.sha256(asked).hexdigest()
    if not folder.exists():
        shutil.rmtree(kept)
        fetched = kept / "fetched"
        fetching = ["--python", DEBIAN_PYTHON, "download", "-q", "--require-hashes", "--only-binary", ":all:"]
        _output([sys.executable, "-m", "pip", *fetching, "-r", str(LOCK), "-d", str(fetched)], LONGEST)
        fetched.rename(folder)
    return folder


def build(tools: ContainerTools, base: str, name: str, wheels: Path) -> None:
    """Build the repository's Dockerfile on the image `base`.

    Args:
        tools: whose storage gets it.
        base: name of an image that has python.
        name: of the new image.
        wheels: what its pip fetches from, instead of from an index.
    """
    configuration = tools.storage / "pip.conf"
    configuration.write_text("[global]\nno-index = true\nfind-links = /fetched\n", encoding="utf-8")
    tools.call(
        *("bud", "--isolation", "chroot", "--format", "docker", "--layers=false", "--build-arg", f"BASE={base}"),
        *(f"--volume={configuration}:/etc/pip.conf:ro", f"--volume={wheels}:/fetched:ro"),
        *("--tag", name, str(REPOSITORY)),
    )


def build_layer(tools: ContainerTools, folder: Path, name: str, arguments: Mapping[str, str]) -> None:
    """Build the Dockerfile of another folder, which fetches nothing.

    Args:
        tools: whose storage gets it.
        folder: with the Dockerfile and what it copies.
        name: of the new image.
        arguments: of the build.
    """
    given = [f"--build-arg={argument}={value}" for argument, value in arguments.items()]
    tools.call("bud", "--isolation", "chroot", "--layers=false", *given, "--tag", name, str(folder))


def _output(command: Sequence[str], seconds: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout
