"""A sidecar that is told to stop at any moment of its work, and started again: every turn comes to its end.

A few SIGTERMs in `make test`; `SIDECAR_TORTURE_STOPS` sets how many.
"""

import signal
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import pytest

from tests.support.requirement import requirement
from tests.support.sidecar_process import place
from tests.system.torture.agents import agents_for, pause
from tests.system.torture.checker import SqliteFile, compare, figures, over, spread
from tests.system.torture.clients import clients_at_work
from tests.system.torture.places import (
    client_of,
    dice,
    limit_of,
    seed,
    serving,
    settings_of,
    strikes,
    tell,
    verified,
)

pytestmark = pytest.mark.system

STOPS: Final = strikes("STOPS", 3)
LONGEST_LIFE: Final = 0.8
"""Seconds from its first answer to the signal, at most."""
LIFETIME: Final = {"SIDECAR__DISPATCH__TURN_LIFETIME": "10m"}
"""So long that no turn is ended for its client."""


@requirement("SX-38")
@pytest.mark.seconds(limit_of(STOPS))
async def test_no_turn_is_lost_when_the_sidecar_is_told_to_stop_under_load() -> None:
    """Each process ends by itself with 0; the clients continue at the next one, and end every turn they began."""
    number = seed()
    chosen = dice(number)
    took: list[float] = []
    with place() as folder:
        more, record = settings_of(folder, folder), SqliteFile(folder / "record" / "record.sqlite")
        async with agents_for(folder, chosen) as agents, AsyncExitStack() as last:
            async with clients_at_work(partial(client_of, folder), chosen, left=0.0) as told:
                for _ in range(STOPS):
                    async with serving(folder, more, **LIFETIME) as sidecar:
                        await told.progress(1)
                        await pause(chosen.uniform(0.0, LONGEST_LIFE))
                        began = time.monotonic()
                        sidecar.signal(signal.SIGTERM)
                        assert await sidecar.ended() == 0, sidecar.text
                        took.append(time.monotonic() - began)
                sidecar = await last.enter_async_context(serving(folder, more, **LIFETIME))
            await over(record)
            sidecar.signal(signal.SIGTERM)
            assert await sidecar.ended() == 0
        await verified(folder)
        found = compare(told, record)
        tell("SIGTERM", number, {"stops": STOPS, **figures(told, found), "s from the signal to the end": spread(took)})
        agents.check()
        assert told.lost == []
        assert (found.lost, found.doubled, found.odd) == ([], [], [])
