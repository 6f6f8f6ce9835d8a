"""The plugin of `plugins/README.md` is taken from the page and run as it stands."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from sidecar.core.identifiers import Vertical
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.factory import make_flag_backend
from sidecar.policy.loading import load_plugins
from sidecar.policy.selection import PolicyNames, PolicySettings, resolve_policy
from sidecar_conformance.suite import case_names, failures_of
from tests.plugins.distributions import SitePackages
from tests.unit.policy.offered import PLATFORM, Offering

README = Path(__file__).parents[2] / "plugins" / "README.md"


def written(name: str) -> str:
    """Return the block that follows the name of a file."""
    block = re.search(
        rf"^`{re.escape(name)}`:\n\n```\w+\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert block is not None, f"{README} has no {name}"
    return block[1]


def install(site: SitePackages) -> None:
    """Install what the page's pyproject would."""
    project = tomllib.loads(written("pyproject.toml"))["project"]
    ((entry, target),) = project["entry-points"]["sidecar.plugins"].items()
    site.install(project["name"], written("flags_directory.py"), entry=entry, target=target, version=project["version"])


async def test_the_example_is_loaded_chosen_and_read_as_its_page_says(site: SitePackages, tmp_path: Path) -> None:
    """With the page's own settings, except for the path."""
    install(site)
    settings = tomllib.loads(written("sidecar.toml"))
    verticals = {Vertical(name): PolicyNames(**names) for name, names in settings["policy"]["verticals"].items()}

    host = load_plugins([Offering(*PLATFORM)], PluginSelection(tuple(settings["plugins"]["enabled"])))
    policy = resolve_policy(PolicySettings(verticals=verticals), host)
    flags = tmp_path / "flags"
    flags.mkdir()
    (flags / "ai_assistant_subagent_rewards").touch()
    backend = make_flag_backend(
        policy.of(Vertical("rewards")).flags, {**settings["flags"]["directory"], "path": str(flags)}
    )

    assert (await backend.fetch()).on == {"ai_assistant_subagent_rewards"}
    assert policy.of(None).flags.name == "memory"


def test_the_example_passes_its_own_conformance_tests(site: SitePackages, tmp_path: Path) -> None:
    """Every case that its declared abilities leave."""
    install(site)
    (tmp_path / "example_conformance.py").write_text(written("test_conformance.py"), encoding="utf-8")
    __import__("example_conformance")
    example = sys.modules["example_conformance"]
    roots = iter(range(100))

    def bench() -> object:
        root = tmp_path / f"bench-{next(roots)}"
        root.mkdir()
        return example.DirectoryBench(root)

    assert failures_of(example.TestDirectory, bench) == {}
    assert len(case_names(example.TestDirectory)) >= 12


@pytest.mark.parametrize("page", [README, README.parents[1] / "docs" / "plugins.md"])
def test_every_settings_example_is_toml(page: Path) -> None:
    """Also those that no test starts a sidecar with."""
    blocks = re.findall(r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)

    assert [tomllib.loads(block) for block in blocks]
