"""A sidecar that is killed after it confirmed the end of a turn, and before the conversation was kept."""

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from subagents_client import ClientTimeouts, SidecarClient, ToolCall, TurnRequest
from tests.support.requirement import requirement
from tests.support.sidecar_process import place
from tests.system.torture.agents import agents_for
from tests.system.torture.places import client_of, dice, serving, settings_of

pytestmark = pytest.mark.system


@requirement("PC1-FR-9a")
@pytest.mark.seconds(60)
async def test_a_conversation_is_there_after_a_kill_between_the_end_of_a_turn_and_its_capture() -> None:
    """Somebody holds the conversations' file, so that they cannot be written when the process dies."""
    with place() as folder:
        more = settings_of(folder, folder)
        async with agents_for(folder, dice(1)), client_of(folder, ClientTimeouts()) as client:
            async with serving(folder, more) as sidecar:
                await _a_turn(client, 1)
                with _held(folder / "record" / "conversations.sqlite") as held:
                    await _a_turn(client, 2)
                    sidecar.signal(signal.SIGKILL)
                    await sidecar.ended()
                    assert held.execute("select count(*) from history_turns").fetchone()[0] < 2
            async with serving(folder, more):
                episode = await client.read_episode("episode-1", "user-1")
    assert [turn.narration for turn in episode.turns] == ["That was 1.", "That was 2."]
    assert [turn.user_message for turn in episode.turns] == ["Question 1", "Question 2"]


async def _a_turn(client: SidecarClient, number: int) -> None:
    turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
    await turn.dispatch_and_wait([ToolCall("call-1", "ask_shop", '{"request": "socks"}')])
    await turn.end(f"That was {number}.", user_message=f"Question {number}")


@contextmanager
def _held(file: Path) -> Iterator[sqlite3.Connection]:
    """Hold a database's lock for writing."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        connection.execute("begin immediate")
        yield connection
        connection.execute("rollback")
    finally:
        connection.close()
