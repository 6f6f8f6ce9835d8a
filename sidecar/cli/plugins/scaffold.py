"""What `sidecar plugins new` writes: a small complete plugin, which passes its conformance suite as it stands."""

import keyword
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Final

from sidecar.policy.kinds import PluginKind

NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
LONGEST: Final = 40
TEMPLATES: Final = files("sidecar.cli") / "plugin_templates"


class ScaffoldError(Exception):
    """The project cannot be written. The message names cause and remedy."""


def write_scaffold(kind: PluginKind, name: str, folder: Path) -> Path:
    """Write the project into a new folder, `name` in `folder`, completely or not at all; return its path.

    Raises:
        CannotBegin: the name cannot be one, or something is there already, or nothing can be written there.
    """
    _check(name)
    project = folder / name
    if project.exists() or project.is_symlink():
        raise ScaffoldError(f"{project} is there already; choose another name, or another folder with --dir")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as whole:
            written = Path(whole) / name
            for path, text in _contents(kind, name).items():
                (written / path).parent.mkdir(parents=True, exist_ok=True)
                (written / path).write_text(text, encoding="utf-8")
            project.mkdir()  # fails if another process has created it meanwhile
            shutil.copytree(written, project, dirs_exist_ok=True)
    except OSError as error:
        raise ScaffoldError(f"{project} cannot be written: {error.strerror or error}") from error
    return project


def _check(name: str) -> None:
    if not NAME.match(name) or len(name) > LONGEST:
        raise ScaffoldError(
            f"{name[:60]!r} cannot be a plugin's name; take at most {LONGEST} lower-case letters, digits and single "
            "`-`, beginning with a letter, e.g. `rewards-flags`"
        )
    module = _module(name)
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or find_spec(module) is not None:
        raise ScaffoldError(f"a Python module `{module}` is there already; choose another name than {name!r}")


def _contents(kind: PluginKind, name: str) -> Mapping[str, str]:
    """Return each file by its path inside the project."""
    words = {"kind": str(kind), "name": name, "module": _module(name), "Class": _class(name)}
    words["about"] = _filled(f"{kind}/about.txt", words).strip()
    words["settings"] = _filled(f"{kind}/settings.txt", words)
    return {
        "pyproject.toml": _filled("pyproject.toml.txt", words),
        "README.md": _filled("README.md.txt", words),
        f"{words['module']}.py": _filled(f"{kind}/plugin.txt", words),
        "tests/test_conformance.py": _filled(f"{kind}/test.txt", words),
    }


def _filled(template: str, words: Mapping[str, str]) -> str:
    return Template(TEMPLATES.joinpath(*template.split("/")).read_text("utf-8")).substitute(words)


def _module(name: str) -> str:
    return name.replace("-", "_")


def _class(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))
