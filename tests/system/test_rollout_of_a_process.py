"""Rollouts in a whole process: what is served is on record, operators change it, and restarts know it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sidecar.composition.running import running_sidecar
from sidecar.settings import SettingsProblem, read_settings
from subagents.lifecycle.v1 import lifecycle_pb2, reading_pb2
from tests.support.operated_process import head, operated_here
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
        killed = await bench.operate("Kill", lifecycle_pb2.KillRequest(header=head("shop", "r-1")))
        after = await bench.offers("turn-2")
        repeated = await bench.operate("Kill", lifecycle_pb2.KillRequest(header=head("shop", "r-1")))
    async with operated_here(folder, private=private) as bench:
        again = await bench.offers("turn-3")
        status = (await bench.operate("Get", reading_pb2.GetRequest(slot="shop"))).status

    assert before == ["ask_shop", "ask_support"]
    assert after == again == ["ask_support"]
    assert killed.result.revision == repeated.result.revision
    assert [each.state for each in status.definitions] == [reading_pb2.LIFECYCLE_STATE_ROLLBACK]


async def test_a_promotion_without_a_gate_client_holds(folder: Path) -> None:
    """Nobody is there to say yes: the entry goes to `test`, which needs no gate, and no further."""
    async with operated_here(folder) as bench:
        to_test = lifecycle_pb2.TransitionRequest(
            header=head("rewards", "r-1", expected_revision=1), target_state=reading_pb2.LIFECYCLE_STATE_TEST
        )
        tested = await bench.operate("Transition", to_test)
        promote = lifecycle_pb2.TransitionRequest(
            header=head("rewards", "r-2", expected_revision=tested.result.revision),
            target_state=reading_pb2.LIFECYCLE_STATE_PROMOTE,
        )
        held = await failure_of(bench.operate("Transition", promote))

        assert held.reason == "GATE_HELD"
        assert "ask_rewards" not in await bench.offers("turn-1")


async def test_a_key_that_cannot_be_read_stops_the_start(folder: Path) -> None:
    """It says which setting, and which file."""
    more = f"""
[rollout]
kills_file = "{folder}/kills.jsonl"
[operators]
deployment = "x"
keys = ["{folder}/none.pub"]
"""
    with pytest.raises(SettingsProblem, match=r"operators\.keys: .*none\.pub"):
        async with running_sidecar(read_settings(settings_file(folder, more), {})):
            pass
