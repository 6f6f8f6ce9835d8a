"""Rollouts in a whole process: what is served is on record, operators change it, and restarts know it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sidecar.composition.running import running_sidecar
from sidecar.settings import SettingsProblem, read_settings
from subagents.lifecycle.v1 import reading_pb2
from tests.support.operated_process import operated_here
from tests.support.requests import failure_of
from tests.support.sidecar_process import place, settings_file

pytestmark = pytest.mark.system


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own, with definitions."""
    with place() as path:
        yield path


async def test_a_kill_holds_over_restarts(folder: Path) -> None:
    """What nothing gates is served; a flagged entry is not; killed by an operator it is gone at once, and stays so."""
    private = Ed25519PrivateKey.generate()
    async with operated_here(folder, private=private) as bench:
        before = await bench.offers("turn-1")
        killed = await bench.killed("shop", request_id="r-kill")
        after = await bench.offers("turn-2")
        repeated = await bench.killed("shop", request_id="r-kill")
    async with operated_here(folder, private=private) as bench:
        again = await bench.offers("turn-3")
        stopped = await bench.definition("shop")

    assert before == ["ask_shop", "ask_support"]
    assert after == again == ["ask_support"]
    assert killed.revision == repeated.revision
    assert stopped.state == reading_pb2.LIFECYCLE_STATE_ROLLBACK


async def test_a_promotion_without_a_gate_client_holds(folder: Path) -> None:
    """Nobody is there to say yes: the entry goes to `test`, which needs no gate, and no further."""
    async with operated_here(folder) as bench:
        await bench.tested()
        held = await failure_of(bench.step("Transition", target_state=reading_pb2.LIFECYCLE_STATE_PROMOTE))

        assert held.reason == "GATE_HELD"
        assert "ask_rewards" not in await bench.offers("turn-1")


async def test_a_key_that_cannot_be_read_stops_the_start(folder: Path) -> None:
    """It says which setting, and which file."""
    more = f"""
[rollout]
tombstone_file = "{folder}/kills.jsonl"
[operators]
deployment = "x"
keys = ["{folder}/none.pub"]
"""
    with pytest.raises(SettingsProblem, match=r"operators\.keys: .*none\.pub"):
        async with running_sidecar(read_settings(settings_file(folder, more), {})):
            pass
