"""SQLite does what the reference does, whatever comes."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.adapters.record_sqlite import record_schema
from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.adapters.rollout_sqlite import SqliteRollouts
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.core.errors import SubagentsError
from sidecar.core.identifiers import InstanceId, Slot
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout.audit.retention import marker_of
from sidecar.operations.rollout.store.ports import AuditQuery, RolloutWrite
from tests.adapters.rollouts.bench import WholeStore
from tests.adapters.rollouts.building import (
    a_definition,
    a_rollout,
    a_transition,
    an_answer,
    an_event,
    moment,
)
from tests.adapters.rollouts.retention_rules import DAYS_90, HandSigner
from tests.support.second_place import SettableClock

SLOTS = ("search", "cart")
NAMES = ("a", "b")
STATES = (LifecycleState.TEST, LifecycleState.PROMOTE, LifecycleState.ROLLBACK)
small = st.integers(0, 3)


@dataclass(frozen=True)
class Step:
    """One call; `revision` is how far from the right one."""

    kind: str
    name: str
    revision: int
    number: int
    rows: int


steps = st.builds(
    Step,
    st.sampled_from(("write", "write", "write", "words", "flag", "definition", "effective", "export", "remove")),
    st.sampled_from(NAMES),
    st.sampled_from((0, 0, 0, 0, 1, -1)),
    small,
    small,
)


@settings(max_examples=20)
@given(st.lists(steps, max_size=25))
def test_sqlite_does_what_the_reference_does(taken: list[Step]) -> None:
    """Writes about any revision, with any events and answers; flags, definitions, exports and removals in between."""
    asyncio.run(_compare(taken))


async def _compare(taken: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = await SqliteEngine.open(Path(folder) / "record", record_schema(), lambda doing, error: None)
        clock = SettableClock(moment())
        stores: tuple[WholeStore, WholeStore] = (
            SqliteRollouts(engine, InstanceId("one"), clock),
            MemoryRollouts(clock),
        )
        try:
            for at, step in enumerate(taken):
                sqlite, memory = [await _result(store, step, at) for store in stores]
                assert sqlite == memory
            assert await _everything(stores[0]) == await _everything(stores[1])
        finally:
            await engine.close()


async def _result(store: WholeStore, step: Step, at: int) -> object:
    try:
        return await CALLS[step.kind](store, step, at)
    except SubagentsError as error:
        return type(error).__name__, error.message


async def _everything(store: WholeStore) -> tuple[object, ...]:
    answers = [await store.answer(f"r{number}") for number in range(4)]
    audit = tuple(await store.audit(AuditQuery()))
    audit_of_a = tuple(await store.audit(AuditQuery(definition_id=a_definition("a").definition_id, limit=3, after=1)))
    definitions = [await store.definition(a_definition(name).digest) for name in NAMES]
    state = tuple(await store.rollouts()), tuple(await store.flags()), await store.version()
    return (*state, answers, audit, audit_of_a, definitions, tuple(await store.unexported(2)))


async def _write(store: WholeStore, step: Step, at: int) -> None:
    slot = SLOTS[step.number % 2]
    stored = await store.rollout(Slot(slot))
    revision = max(0, (stored.revision if stored else 0) + step.revision)
    await store.write(
        RolloutWrite(
            slot=Slot(slot),
            expected_revision=revision,
            rollout=a_rollout(slot, revision + 1, ramp=at) if step.kind == "write" else None,
            transitions=tuple(a_transition(step.name, each, at) for each in STATES[: step.rows]),
            events=tuple(an_event(str(each), step.name, at) for each in range(step.rows)),
            answer=an_answer(f"r{step.number}", str(step.rows), at=at) if step.revision >= 0 else None,
        )
    )


async def _flag(store: WholeStore, step: Step, at: int) -> object:
    return await store.set_flag(step.name, step.number > 1, step.rows, "ada", moment(at))


async def _definition(store: WholeStore, step: Step, at: int) -> None:
    await store.keep_definition(a_definition(step.name, card=str(at)))


async def _effective(store: WholeStore, step: Step, at: int) -> object:
    ids = [a_transition(step.name, each).event_id for each in STATES[: step.rows]]
    return list(await store.became_effective([*ids, *ids], moment(at)))


async def _export(store: WholeStore, step: Step, at: int) -> None:
    await store.exported(await store.unexported(step.rows + 1))


async def _remove(store: WholeStore, step: Step, at: int) -> object:
    before = moment(at - step.number)
    old = await store.old_audit(before)
    if old is None:
        return None
    return old, await store.remove_audit(marker_of(old, before, before + DAYS_90, HandSigner()))


CALLS: dict[str, Callable[[WholeStore, Step, int], Coroutine[Any, Any, object]]] = {
    "write": _write,
    "words": _write,
    "flag": _flag,
    "definition": _definition,
    "effective": _effective,
    "export": _export,
    "remove": _remove,
}
