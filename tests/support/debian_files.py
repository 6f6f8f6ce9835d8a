"""A root file system with Python, made of the files that packages of Debian have left on this machine.

Unpacking and configuring the same packages anew takes a minute of a core, and a network; copying takes two seconds.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

NEEDED: Final = (
    "base-files",
    "coreutils",
    "dash",
    "libc-bin",
    "libstdc++6",
    "login",
    "passwd",
    "python3",
    "python3-venv",
)
"""What a build and a test run: a shell and its commands, `useradd`, Python; gRPC needs C++."""
NOT_RUN: Final = frozenset({"debconf", "dpkg"})
"""Packages that only the installation of others runs."""
LEFT_OUT: Final = re.compile(r"/usr/share/(?:doc|locale|man|info|lintian)/")
FIELDS: Final = "${Package}\t${db:Status-Status}\t${Pre-Depends}, ${Depends}\n"
PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]+")
LINKED: Final = ("bin", "lib", "lib64", "sbin")
"""Folders that are links into `/usr`."""
USERS: Final = Path("/usr/share/base-passwd")


def copy_debian(root: Path) -> None:
    """Fill an empty folder, as root."""
    for name in LINKED:
        (root / name).symlink_to(f"usr/{name}")
        (root / "usr" / name).mkdir(parents=True)
    for name in ("dev", "etc", "proc", "root", "run", "sys", "tmp", "var/lib", "var/tmp"):
        (root / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    given = b"\0".join(os.fsencode(path.lstrip("/")) for path in sorted(set(_files(_packages()))))
    packing = [
        "tar",
        "--create",
        "--directory=/",
        "--no-recursion",
        "--null",
        "--verbatim-files-from",
        "--files-from=-",
    ]
    with subprocess.Popen(["tar", "--extract", "--directory", str(root)], stdin=subprocess.PIPE) as unpacking:
        subprocess.run(packing, input=given, stdout=unpacking.stdin, check=True)
    assert unpacking.returncode == 0, "the files could not be unpacked"
    for name in ("passwd", "group"):
        shutil.copy(USERS / f"{name}.master", root / "etc" / name)
    subprocess.run(["ldconfig", "-r", str(root)], check=True)


def _packages() -> Sequence[str]:
    """Return the packages that are needed, and what they depend on, as far as it is installed."""
    depends = _depends()
    found: dict[str, None] = {}
    left = list(NEEDED)
    while left:
        name = left.pop()
        if name in depends and name not in found and name not in NOT_RUN:
            found[name] = None
            left += depends[name]
    assert found.keys() >= set(NEEDED), f"not installed: {set(NEEDED) - found.keys()}"
    return tuple(found)


def _depends() -> Mapping[str, Sequence[str]]:
    """Return what each installed package names as needed, alternatives included."""
    said = subprocess.run(
        ["dpkg-query", "--show", f"--showformat={FIELDS}"], capture_output=True, text=True, check=True
    )
    rows = (line.split("\t") for line in said.stdout.splitlines())
    return {
        name: [found[0] for each in re.split(r"[,|]", needs) if (found := PACKAGE.search(each))]
        for name, status, needs in rows
        if status == "installed"
    }


def _files(packages: Sequence[str]) -> Iterator[str]:
    """Yield their files under the names that no link leads to, with what Python has compiled of them."""
    asking = ["dpkg-query", "--listfiles", *packages]
    for line in subprocess.run(asking, capture_output=True, text=True, check=True).stdout.splitlines():
        folder, _, name = line.rpartition("/")
        is_file = os.path.islink(line) or os.path.isfile(line)
        if not folder or not is_file or LEFT_OUT.match(line):
            continue
        yield f"{os.path.realpath(folder)}/{name}"
        if name.endswith(".py"):
            compiled = Path(folder, "__pycache__").glob(f"{name.removesuffix('.py')}.*.pyc")
            yield from (f"{os.path.realpath(each.parent)}/{each.name}" for each in compiled)
