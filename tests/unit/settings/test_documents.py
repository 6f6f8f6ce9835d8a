"""The example file and the page about settings say what the settings are."""

import re
from pathlib import Path

import pytest

from scripts.document_settings import documents
from sidecar.settings import read_settings

ROOT = Path(__file__).parents[3]
BASE = '[definitions]\npath = "config"\n[dispatch]\nfan_out_cap = 3\n'
"""The settings without a default."""


@pytest.mark.parametrize("path", list(documents()), ids=lambda path: path.name)
def test_what_is_made_from_the_settings_is_current(path: Path) -> None:
    """Else: `python -m scripts.document_settings`."""
    assert path.read_text("utf-8") == documents()[path]


def test_the_example_can_be_used_with_every_line_uncommented(tmp_path: Path) -> None:
    """Its commented values are the defaults: uncommented, they change nothing. Sections that are absent stay so."""
    example = ROOT / "examples" / "settings.example.toml"
    text = example.read_text("utf-8")
    uncommented = tmp_path / "all.toml"
    shown = re.sub(r"(?ms)^#\[.*?(?=^#?\[|\Z)", "", text)
    uncommented.write_text(re.sub(r"(?m)^#(\w+ = )", r"\1", shown))
    assert uncommented.read_text() != text
    assert read_settings(uncommented, {}) == read_settings(example, {})


def test_a_section_that_is_absent_is_documented_and_its_example_can_be_used(tmp_path: Path) -> None:
    """Those of the two issuers: with every line uncommented and one source of keys, it has the values shown."""
    text = (ROOT / "examples" / "settings.example.toml").read_text("utf-8")
    for name in ("operators.issuer", "principals"):
        (section,) = re.findall(rf"(?ms)^#\[{re.escape(name)}\].*?(?=^#?\[|\Z)", text)
        file = tmp_path / f"{name}.toml"
        shown = re.sub(r"(?m)^#(\w+ = |\[)", r"\1", section)
        file.write_text(f'{shown}jwks_file = "keys.json"\n{BASE}')
        settings = read_settings(file, {})
        issuer = settings.principals if name == "principals" else settings.operators.issuer
        assert issuer is not None
        assert (issuer.url, issuer.audience) == ("https://login.example.com", "dispatch-sidecar")


def test_the_settings_to_start_with_can_be_used() -> None:
    """Read as they stand; the definitions they name are there."""
    settings = read_settings(ROOT / "examples" / "sidecar.toml", {})
    assert (ROOT / settings.definitions.path / "agent_config.yaml").is_file()
    assert set(settings.targets.slots) == {"shop", "rewards", "support"}
