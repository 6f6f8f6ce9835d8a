"""The table of alterations: what somebody who may write the database does to a record, and what is said of it.

Every fact of the record that the alterations are made in is covered by a signed checkpoint. Each alteration is named,
with its place.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import EpisodeId, ToolId
from sidecar.core.journal.chain import NOTHING, digest_of_texts, link_of, rooted
from sidecar.core.journal.encoding import VERSION, draft_of
from sidecar.core.journal.facts import Body, CallsSettled, DispatchOpened, TurnEnded
from sidecar.core.journal.heads import links_of
from sidecar.core.journal.marks import What
from sidecar.core.journal.texts import Texts
from sidecar.core.journal.turn_state import state_of
from sidecar.operations.record.checkpoints import Checkpointing
from tests.adapters.records.bench import OpenedRecord
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_settling,
    a_taking,
    a_whole_turn,
    an_end,
    moment,
)
from tests.support.tampering import Tampering

Alteration = tuple[Callable[[Tampering], Awaitable[None]], frozenset[str], str]
replace = msgspec.structs.replace

WHOLE, TAKEN = "turn-2", "turn-4"
"""A turn of one sidecar, and one that a second sidecar has taken over. Facts of the first: opened, settled, ended."""


async def first_part(record: OpenedRecord, signing: Checkpointing) -> None:
    """Append what the first sidecar did: three turns, and one more that it left behind; a checkpoint after each."""
    for number in (1, 2, 3):
        await record.append(a_whole_turn(f"turn-{number}", ("shop", "rewards"), at=10 * number))
        await signing.look()
    opened = a_dispatch(TAKEN, at=40)
    child = a_child(opened)
    await record.append([opened, child, *a_life(child, 41)[:3]])
    await signing.look()


async def second_part(record: OpenedRecord, signing: Checkpointing) -> None:
    """Append what the second one did: it took the turn over, and ended it."""
    opened = a_dispatch(TAKEN, at=40)
    child = a_child(opened)
    life = a_life(child, 41)
    work: list[Record] = [a_taking(opened, at=41.25), life[3], a_settling(opened, at=42)]
    await record.append(work)
    await record.append([*life[4:], *an_end([opened, child, *life[:3], *work, *life[4:]], TAKEN, at=43)])
    await signing.look()


# --- what is done


def says(turn: str, version: int, **fields: Any) -> Callable[[Tampering], Awaitable[None]]:
    """Return an alteration of the body of a fact."""
    return lambda record: record.say(turn, version, lambda body, texts: (replace(body, **fields), texts))


def tells(turn: str, version: int, part: str, **fields: Any) -> Callable[[Tampering], Awaitable[None]]:
    """Return an alteration of one part of the texts of a fact."""

    def change(body: Body, texts: Texts) -> tuple[Body, Texts]:
        old = getattr(texts, part)
        new = (replace(old[0], **fields), *old[1:]) if isinstance(old, tuple) else replace(old, **fields)
        return body, replace(texts, **{part: new})

    return lambda record: record.say(turn, version, change)


def first_of(turn: str, version: int, part: str, **fields: Any) -> Callable[[Tampering], Awaitable[None]]:
    """Return an alteration of the first of several parts of the body of a fact."""

    def change(body: Body, texts: Texts) -> tuple[Body, Texts]:
        first, *others = getattr(body, part)
        return replace(body, **{part: (replace(first, **fields), *others)}), texts

    return lambda record: record.say(turn, version, change)


async def other_contract(record: Tampering) -> None:
    """The first child is given a tool that it did not have."""

    def change(body: Body, texts: Texts) -> tuple[Body, Texts]:
        assert isinstance(body, DispatchOpened)
        first, *others = body.children
        first = replace(first, contract=replace(first.contract, allowed_tools=(ToolId("all"),)))
        return replace(body, children=(first, *others)), texts

    await record.say(WHOLE, 1, change)


async def other_event(record: Tampering) -> None:
    """The first child failed instead of waiting for its parent."""

    def change(body: Body, texts: Texts) -> tuple[Body, Texts]:
        assert isinstance(body, CallsSettled)
        first, *others = body.progress
        marks = (first.marks[0], replace(first.marks[1], what=What.FAILED))
        return replace(body, progress=(replace(first, marks=marks), *others)), texts

    await record.say(WHOLE, 2, change)


async def no_event(record: Tampering) -> None:
    """The attempt of the first child was never made."""

    def change(body: Body, texts: Texts) -> tuple[Body, Texts]:
        assert isinstance(body, CallsSettled)
        first, *others = body.progress
        first = replace(first, marks=first.marks[1:])
        return replace(body, progress=(first, *others)), replace(texts, values=texts.values[1:])

    await record.say(WHOLE, 2, change)


async def other_routing(record: Tampering) -> None:
    """The gate did not pass."""

    def change(body: Body, texts: Texts) -> tuple[Body, Texts]:
        assert isinstance(body, TurnEnded)
        return replace(body, routing=replace(body.routing, gate_passed=False)), texts

    await record.say(WHOLE, 3, change)


async def new_version(record: Tampering) -> None:
    """A form that no sidecar of today knows."""
    stored = await record.fact(WHOLE, 2)
    body = msgspec.msgpack.encode((99, draft_of(stored).body))
    await record.set_fact(WHOLE, 2, body=body)


async def renumbered(record: Tampering) -> None:
    """One fact less, and no gap."""
    await record.remove_facts(WHOLE, [2])
    await record.renumber(WHOLE, 3, 2)


async def end_written_anew(record: Tampering, *, with_root: bool = False) -> None:
    """Another end, whose link fits."""
    facts = [await record.fact(WHOLE, version) for version in (1, 2, 3)]
    body = draft_of(facts[2]).body
    assert isinstance(body, TurnEnded)
    body = replace(body, close_reason="lost")
    stored = replace(facts[2], body=msgspec.msgpack.encode((VERSION, body)))
    link = link_of(stored, links_of(state_of(stored.turn_id, facts[:2]).head, body))
    await record.set_fact(WHOLE, 3, body=stored.body, link=link)
    if with_root:
        await root_written_anew(record)


async def root_written_anew(record: Tampering) -> None:
    """The root that the facts of the first sidecar give now."""
    root, number = NOTHING, 0
    for turn, versions in (("turn-1", 3), ("turn-2", 3), ("turn-3", 3), (TAKEN, 2)):
        for version in range(1, versions + 1):
            root, number = rooted(root, (await record.fact(turn, version)).link), number + 1
    await record.set_root("first", number=number, root=root)


async def turn_removed_with_its_root(record: Tampering) -> None:
    """The last turn of the first sidecar, as if it had not been."""
    await record.remove_turn(TAKEN)
    await record.remove_root("second")
    root = NOTHING
    for turn in ("turn-1", "turn-2", "turn-3"):
        for version in (1, 2, 3):
            root = rooted(root, (await record.fact(turn, version)).link)
    await record.set_root("first", number=9, root=root)


async def texts_removed(record: Tampering) -> None:
    """As an erasure would do it, without a marker."""
    stored = await record.fact(WHOLE, 2)
    await record.set_fact(WHOLE, 2, texts=None, salt=None, texts_digest=digest_of_texts(stored))


def does(name: str, *values: Any, **named: Any) -> Callable[[Tampering], Awaitable[None]]:
    """Return an alteration that is one of `Tampering`."""
    return lambda record: getattr(record, name)(*values, **named)


def _named(kinds: str) -> frozenset[str]:
    return frozenset(kinds.split())


ALTERED: Final = "fact {} of turn {} ({}) was altered, or what it follows was"
OPENED = ALTERED.format(1, WHOLE, "dispatch_opened")
SETTLED = ALTERED.format(2, WHOLE, "calls_settled")
ENDED = ALTERED.format(3, WHOLE, "turn_ended")
FIRST: Final = "facts of instance first in turns of 2026-03-01"

ALTERATIONS: Final[Mapping[str, Alteration]] = MappingProxyType(
    {
        "an outcome": (first_of(WHOLE, 2, "calls", outcome=Outcome.FAILED), _named("fact_altered"), SETTLED),
        "an answer": (tells(WHOLE, 2, "outcomes", narration="found nothing"), _named("fact_altered"), SETTLED),
        "an end": (says(WHOLE, 3, close_reason="lost"), _named("fact_altered"), ENDED),
        "what the parent said": (tells(WHOLE, 3, "end", narration="No."), _named("fact_altered"), ENDED),
        "a routing decision": (other_routing, _named("fact_altered"), ENDED),
        "a request": (tells(WHOLE, 1, "request", task_prompt="Buy boots."), _named("fact_altered"), OPENED),
        "a principal": (tells(WHOLE, 1, "user", principal="user-2"), _named("fact_altered"), OPENED),
        "a contract": (other_contract, _named("fact_altered"), OPENED),
        "the words of a contract": (tells(WHOLE, 1, "contracts", goal_summary="x"), _named("fact_altered"), OPENED),
        "an event": (other_event, _named("fact_altered"), SETTLED),
        "an event left out": (no_event, _named("fact_altered"), SETTLED),
        "a time": (does("set_fact", WHOLE, 2, at=moment(99)), _named("fact_altered"), SETTLED),
        "an owner": (
            does("set_fact", TAKEN, 3, by="first"),
            _named("fact_altered root_cut root_altered"),
            ALTERED.format(3, TAKEN, "dispatch_taken"),
        ),
        "a salt": (does("set_fact", WHOLE, 2, salt=bytes(16)), _named("fact_altered"), SETTLED),
        "a link": (does("set_fact", WHOLE, 2, link=bytes(32)), _named("fact_altered root_contradicted"), SETTLED),
        "texts taken out": (
            texts_removed,
            _named("texts_removed"),
            "the texts of fact 2 of turn turn-2 were removed, and no marker of an erasure covers them",
        ),
        "a form of the future": (new_version, _named("fact_unreadable"), "fact 2 of turn turn-2 cannot be read"),
        "a fact taken out": (
            does("remove_facts", WHOLE, [2]),
            _named("fact_missing root_contradicted root_cut"),
            "fact 2 of turn turn-2 missing; the next one there is 3",
        ),
        "a fact taken out, without a gap": (
            renumbered,
            _named("fact_altered root_contradicted root_cut"),
            ALTERED.format(2, WHOLE, "turn_ended"),
        ),
        "the end of a turn taken out": (
            does("remove_facts", WHOLE, [3]),
            _named("index_altered root_contradicted root_cut"),
            "turn turn-2 is listed with another episode, expiry or end",
        ),
        "all facts of a turn": (
            does("remove_facts", WHOLE, [1, 2, 3]),
            _named("fact_missing root_contradicted root_cut"),
            "turn turn-2 is listed under 2026-03-01, and none of its facts is there",
        ),
        "a whole turn": (
            does("remove_turn", WHOLE),
            _named("root_contradicted root_cut"),
            f"{FIRST} are missing: 8 are there, a signed checkpoint has 11",
        ),
        "the last turn, and what covers it": (
            turn_removed_with_its_root,
            _named("root_cut"),
            f"{FIRST} are missing: 9 are there, a signed checkpoint has 11",
        ),
        "two facts exchanged in their turn": (
            does("swap_versions", TAKEN, 3, 4),
            _named("facts_reordered rule_broken"),
            f"facts of turn {TAKEN} stand in another order than instance second appended them in",
        ),
        "the first two facts exchanged in their turn": (
            does("swap_versions", TAKEN, 1, 2),
            _named("facts_reordered"),
            f"fact 1 of turn {TAKEN} (child_noted) belongs behind fact 2: facts were moved",
        ),
        "two facts exchanged in the journal": (
            does("swap_numbers", ("turn-1", 2), (WHOLE, 2)),
            _named("root_contradicted facts_reordered"),
            "the first 3 facts of instance first in turns of 2026-03-01 are not those that a signed checkpoint covers: "
            "something among them was altered, moved, removed or put in",
        ),
        "an end written anew": (
            end_written_anew,
            _named("root_contradicted"),
            "the first 6 facts of instance first in turns of 2026-03-01 are not those that a signed checkpoint covers: "
            "something among them, after the first 3, was altered, moved, removed or put in",
        ),
        "an end and the root written anew": (
            lambda record: end_written_anew(record, with_root=True),
            _named("root_contradicted"),
            "something among them, after the first 3, was altered, moved, removed or put in",
        ),
        "where a root stands": (
            does("set_root", "first", root=bytes(32)),
            _named("root_altered"),
            f"the 11 {FIRST} do not give the root that the record says it stands at",
        ),
        "how many facts a root covers": (
            does("set_root", "first", number=12),
            _named("root_cut"),
            f"{FIRST} are missing: 11 are there, the record says that there are 12",
        ),
        "a root set back": (
            does("set_root", "first", number=9),
            _named("root_altered"),
            f"11 {FIRST} are there, and the running root covers 9",
        ),
        "a root taken out": (
            does("remove_root", "second"),
            _named("root_altered"),
            "3 facts of instance second in turns of 2026-03-01 are there, and the running root covers 0",
        ),
        "the episode of a turn": (
            does("set_turn", WHOLE, episode_id=EpisodeId("another")),
            _named("index_altered"),
            "turn turn-2 is listed with another episode, expiry or end: its facts say otherwise",
        ),
        "a turn listed as open": (does("set_turn", WHOLE, ended_at=None), _named("index_altered"), "turn turn-2 is"),
        "the expiry of a turn": (does("set_turn", WHOLE, expires_at=moment(0)), _named("index_altered"), "turn turn-2"),
        "a turn that called nothing": (does("set_turn", WHOLE, called=0), _named("index_altered"), "turn turn-2 is"),
    }
)
