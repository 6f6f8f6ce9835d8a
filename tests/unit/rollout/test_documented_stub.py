"""The stub of a new sub-agent in `docs/lifecycle.md` is one: it loads, and it begins at `dev`."""

import re
from pathlib import Path

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.definition_changes import seen
from sidecar.core.rollout.facts import FlagPair
from sidecar.core.rollout.states import LifecycleState
from tests.support.requirement import requirement
from tests.support.sidecar_process import place
from tests.unit.rollout.building import by

PAGE = (Path(__file__).parents[3] / "docs" / "lifecycle.md").read_text(encoding="utf-8")


@requirement("PF1-D-73")
def test_the_documented_stub_loads_and_begins_at_dev_behind_its_flag() -> None:
    """Put into the example configuration as the page says; the page names each state that there is."""
    section = PAGE.partition("## Stub of a new sub-agent")[2]
    found = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert found is not None
    with place() as folder:
        config = folder / "config" / "agent_config.yaml"
        before = config.read_text(encoding="utf-8")
        named = before.replace("sub_agents: [shop, ", "sub_agents: [travel, shop, ", 1)
        config.write_text(named.replace("  - id: rewards\n", f"{found[1]}\n  - id: rewards\n", 1), encoding="utf-8")
        loaded = load_directory(folder / "config")
    assert loaded.catalogue is not None, loaded.errors
    card = loaded.catalogue.cards[DefinitionId("travel")]
    (facts,) = seen(None, Slot("travel"), card, by(), at_once=True).rollout.definitions.values()

    assert (facts.state, facts.ramp, facts.flags) == (LifecycleState.DEV, 0, FlagPair.NAMED)
    assert all(f"`{state}`" in section for state in LifecycleState)
    assert '"state": "dev"' in section
