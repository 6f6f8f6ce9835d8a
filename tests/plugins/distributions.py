"""Distributions as an installer leaves them: a module and its metadata in a folder on the import path."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.metadata import DistributionFinder, PathDistribution
from pathlib import Path

from sidecar.policy.entry_points import ENTRY_POINT_GROUP

GOOD = """
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import FlagBackendSpec

@hookimpl
def sidecar_flag_backends():
    return [FlagBackendSpec(name="{name}", contract="flag-backend/1", summary="Made", factory=lambda settings: None)]
"""
"""A plugin that offers one flag backend; `format` it with its name."""


class SitePackages:
    """A folder of installed distributions.

    Each imported module leaves a file `<module>.ran` beside it, written by its first statement.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def install(self, distribution: str, code: str, *, entry: str, version: str = "1.0", target: str = "") -> None:
        """Install a distribution with one entry point, named `entry`, and one module."""
        module = distribution.replace("-", "_")
        trace = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').write_text('ran')\n"
        (self.root / f"{module}.py").write_text(trace + code, encoding="utf-8")
        info = self.root / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[sidecar.plugins]\n{entry} = {target or module}\n")
        importlib.invalidate_caches()

    def ran(self, distribution: str) -> bool:
        """Say whether any of the distribution's code has run."""
        return (self.root / f"{distribution.replace('-', '_')}.ran").exists()


@contextmanager
def site_packages(root: Path) -> Iterator[SitePackages]:
    """Put a new folder of distributions on the import path, and forget all that was imported from it.

    Meanwhile no other installed plugin is listed, such as those of this repository.
    """
    before = set(sys.modules)
    sys.path.insert(0, str(root))
    place, finder = sys.meta_path.index(PathFinder), _finder_of_plugins_in(root)
    sys.meta_path[place] = finder
    try:
        yield SitePackages(root)
    finally:
        sys.path.remove(str(root))
        sys.meta_path[sys.meta_path.index(finder)] = PathFinder
        for name in sorted(set(sys.modules) - before):
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).is_relative_to(root):
                del sys.modules[name]
        importlib.invalidate_caches()


def _finder_of_plugins_in(root: Path) -> type[PathFinder]:
    """Return a finder like Python's own, except that it does not see plugins installed elsewhere."""

    class Finder(PathFinder):
        @classmethod
        def find_distributions(
            cls,
            context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008 - as in the base class
        ) -> Iterator[PathDistribution]:
            for found in PathFinder.find_distributions(context):
                is_plugin = any(entry.group == ENTRY_POINT_GROUP for entry in found.entry_points)
                if not is_plugin or Path(str(found.locate_file(""))).is_relative_to(root):
                    yield found

    return Finder
