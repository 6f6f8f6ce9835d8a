"""Who counts as rolled back in `sidecar validate-refs`, and that a run says so if nobody told it."""

import io
import json
from pathlib import Path
from typing import Final

import pytest

from sidecar.adapters.definitions_directory.comparison import compare
from sidecar.cli.validate.validate_refs import Format, ValidateRefsOptions, validate_refs
from sidecar.core.definitions.review.references import BaseSelection, Check
from tests.support.config_repository import ConfigRepository, Printed
from tests.support.requirement import requirement

SETTINGS: Final = "subagent-validate-refs.toml"
KILLED: Final = json.dumps({"definitions": [{"definition_id": "shop", "state": "rollback"}]})
UNKNOWN: Final = (
    "no definition counts as rolled back: there is no export of rollouts (--rollout-export, or `rollout_export` in "
    "subagent-validate-refs.toml)"
)
PASSED: Final = "passed: 0 errors, 0 warnings, 0 notices\n"


@pytest.fixture
def repository(tmp_path: Path) -> ConfigRepository:
    """The good configuration on `main`, and a branch to change it on."""
    return ConfigRepository(tmp_path / "repository")


def untold(repository: ConfigRepository, shape: Format = Format.HUMAN, *skipped: Check) -> Printed:
    """Run the command without the option."""
    out, errors = io.StringIO(), io.StringIO()
    wish = ValidateRefsOptions(BaseSelection(ref="main"), None, frozenset(skipped), shape)
    return Printed(validate_refs(repository.root, wish, compare, out, errors), out.getvalue(), errors.getvalue())


@requirement("PF1-D-56")
def test_a_file_that_the_settings_name_is_taken_if_it_is_there(repository: ConfigRepository) -> None:
    """A kill on it fails a change that leaves the list as it is; before it is there, the run says so."""
    repository.put({SETTINGS: 'rollout_export = "told/rollouts.json"\n'})
    before = untold(repository)
    repository.put({"told/rollouts.json": KILLED})
    killed = untold(repository)

    missing = repository.root / "told" / "rollouts.json"
    said = f"no definition counts as rolled back: there is no file {missing} (`rollout_export` in {SETTINGS})\n"
    assert (before.code, before.out) == (0, said + PASSED)
    assert (killed.code, len(killed.lines)) == (1, 1)
    assert "check b: agents.concierge.sub_agents" in killed.lines[0]


@requirement("PF1-D-56")
def test_the_option_is_stronger_than_the_settings(repository: ConfigRepository, tmp_path: Path) -> None:
    """Whoever runs it by hand says which file."""
    repository.put({SETTINGS: 'rollout_export = "rollouts.json"\n', "rollouts.json": KILLED})

    (tmp_path / "other.json").write_text('{"definitions": [{"definition_id": "shop", "state": "promote"}]}')
    assert repository.check(export=tmp_path / "other.json").out == PASSED


@requirement("PF1-D-56")
def test_a_file_that_is_no_export_is_refused(repository: ConfigRepository) -> None:
    """It would let everybody pass."""
    repository.put({SETTINGS: 'rollout_export = "rollouts.json"\n', "rollouts.json": '{"problem": {}}'})

    refused = untold(repository)
    assert (refused.code, "is not an export of rollouts" in refused.errors) == (2, True)


@requirement("PF1-D-56")
def test_without_an_export_each_format_says_that_nobody_counts_as_rolled_back(repository: ConfigRepository) -> None:
    """In one line, as a notice, and as what was told; not where check b is off: it alone asks."""
    assert untold(repository).out == f"{UNKNOWN}\n{PASSED}"
    assert untold(repository, Format.GITHUB).out == f"::notice title=subagent-validate-refs::{UNKNOWN}\n{PASSED}"
    assert json.loads(untold(repository, Format.JSON).out)["told"] == [UNKNOWN]
    assert UNKNOWN not in untold(repository, Format.HUMAN, Check.RESOLVES).out


@requirement("PF1-D-56")
def test_what_one_replica_served_is_not_taken_for_the_record(repository: ConfigRepository) -> None:
    """`sidecar subagent list --json` marks it."""
    view = KILLED.replace("{", '{"replica_view": true, ', 1)
    repository.put({SETTINGS: 'rollout_export = "rollouts.json"\n', "rollouts.json": view})

    refused = untold(repository)
    assert (refused.code, "while the store was unavailable: export it again" in refused.errors) == (2, True)
