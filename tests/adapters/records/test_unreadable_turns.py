"""A turn with a fact of an unknown format is refused and reported, and no other turn waits for it."""

import os
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.appends import TurnAppend
from sidecar.core.journal.encoding import VERSION
from sidecar.core.journal.turn_state import state_of
from tests.adapters.records.bench import OpenedRecord, RecordBench
from tests.adapters.records.postgresql_bench import PostgresBench
from tests.adapters.records.test_sqlite import SqliteBench
from tests.support.harness import running_sidecar_for_tests
from tests.support.record_builders import a_dispatch, the_claims


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> RecordBench:
    """Return an empty record in either database."""
    if request.param == "sqlite":
        return SqliteBench(tmp_path / "record.sqlite")
    return PostgresBench(request.getfixturevalue("dsn"))


async def append_unreadable(record: OpenedRecord, turn_id: str) -> None:
    """Append a fact to a turn as a sidecar with a newer format would."""
    turn = TurnId(turn_id)
    facts = (await record.journal.facts(turn)).facts
    state = state_of(turn, facts)
    newer = msgspec.structs.replace(
        facts[-1],
        body=msgspec.msgpack.encode((VERSION + 1, ["of a newer sidecar"])),
        salt=os.urandom(16),
        link=os.urandom(32),
    )
    head = msgspec.structs.replace(state.head, version=state.head.version + 1)
    assert state.day is not None
    append = TurnAppend(turn, state.day, len(facts), head, None, (newer,))
    assert await record.journal.append([append]) == [True]


async def test_a_readable_orphan_behind_an_unreadable_turn_is_settled_and_closed(bench: RecordBench) -> None:
    """Both have lost their sidecar and their parent. The unreadable turn stays refused; it is reported once."""
    async with bench:
        first = await bench.open("one")
        for number, turn in enumerate(("unreadable", "readable")):
            await first.append([a_dispatch(turn, at=number, claims=the_claims(turn, -800))])
        await append_unreadable(first, "unreadable")
        await bench.kill(first.journal)
        second = await bench.open("two")
        assert [turn_id for turn_id, _ in await second.left_behind(10)] == ["unreadable", "readable"]
        async with running_sidecar_for_tests(
            store=second, background=False, rules={"resume_grace": timedelta(0)}
        ) as sidecar:
            for _ in range(2):
                await sidecar.operations.orphans.look()

            settled = await second.turn(TurnId("readable"))
            assert settled is not None
            assert (settled.dispatches[0].settled, settled.ended is None) == (True, False)
            with pytest.raises(StoreUnavailable):
                await second.turn(TurnId("unreadable"))
            reported = [each for each in sidecar.recorder.of("anomaly") if each[0] == "turn_not_recovered"]
            assert [about for _, _, about in reported] == [{"turn_id": "unreadable"}]


async def test_a_conversation_behind_an_unreadable_turn_is_caught_up(bench: RecordBench) -> None:
    """A newer sidecar recorded something after the end of a turn that is in the lists already."""
    async with bench:
        record = await bench.open("one")
        async with running_sidecar_for_tests(store=record, background=False) as sidecar:
            for turn in ("unreadable", "readable"):
                bound = await sidecar.bind(turn_id=turn)
                await sidecar.dispatch(bound, "ask_shop")
                await sidecar.end(bound)
        await record.projector.catch_up()
        await append_unreadable(record, "unreadable")
        async with running_sidecar_for_tests(store=record, background=False) as sidecar:  # whose memory is empty
            assert await sidecar.operations.history.catch_up.look() == 1
            assert [each[0] for each in sidecar.recorder.of("anomaly")] == ["history_deferred"]
