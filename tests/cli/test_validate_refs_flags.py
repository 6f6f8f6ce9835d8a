"""What `sidecar validate-refs` says of flags: one that gates stays in its entry, and a new entry names one."""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.support.config_repository import ConfigRepository
from tests.support.requirement import requirement

FLAG: Final = "ai_assistant_subagent_shop"
NAMED: Final = f"    enabled_via_flag: {FLAG}\n"
ENTRY: Final = "  - id: shop\n"
NEW: Final = """\
  - id: garden
    description: Knows plants.
    role: native
    model: nano
    prompt_blocks: [persona-shop]
"""


@pytest.fixture
def repository(tmp_path: Path) -> ConfigRepository:
    """The good configuration, whose `shop` names its flag on `main`, and a branch to change it on."""
    made = ConfigRepository(tmp_path / "repository")
    made.git("checkout", "-q", "main")
    made.edit((ENTRY, ENTRY + NAMED))
    made.commit()
    made.git("checkout", "-q", "-B", "change")
    return made


def exported(folder: Path, *rows: tuple[str, str]) -> Path:
    """Return an export in which `shop` has a definition with each state and pair of flags."""
    file = folder / "export.json"
    said = [{"definition_id": "shop", "state": state, "flag_pair": pair} for state, pair in rows]
    file.write_text(json.dumps({"definitions": said}))
    return file


@requirement("PF1-D-35", "PF1-FR-12e", "PF1-D-60")
def test_an_entry_that_no_longer_names_its_flag_fails_with_line_and_remedy(repository: ConfigRepository) -> None:
    """An override of the minor change does not let it through: a pause and a kill switch are at stake."""
    repository.edit((ENTRY + NAMED, "  - id: shop  # minor-change: tidy up\n"))

    printed = repository.check()

    (said,) = printed.lines
    assert printed.code == 1
    assert said.startswith(f'agent_config.yaml:26: check d: agents.shop.enabled_via_flag: no longer names "{FLAG}"')
    assert "put it back" in said
    assert "`sidecar subagent retire-flags shop --reason …`" in said
    assert "`sidecar subagent list --json > FILE`, then --rollout-export FILE" in said


@requirement("PF1-D-35")
@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([("promote", "retired")], 0),
        ([("promote", "retired"), ("rollback", "on")], 0),
        ([("rollback", "on")], 0),
        ([("promote", "on")], 1),
        ([("promote", "retired"), ("dev", "named")], 1),
        ([], 1),
    ],
    ids=["retired", "retired beside a dead one", "dead", "on", "retired beside a new one", "not on record"],
)
def test_it_passes_once_an_export_shows_that_the_flags_are_retired(
    repository: ConfigRepository, tmp_path: Path, rows: list[tuple[str, str]], code: int
) -> None:
    """In each definition of the id that is not in `rollback`; then it is a minor change like any other."""
    repository.edit((ENTRY + NAMED, "  - id: shop  # minor-change: its flags are retired\n"))
    assert repository.check(export=exported(tmp_path, *rows), skip="b").code == code

    repository.edit(("  # minor-change: its flags are retired", ""))
    assert repository.check(export=exported(tmp_path, *rows), skip="b").code == 1


def test_a_flag_that_an_old_entry_names_first_is_warned_of(repository: ConfigRepository) -> None:
    """What serves already serves nobody from then on, and reverting the change does not undo it."""
    repository.git("checkout", "-q", "-B", "change", "main~1")
    repository.edit((ENTRY, f"  - id: shop  # minor-change: gate it\n{NAMED}"))

    printed = repository.check("main~1")

    assert printed.code == 0
    assert (
        "agent_config.yaml:27: check d: warning: agents.shop.enabled_via_flag: what serves already serves"
        in printed.out
    )


@requirement("PF1-FR-3a")
@pytest.mark.parametrize("slot", ["garden", "shop"])
def test_a_new_entry_without_a_flag_is_warned_of_at_its_line(repository: ConfigRepository, slot: str) -> None:
    """It loads, and starts at `dev`; beside another definition of its slot no setting serves it either."""
    own = NEW if slot == "garden" else NEW.replace("garden\n", "garden\n    slot: shop\n", 1)
    text = (repository.root / "agent_config.yaml").read_text()
    repository.put({"agent_config.yaml": text + own})
    warned = repository.check()
    repository.put({"agent_config.yaml": text + own + "    enabled_via_flag: ai_assistant_subagent_garden\n"})
    named = repository.check()

    (said,) = warned.lines
    assert (warned.code, named.lines) == (0, [])
    assert said.startswith(
        "agent_config.yaml:33: check d: warning: agents.garden.enabled_via_flag: is new and names no"
    )
    assert "Add `enabled_via_flag: ai_assistant_subagent_garden`" in said
    assert ("rollout.auto_promote_unflagged" in said) is (slot == "garden")
