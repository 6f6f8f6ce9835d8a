"""A configuration repository in git with a sub-agent that is to go, and what its neighbours share with it."""

import subprocess
from pathlib import Path
from typing import Final

from tests.corpus.bad_configs.good import AGENT_CONFIG, BLOCKS, block
from tests.support.config_repository import ConfigRepository
from tests.support.named_skips import needs_tool

MODULES: Final = "src/consumer_agent/agents"

CONFIG: Final = (
    "# What the assistants are.\n"
    + AGENT_CONFIG.replace(
        "  - id: render_offer_card\n    description: Shows an offer.\n",
        "  # shared by shop and rewards\n"
        "  - id: render_offer_card\n    description: Shows an offer.\n"
        "  - id: feedback # everybody's\n    description: Notes feedback.\n",
    )
    .replace("sub_agents: [shop]", "sub_agents: [shop, rewards] # in this order")
    .replace("prompt_blocks: [persona-shop]", "prompt_blocks:\n      - persona-shop # its own\n      - tone")
    + """\

  # Points and tiers.
  - id: rewards
    description: Knows points.
    role: native
    model: nano
    tools: [render_offer_card]
    prompt_blocks: [tone]   # spaces and all

# The end.
"""
)
MANIFEST: Final = """\
version: 1 # of the format
gates:
  pre_merge: {thresholds: {task_success: {at_least: 0.9}}}
sub_agents:
  shop:
    pre_full: {thresholds: {task_success: {at_least: 0.95}}}
  rewards:
    pre_full: {thresholds: {task_success: {at_least: 0.97}}}
categories:
  # judged by hand
  - name: offers
    sub_agent: shop
  - name: both
    sub_agents: [shop, rewards]
datasets:
  shop_smoke: {sub_agent: shop, items: 40}
  rewards_smoke: {sub_agent: rewards, items: 20}
results: []
"""
FILES: Final = {
    "agent_config.yaml": CONFIG,
    "evaluation_manifest.yaml": MANIFEST,
    f"{BLOCKS}/rewards/tone.yaml": block("tone", "rewards"),
    f"{MODULES}/shop.py": '"""The shopping assistant."""\n\nLIMIT = 3\n',
    f"{MODULES}/rewards.py": '"""Points."""\n',
    f"{MODULES}/__init__.py": "",
}


def a_repository(folder: Path, under: str = "") -> ConfigRepository:
    """Return the repository; the modules lie beside the configuration."""
    made = ConfigRepository(folder, under)
    made.git("checkout", "-q", "main")
    made.put(FILES)
    made.commit("two assistants")
    made.git("checkout", "-q", "-B", "change")
    return made


def applied(repository: ConfigRepository, diff: str, message: str = "cleanup") -> str:
    """Apply a patch at the top as a reviewer would, and commit; return what changed, a line for each file."""
    done = subprocess.run(
        [needs_tool("git"), "apply", "--index", "--verbose", "-"],
        cwd=repository.folder,
        input=diff,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    changed = repository.git("diff", "--cached", "--name-status")
    repository.commit(message)
    return changed
