"""What the settings name of the definitions has to be there."""

import io
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.adapters.definitions_directory.source import DefinitionsChange
from sidecar.cli.validate.command import ValidateOptions, validate
from sidecar.composition.name_checks import NamesInSettings
from sidecar.composition.running import running_sidecar
from sidecar.settings import SettingsProblem, read_settings
from tests.support.sidecar_process import place, settings_file

MISSPELT = """
[targets.verticals]
travle = "unix:/run/travel.sock"

[policy.verticals.reward]
runner = "grpc"

[signatures]
files = { k1 = "/nowhere" }
verticals = ["shopp"]
tools = ["serch_offers"]
"""
LATER = '\n[policy.verticals.travel]\nrunner = "grpc"\n'


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


async def refused(file: Path) -> list[str]:
    """Start, and return why that is refused."""
    with pytest.raises(SettingsProblem) as problem:
        async with running_sidecar(read_settings(file, {})):
            pass
    return [line.partition(": choose")[0] for line in problem.value.problems]


def without_rewards(config: Path) -> None:
    """Take the definition `rewards` out of a configuration, as the end of a decommission does."""
    file = config / "agent_config.yaml"
    before, _, after = file.read_text().partition("  - id: rewards\n")
    file.write_text((before + "  - id: support\n" + after.partition("  - id: support\n")[2]).replace("rewards, ", ""))


async def test_names_that_nothing_has_refuse_the_start(folder: Path) -> None:
    """Slot, vertical and tool, in every section that names them; each with the choices."""
    file = settings_file(folder, MISSPELT)
    file.write_text(file.read_text().replace("\nshop = ", "\nshpo = "))

    assert await refused(file) == [
        "targets.slots: no definition has a slot `shpo`",
        "targets.verticals: no definition has a vertical `travle`",
        "policy.verticals: no definition has a vertical `reward`",
        "signatures.verticals: no definition has a vertical `shopp`",
        "signatures.tools: no definition has a data-backed tool `serch_offers`",
    ]


async def test_targets_without_a_scheme_refuse_the_start(folder: Path) -> None:
    """A path, and a host with a port; the message says what may be meant."""
    file = settings_file(folder, '\n[runners.grpc]\nplugin = "grpc"\ntarget = "localhost:7000"\n')
    file.write_text(file.read_text().replace(f"unix:{folder}/shop.sock", "/run/shop.sock"))

    told = await refused(file)

    assert [line.partition(": ")[0] for line in told] == ["runners.grpc.target", "targets.slots.shop"]
    assert "did you mean dns:localhost:7000?" in told[0]
    assert "did you mean unix:/run/shop.sock?" in told[1]


async def test_a_connector_whose_answers_must_be_signed_has_to_exist(folder: Path) -> None:
    """Else nothing would be checked, and nothing said."""
    more = '\n[signatures]\nfiles = { k1 = "/nowhere" }\nconnectors = ["rset"]\n'

    assert await refused(settings_file(folder, more)) == ["signatures.connectors: no connector is named `rset`"]


async def test_a_name_that_is_to_come_is_announced(folder: Path) -> None:
    """The settings of a new vertical may go out before its definition."""
    file = settings_file(folder, LATER)
    assert await refused(file) == ["policy.verticals: no definition has a vertical `travel`"]

    file.write_text(file.read_text().replace('expected = ["support"]', 'expected = ["travel"]'))
    async with running_sidecar(read_settings(file, {})) as sidecar:
        assert sidecar.settings.definitions.expected == ("travel",)


async def test_a_name_that_was_right_once_refuses_no_start(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A definition is decommissioned while the settings still name it: the sidecar starts again, and warns."""
    file = settings_file(folder)
    async with running_sidecar(read_settings(file, {})):
        pass
    without_rewards(folder / "config")

    with caplog.at_level(logging.WARNING):
        async with running_sidecar(read_settings(file, {})) as sidecar:
            assert sidecar.settings.targets.slots.keys() == {"shop", "rewards", "support"}
    assert "settings and definitions do not fit together" in caplog.text


def test_a_change_of_the_definitions_is_told_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A running sidecar goes on; the same names are not told again with every further change."""
    naming = NamesInSettings(read_settings(settings_file(folder), {}))
    without_rewards(folder / "config")
    change = DefinitionsChange(load_directory(folder / "config"), "r", in_force=True)

    with caplog.at_level(logging.WARNING):
        naming.changed(change)
        naming.changed(change)

    assert len(caplog.records) == 1


def test_validate_tells_the_same_without_a_start(folder: Path) -> None:
    """`sidecar validate DIR --config FILE` fails, and says it with the definitions' own problems."""
    settings = read_settings(settings_file(folder, LATER), {})
    out = io.StringIO()

    assert validate(folder / "config", ValidateOptions(settings=settings), load_directory, out) == 1
    first, *_, last = out.getvalue().splitlines()
    assert first.startswith("settings: policy.verticals: no definition has a vertical `travel`: choose one of: ")
    assert last.endswith("; the settings do not fit: 1 problem")

    shutil.copytree(folder / "config", folder / "again")
    fitting = read_settings(settings_file(folder), {})
    assert validate(folder / "again", ValidateOptions(settings=fitting), load_directory, io.StringIO()) == 0
