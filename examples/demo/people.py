"""The users of the demo, and what fills a slot on the surface of each."""

from collections.abc import Mapping
from typing import Final

from examples.consumer_agent.agent import User
from subagents_client import SidecarClient, TurnRequest

PEOPLE: Final = ("kim", "lee", "ana", "ben", "gus", "mia", "fay", "joy")
Served = Mapping[str, str]
"""User to id of the definition that fills a slot; empty: none does."""


def user(name: str) -> User:
    """Return one of them, as a service has authenticated them."""
    return User(principal=f"user-{name}", episode_id=f"episode-{name}", locale="en-US", location="Chicago, IL")


async def served_now(client: SidecarClient, slot: str) -> Served:
    """Bind a turn for each user, look what fills the slot on its surface, and end it.

    Raises:
        SubagentsError: a turn could not be bound or ended.
    """
    found: dict[str, str] = {}
    for name in PEOPLE:
        turn = await client.bind_turn(TurnRequest(principal=f"user-{name}", episode_id=f"look-{name}"))
        filled = {tool.sub_agent_id: tool.definition_id for tool in turn.surface.sub_agent_tools}
        found[name] = filled.get(slot, "")
        await turn.end()
    return found


def all_users(definition_id: str) -> Served:
    """Return what it is if all have the same."""
    return dict.fromkeys(PEOPLE, definition_id)


def sample_users(names: str, definition_id: str, *, otherwise: str = "") -> Served:
    """Return what it is if those named have one definition, and all others another one."""
    return {name: definition_id if name in names.split() else otherwise for name in PEOPLE}
