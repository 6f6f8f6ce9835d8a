"""Empty environments that the tests install wheels into."""

import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


class Environment:
    """A virtual environment without pip; the pip of the tests installs into it.

    Args:
        folder: does not exist yet.
        beside: folders whose packages can be imported behind the environment's own.
    """

    def __init__(self, folder: Path, beside: Sequence[str] = ()) -> None:
        venv.create(folder, symlinks=True)
        self.folder = folder
        self.python = folder / "bin" / "python"
        if beside:
            (self.site / "beside.pth").write_text("\n".join(beside) + "\n", "utf-8")

    @property
    def site(self) -> Path:
        """Where its packages are."""
        (found,) = (self.folder / "lib").glob("python3*/site-packages")
        return found

    def install(self, *arguments: str) -> None:
        """Run `pip install`; it has to succeed."""
        self._run(*PIP, "--python", str(self.python), "install", "--no-compile", *arguments)

    def check(self) -> None:
        """Run `pip check`: everything that is installed has what it needs, in versions that it admits."""
        self._run(*PIP, "--python", str(self.python), "check")

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the environment outside of the repository, and return its output; it has to succeed."""
        return self._run(str(self.folder / "bin" / program), *arguments)

    def _run(self, *command: str) -> str:
        environment = {"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "HOME": str(self.folder), **_of_pip()}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=580
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@cache
def _of_pip() -> Mapping[str, str]:
    """Return where pip looks for packages, as the machine is set up."""
    said = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    lines = [line.partition("=") for line in said.splitlines() if "=" in line]
    found = {name.partition(".")[2].removesuffix("."): value.strip("'") for name, _, value in lines}
    return {f"PIP_{name.upper().replace('-', '_')}": value for name, value in found.items() if name}
