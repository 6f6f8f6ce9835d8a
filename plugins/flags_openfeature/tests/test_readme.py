"""The sample of the README makes a backend, and what it enables is this package."""

import tomllib
from pathlib import Path

from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.factory import make_flag_backend
from sidecar.policy.loading import load_plugins
from sidecar.policy.specs import PluginKind

README = Path(__file__).parents[1] / "README.md"


async def test_the_sample_of_the_readme_is_discovered_by_its_name_and_made() -> None:
    """Through the entry point of the installed distribution, with the settings as they stand there."""
    sample = tomllib.loads(README.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0])
    host = load_plugins((), PluginSelection(tuple(sample["plugins"]["enabled"])))
    name = sample["policy"]["verticals"]["rewards"]["flags"]
    spec = host.registered[PluginKind.FLAG_BACKEND, name].spec
    backend = make_flag_backend(spec, sample["flags"][name])  # type: ignore[arg-type]  # of that kind
    await backend.close()
