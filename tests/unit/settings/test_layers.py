"""Definitions, settings and flags each refuse what belongs to another layer."""

from pathlib import Path

import pytest

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.adapters.flags_file import FlagFileProblem, flags_in_json
from sidecar.settings import SettingsProblem, read_settings
from tests.corpus.bad_configs.good import AGENT_CONFIG, write
from tests.support.requirement import requirement

PAGE = Path(__file__).parents[3] / "docs" / "configuration-layers.md"
LEAST = '[definitions]\npath = "config"\n[dispatch]\nfan_out_cap = 3\n'


@requirement("PC1-D-45")
@pytest.mark.parametrize("setting", ["dispatch: {fan_out_cap: 3}", "environments: {test: {}}", "flags: {x: true}"])
def test_definitions_take_no_setting_and_no_flags_state(setting: str, tmp_path: Path) -> None:
    """A table of the settings beside `agents`, values by environment, states of flags: unknown fields."""
    write(tmp_path, {"agent_config.yaml": AGENT_CONFIG + setting + "\n"})

    (problem,) = load_directory(tmp_path).errors

    assert problem.text.startswith(f'unknown field "{setting.partition(":")[0]}"')


@requirement("PC1-D-45")
@pytest.mark.parametrize("table", ["agents", "tools", "models"])
def test_settings_take_no_definition(table: str, tmp_path: Path) -> None:
    """A registry of `agent_config.yaml` in `sidecar.toml` refuses the start."""
    file = tmp_path / "sidecar.toml"
    file.write_text(LEAST + f'[[{table}]]\nid = "shop"\n')

    with pytest.raises(SettingsProblem) as refused:
        read_settings(file, {})

    assert [table in line for line in refused.value.problems] == [True]


@requirement("PC1-D-45")
@pytest.mark.parametrize("value", ['"eu"', "3", '{"cap": 3}', "null"])
def test_a_flag_carries_no_value(value: str) -> None:
    """A text, a number, a table, nothing: none is on or off."""
    with pytest.raises(FlagFileProblem):
        flags_in_json(f'{{"flags": {{"ai_assistant_x": {value}}}}}')


@requirement("PC1-D-45")
def test_the_three_layers_are_documented_side_by_side() -> None:
    """One page with a column for each, which the index of documents names."""
    assert "| | definitions | settings | feature flags |" in PAGE.read_text("utf-8")
    assert "(configuration-layers.md)" in (PAGE.parent / "README.md").read_text("utf-8")
