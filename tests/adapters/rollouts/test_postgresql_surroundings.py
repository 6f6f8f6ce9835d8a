"""Rollouts in PostgreSQL: racing processes, SQL by hand, a writer that is held up, answers that get lost."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from sidecar.adapters.postgresql import ConnectionTimeouts
from sidecar.adapters.rollout_postgresql import PostgresRollouts
from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.core.identifiers import InstanceId, Slot
from sidecar.operations.rollout.store.ports import AuditQuery
from tests.adapters.records.postgresql_bench import connection_to
from tests.adapters.rollouts.building import (
    a_definition,
    a_rollout,
    a_transition,
    a_write,
    an_answer,
    an_event,
    moment,
    words,
)
from tests.adapters.rollouts.test_postgresql import PostgresBench, database, dsn
from tests.support.postgres import PostgresServer
from tests.support.requirement import requirement
from tests.system.postgres_faults.unreliable_network import Fault, Network, network_before

__all__ = ["database", "dsn"]  # fixtures

BY_HAND = (
    "update rollout_audit set body = '{}'",
    "delete from rollout_audit",
    "truncate rollout_audit",
    "update rollout_transitions set number = 9",
    "update rollout_transitions set effective_at = now()",
    "delete from rollout_transitions",
    "truncate rollout_transitions",
    "update rollout_answers set body = '{}'",
    "delete from rollout_answers",
    "delete from kept_definitions",
    "select rollout_purge(9, now(), '{}')",
)


@requirement("PF1-T-21")
async def test_of_transitions_that_many_processes_attempt_at_once_one_wins(dsn: str) -> None:
    """Four processes, twenty attempts at one transition: one is kept with its event; each loser reads the new state."""
    async with PostgresBench(dsn) as bench:
        stores = [await bench.open(f"process-{at}") for at in range(4)]
        await stores[0].write(a_write(1))

        async def attempt(at: int) -> bool:
            store, actor = stores[at % 4], f"operator-{at}"
            write = a_write(2, ramp=at, transitions=(a_transition(actor=actor),), answer=an_answer(actor))
            try:
                await store.write(write)
            except RevisionConflict:
                seen = await store.rollout(Slot("search"))
                assert seen is not None
                assert seen.revision == 2
                return False
            return True

        won = await asyncio.gather(*(attempt(at) for at in range(20)))
        assert won.count(True) == 1
        winner = won.index(True)
        (row,) = await stores[0].audit(AuditQuery())
        assert row.body == a_transition(actor=f"operator-{winner}")
        assert await stores[3].rollout(Slot("search")) == a_rollout(revision=2, ramp=winner)


@pytest.mark.parametrize("statement", BY_HAND)
async def test_nobody_changes_what_is_evidence(dsn: str, statement: str) -> None:
    """Not even the owner; retention's own function removes nothing that was not handed on."""
    async with PostgresBench(dsn) as bench:
        store = await bench.open("one")
        await store.write(a_write(1, transitions=(a_transition(),), answer=an_answer()))
        await store.became_effective([a_transition().event_id], moment(5))
        await store.keep_definition(a_definition())
        async with connection_to(dsn) as connection:
            with pytest.raises(asyncpg.PostgresError) as refused:
                await connection.execute(statement)
        assert refused.value.sqlstate == "SR403"
        assert len(await store.audit(AuditQuery())) == 1


async def test_a_writer_that_is_held_up_gives_up_in_time_and_holds_up_no_read(dsn: str) -> None:
    """Somebody else holds the lock: reads answer, the write is refused and nothing of it is kept; then it goes on."""
    async with PostgresBench(dsn, ConnectionTimeouts(lock=0.2)) as bench, connection_to(dsn) as outside:
        store = await bench.open("one")
        await store.write(a_write(1))
        async with outside.transaction():
            await outside.execute("select from rollout_version for update")
            writing = asyncio.ensure_future(store.write(a_write(2, events=(an_event(),))))
            await _somebody_waits(outside)
            assert await store.rollout(Slot("search")) == a_rollout(revision=1)
            assert (await store.version(), list(await store.audit(AuditQuery()))) == (1, [])
            with pytest.raises(StoreUnavailable, match="another transaction holds a lock"):
                await writing
        await store.write(a_write(2, events=(an_event(),)))
        assert len(await store.audit(AuditQuery())) == 1


async def test_a_commit_whose_answer_is_lost_is_found_and_not_doubled(dsn: str, postgres: PostgresServer) -> None:
    """With an answer, without, words only, a flag, an effect: each commit is carried out, and its answer gets lost."""
    with tempfile.TemporaryDirectory(prefix="pgn-", dir="/tmp") as folder:
        async with network_before(postgres, Path(folder), urlsplit(dsn).path[1:]) as (network, through):
            network.strikes = b"COMMIT"
            store = PostgresRollouts(through, InstanceId("one"), ConnectionTimeouts())
            try:
                _lost(network)
                await store.write(a_write(1, transitions=(a_transition(),), answer=an_answer()))
                assert network.fault is None
                _lost(network)
                await store.write(a_write(2, events=(an_event(),)))
                _lost(network)
                await store.write(words(2, events=(an_event("held"),)))
                _lost(network)
                flag = await store.set_flag("a", True, 0, "ada", moment())
                _lost(network)
                ids = [a_transition().event_id]
                assert list(await store.became_effective(ids, moment(5))) == ids
                assert network.fault is None

                assert [row.body for row in await store.audit(AuditQuery())] == [
                    a_transition(),
                    an_event(),
                    an_event("held"),
                ]
                assert await store.rollout(Slot("search")) == a_rollout(revision=2)
                assert (list(await store.flags()), await store.version()) == ([flag], 3)
            finally:
                await store.close()


def _lost(network: Network) -> None:
    """Let the answer to the next commit get lost."""
    network.fault = Fault.CUT_BEFORE_ANSWER


async def _somebody_waits(connection: Any) -> None:
    """Return once a statement waits for a lock."""
    waiting = "select exists (select from pg_locks where not granted)"
    while not await connection.fetchval(waiting):
        pass
