"""The users of the demo, and what fills a slot on the surface of each."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from examples.consumer_agent.agent import User
from subagents_client import SidecarClient, TurnRequest

PEOPLE: Final = ("kim", "lee", "ana", "ben", "gus", "mia", "fay", "joy")
Served = Mapping[str, str]
"""Maps each user to the id of the definition that fills a slot; empty: none."""


def user(name: str) -> User:
    """Return a user as an authenticating service would."""
    return User(principal=f"user-{name}", episode_id=f"episode-{name}", locale="en-US", location="Chicago, IL")


async def served_now(client: SidecarClient, slot: str) -> Served:
    """Bind a turn for each user, read the slot from its surface, and end the turn.

    Raises:
        SubagentsError: a turn could not be bound or ended.
    """
    served: dict[str, str] = {}
    for name in PEOPLE:
        turn = await client.bind_turn(TurnRequest(principal=f"user-{name}", episode_id=f"look-{name}"))
        filled = {tool.sub_agent_id: tool.definition_id for tool in turn.surface.sub_agent_tools}
        served[name] = filled.get(slot, "")
        await turn.end()
    return served


def all_users(definition_id: str) -> Served:
    """Return the mapping in which all users have the same definition."""
    return dict.fromkeys(PEOPLE, definition_id)


def names_inside(salt: str, basis_points: int) -> str:
    """Return the users inside a ramp, by the algorithm of `docs/bucketing.md`, separated by blanks."""
    first = {name: sha256(f"b1\x1f{salt}\x1fuser-{name}".encode()).digest()[:8] for name in PEOPLE}
    return " ".join(name for name in PEOPLE if int.from_bytes(first[name], "big") * 10_000 >> 64 < basis_points)


def sample_users(names: str, definition_id: str, *, otherwise: str = "") -> Served:
    """Return the mapping in which the named users have one definition and all others another."""
    return {name: definition_id if name in names.split() else otherwise for name in PEOPLE}
