"""`python -m tests.support.planted <folder> <module> ...`: runs a module with files of ours replaced.

The folder holds changed files under their paths in the repository (`replace`). A copy of a warm process
(`tests/support/fork_server`) has imported most of what runs. It forgets the modules of these files and every module
that imports one of them, directly or through others, so that those are imported again. That takes a fraction of what a
new process needs. The processes that it starts find the changed files, too.
"""

import os
import re
import runpy
import shutil
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
OURS: Final = ("sidecar", "examples", "tests/support", "tests/simulation", "tests/rpc")
"""Folders of what may run."""
FORGOTTEN: Final = "forgotten"
"""The file that names the modules which have to be imported again."""
IMPORT: Final = re.compile(r"^ *(?:from ([\w.]+) )?import (\([^)]*\)|.*)", re.MULTILINE)
IN_OTHERS: Final = """\
import sys
sys.path.insert(0, {root!r})
from tests.support.planted import begin
begin({folder!r})
del sys.path[0]
"""
"""The `sitecustomize` of the processes that it starts."""
NAME: Final = re.compile(r"[\w.]+")


class ReplacedModules(MetaPathFinder):
    """Finds the changed files in place of the repository's."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where a changed module is, or leave it to the others."""
        return spec_from_file_location(name, self._files[name]) if name in self._files else None


def replace(files: Collection[str], folder: Path) -> None:
    """Copy files of the repository into an empty folder, where they can be changed; note what imports them."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, folder / file)
    (folder / FORGOTTEN).write_text("\n".join(sorted(importers_of(modules_in(folder)))), "utf-8")
    (folder / "sitecustomize.py").write_text(IN_OTHERS.format(root=str(ROOT), folder=str(folder)), "utf-8")


def begin(folder: str) -> None:
    """Find the changed files in place of the repository's from now on."""
    sys.meta_path.insert(0, ReplacedModules(modules_in(Path(folder))))


def modules_in(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by the names of their modules."""
    return {_name_of(path.relative_to(folder)): path for path in folder.rglob("*.py")}


def importers_of(modules: Collection[str]) -> Set[str]:
    """Return modules with all that import one of them, directly or through others."""
    found: set[str] = set()
    left = list(modules)
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += _importers().get(name, ())
    return found


@cache
def _importers() -> Mapping[str, Set[str]]:
    """Return, by name, who may import it. The text is enough: what looks like an import is imported once more."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for path in (path for folder in OURS for path in (ROOT / folder).rglob("*.py")):
        name = _name_of(path.relative_to(ROOT))
        for source, imported in IMPORT.findall(path.read_text("utf-8")):
            given = NAME.findall(imported)
            for each in (source, *(f"{source}.{one}" for one in given)) if source else given:
                importers[each].add(name)
    return importers


def _name_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _forget(names: Collection[str]) -> None:
    """Let modules be imported again; `from package import module` looks at the package first."""
    for name in names:
        sys.modules.pop(name, None)
        package, _, own = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(own, None)


def main() -> None:
    """Forget, and run."""
    folder, module, *arguments = sys.argv[1:]
    _forget((Path(folder) / FORGOTTEN).read_text("utf-8").split())
    begin(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
