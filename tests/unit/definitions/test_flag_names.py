"""Names of feature flags: `ai_assistant_*`, and each sub-agent's own (PF1 §3.1, §5.5)."""

import re
from pathlib import Path

import pytest

from sidecar.adapters.definitions_directory.loading import load_directory
from tests.support.requirement import requirement
from tests.support.sidecar_process import place

ENTRY = "  - id: rewards\n"
BLOCK = "prompts/components/rewards/persona-rewards.yaml"


def errors_of(folder: Path) -> list[str]:
    """Return what is wrong with the configuration of a folder."""
    return [problem.render() for problem in load_directory(folder / "config").errors]


@requirement("PF1-D-36")
@pytest.mark.parametrize(
    ("flag", "problems"),
    [
        ("ai_assistant_subagent_rewards", 0),
        ("rewards_on", 1),
        ("ai_assistant_rewards", 1),
        ("ai_assistant_subagent_shop", 1),
    ],
)
def test_a_sub_agents_flag_is_named_after_it(flag: str, problems: int) -> None:
    """Another prefix, none, or the flag of somebody else is refused, with the name that it has to have."""
    with place() as folder:
        config = folder / "config" / "agent_config.yaml"
        config.write_text(config.read_text().replace(ENTRY, f"{ENTRY}    enabled_via_flag: {flag}\n"))
        found = errors_of(folder)
    assert len(found) == problems
    assert all("ai_assistant_subagent_rewards" in each for each in found)


@requirement("PF1-D-36")
@pytest.mark.parametrize(
    ("flag", "problems"),
    [("ai_assistant_new_tone", 0), ("new_tone", 1), ("consumer_agent_xml_prompt", 0)],
)
def test_every_new_flag_has_the_prefix_and_older_ones_keep_their_names(flag: str, problems: int) -> None:
    """The gate of a prompt block, too."""
    with place() as folder:
        block = folder / "config" / BLOCK
        before = block.read_text()
        block.write_text(re.sub("(?m)^feature_gated: .*$", f"feature_gated: {flag}", before))
        assert block.read_text() != before
        found = errors_of(folder)
    assert len(found) == problems
    assert all('must begin with "ai_assistant_"' in each for each in found)
