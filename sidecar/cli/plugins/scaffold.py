"""Writes the project of `sidecar plugins new`: a small, complete plugin that passes its conformance suite unchanged."""

import keyword
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sidecar.cli.scaffolding.project_files import ScaffoldError, filled, write_project
from sidecar.policy.kinds import PluginKind

NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
LONGEST: Final = 40
"""The most characters of a name."""


def write_scaffold(kind: PluginKind, name: str, folder: Path) -> Path:
    """Write the project into a new folder, `name` in `folder`, completely or not at all; return its path.

    Raises:
        ScaffoldError: the name is invalid, a file or folder with this name exists, or the folder is not writable.
    """
    _check(name)
    return write_project(name, folder, _contents(kind, name))


def _check(name: str) -> None:
    if not NAME.match(name) or len(name) > LONGEST:
        raise ScaffoldError(
            f"{name[:60]!r} cannot be a plugin's name; take at most {LONGEST} lower-case letters, digits and single "
            "`-`, beginning with a letter, e.g. `rewards-flags`"
        )
    module = _module(name)
    # An import of the plugin would otherwise find the other module.
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or find_spec(module) is not None:
        raise ScaffoldError(f"a Python module `{module}` exists already; choose another name than {name!r}")


def _contents(kind: PluginKind, name: str) -> Mapping[str, str]:
    """Return the text of each file by its path inside the project.

    The templates contain placeholders, which `filled` replaces by `words`. `about` and `settings` are templates
    themselves; the others refer to them.
    """
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
    return filled(f"plugin_templates/{template}", words)


def _module(name: str) -> str:
    """Return the name of the Python module, e.g. `rewards_flags` for `rewards-flags`."""
    return name.replace("-", "_")


def _class(name: str) -> str:
    """Return the prefix of its class names, e.g. `RewardsFlags` for `rewards-flags`."""
    return "".join(part.capitalize() for part in name.split("-"))
