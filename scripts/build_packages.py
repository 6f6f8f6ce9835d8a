"""Build the wheel and the sdist of every package of the repository: `python -m scripts.build_packages FOLDER`.

Each wheel is built from its own unpacked sdist: a file that is missing in the sdist is missing in the wheel too.
Nothing is fetched: the build backend is a part of the test environment.
"""

import os
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hatchling.build import build_sdist, build_wheel

REPOSITORY: Final = Path(__file__).resolve().parent.parent


def package_folders() -> Sequence[Path]:
    """Return the folders of all packages, the one of the sidecar first."""
    patterns = ("pyproject.toml", "proto/python/pyproject.toml", "clients/*/pyproject.toml", "plugins/*/pyproject.toml")
    return [file.parent for pattern in patterns for file in sorted(REPOSITORY.glob(pattern))]


def build(package: Path, target: Path) -> tuple[Path, Path]:
    """Build one package.

    Args:
        package: folder of its pyproject.toml.
        target: folder for the results; exists.

    Returns:
        Paths of the sdist and the wheel.
    """
    before = Path.cwd()
    try:
        os.chdir(package)  # the backend knows its project by the working directory alone
        sdist = target / build_sdist(str(target))
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(sdist) as archive:
                archive.extractall(folder, filter="data")
            os.chdir(Path(folder) / sdist.name.removesuffix(".tar.gz"))
            wheel = target / build_wheel(str(target))
            os.chdir(before)  # the folder is about to be removed
    finally:
        os.chdir(before)
    return sdist, wheel


def main(arguments: Sequence[str]) -> int:
    """Build everything into the folder that is named."""
    target = Path(arguments[0] if arguments else "dist").resolve()
    target.mkdir(parents=True, exist_ok=True)
    for package in package_folders():
        for built in build(package, target):
            print(built.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
