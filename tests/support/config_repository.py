"""A git repository with a configuration in it, the same on every machine: nobody's settings, fixed names and dates."""

import io
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.adapters.definitions_directory.comparison import compare
from sidecar.cli.validate.validate_refs import Format, ValidateRefsOptions, validate_refs
from sidecar.core.definitions.review.references import BaseSelection, Check
from tests.corpus.bad_configs.good import CONFIG, write
from tests.support.named_skips import needs_tool

NOBODY: Final = Path(__file__).parents[1] / "corpus" / "rollouts_of_nobody.json"
"""An export of rollouts in which nobody is rolled back."""
WHEN: Final = "2031-05-06T07:08:09+0000"


@dataclass(frozen=True)
class Printed:
    """What came of one run."""

    code: int
    out: str
    errors: str

    @property
    def lines(self) -> list[str]:
        """Findings and what belongs to them, without the last line."""
        return self.out.splitlines()[:-1]


class ConfigRepository:
    """A repository whose branch `main` begins with the good configuration.

    Args:
        folder: the repository.
        under: the configuration's folder inside it.
    """

    def __init__(self, folder: Path, under: str = "") -> None:
        """Make the repository and its first commit."""
        self.folder = folder
        self.root = folder / under
        self._git = needs_tool("git")
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main", "--template=")
        write(self.root)
        self.commit()
        self.git("checkout", "-q", "-b", "change")

    def git(self, *arguments: str) -> str:
        """Run git and return what it says."""
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in PERSON.items()},
        }
        done = subprocess.run(
            [self._git, *arguments], cwd=self.folder, env=env, check=True, capture_output=True, text=True, timeout=300
        )
        return done.stdout.strip()

    def commit(self, message: str = "change") -> str:
        """Commit everything and return the commit."""
        self.git("add", "-A")
        self.git("-c", "gc.auto=0", "commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def edit(self, *edits: tuple[str, str]) -> None:
        """Replace the first occurrence of each old text in `agent_config.yaml`; each must be there."""
        text = (self.root / CONFIG).read_text()
        for old, new in edits:
            assert old in text, f"the test edits what is not there: {old}"
            text = text.replace(old, new, 1)
        (self.root / CONFIG).write_text(text)

    def put(self, files: Mapping[str, str]) -> None:
        """Write files below the configuration root."""
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)

    def check(
        self, base: str = "main", *, skip: str = "", export: Path | None = None, shape: Format = Format.HUMAN
    ) -> Printed:
        """Run the command against a base."""
        return checked(self.root, BaseSelection(ref=base), skip=skip, export=export, shape=shape)


def checked(
    root: Path,
    base: BaseSelection,
    *,
    skip: str = "",
    export: Path | None = None,
    shape: Format = Format.HUMAN,
) -> Printed:
    """Run the command; `skip` holds letters of checks to switch off. Unless told otherwise nobody is rolled back."""
    out, errors = io.StringIO(), io.StringIO()
    wish = ValidateRefsOptions(base, export or NOBODY, frozenset(Check(letter) for letter in skip), shape)
    return Printed(validate_refs(root, wish, compare, out, errors), out.getvalue(), errors.getvalue())


PERSON: Final = {"NAME": "T", "EMAIL": "t@example.org", "DATE": WHEN}
