"""The incidents. Each is planted, shows, and ends with one action."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from examples.ccs.faults import FaultKind
from examples.demo.definitions import REPLACEMENT
from tests.support.sidecar_process import next_look
from tests.system.drill.stage import CALLS, LATE, Stage, add_canary

LOCKING: Final = "do $$ begin loop lock table facts in exclusive mode; perform pg_sleep(0.8); commit; end loop; end $$"
"""A job that is run by hand, and that takes a lock again and again."""
SLOTS_TABLE: Final = '[aria-label="Slots"]'
SIDECARS_TABLE: Final = '[aria-label="Sidecars"]'


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident.

    Attributes:
        name: of its screenshot, too.
        happens: what is planted, and what would come of it, for the page.
        alert: that fires.
        panel: the dashboard, the title of the panel, and what one of its series is meanwhile.
        page: the page of the console that shows it; `shows`: words on it; `part`: what the screenshot shows.
        ends: the action, for the page.
        plant, act: let it begin, and end it.
    """

    name: str
    happens: str
    alert: str
    panel: tuple[str, str, str]
    page: str
    shows: str
    part: str
    ends: str
    plant: Callable[[Stage], Awaitable[None]]
    act: Callable[[Stage], Awaitable[None]]


async def _ship(stage: Stage) -> None:
    add_canary(stage.folder)
    while REPLACEMENT not in await stage.command("subagent", "list"):
        await next_look()
    await stage.command("subagent", "promote", REPLACEMENT, "--reason", "a better prompt")
    await stage.command("subagent", "ramp", REPLACEMENT, "50", "--reason", "first users")


async def _roll_back(stage: Stage) -> None:
    await stage.command("subagent", "rollback", REPLACEMENT, "--reason", "its calls fail", "--yes")


async def _kill_host(stage: Stage) -> None:
    await stage.end_host("rewards")


async def _start_host(stage: Stage) -> None:
    await stage.host("rewards")


async def _lock(stage: Stage) -> None:
    postgres = stage.postgres
    command = [str(postgres.binaries / "psql"), "-X", "-q", "-h", str(postgres.folder), "-U", "postgres"]
    command += ["-d", stage.database, "-c", LOCKING]
    stage.sessions.append(await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL))


async def _end_session(stage: Stage) -> None:
    holder = "select pg_terminate_backend(pid) from pg_stat_activity where query like 'do $$%'"
    await asyncio.to_thread(stage.postgres.sql, holder, stage.database)
    await stage.sessions.pop().wait()


async def _answer_as_another(stage: Stage) -> None:
    stage.ccs.fault(FaultKind.WRONG_PRINCIPAL, answer_as="user-other")
    stage.asks = (*CALLS, "support")


async def _kill_support(stage: Stage) -> None:
    await stage.command("subagent", "kill", "support", "--reason", "it gets data of other users", "--yes")


async def _fill(stage: Stage) -> None:
    assert stage.first.process is not None
    stage.disk.fill(stage.first.process.process.pid)


async def _make_room(stage: Stage) -> None:
    assert stage.first.process is not None
    stage.disk.make_room(stage.first.process.process.pid)


async def _take_flags_away(stage: Stage) -> None:
    (stage.folder / "flags.json").rename(stage.folder / "flags.gone")


async def _give_flags_back(stage: Stage) -> None:
    (stage.folder / "flags.gone").rename(stage.folder / "flags.json")


async def _leave_turns(stage: Stage) -> None:
    stage.leaves = True


async def _end_turns(stage: Stage) -> None:
    stage.leaves = False


async def _set_clock(stage: Stage) -> None:
    stage.clock.jump("+300s")


async def _set_clock_right(stage: Stage) -> None:
    stage.clock.jump("+0s")


async def _kill_replica(stage: Stage) -> None:
    await stage.second.kill()


async def _start_replica(stage: Stage) -> None:
    await stage.second.start()


async def _let_expire(stage: Stage) -> None:
    stage.certificate(*LATE)


async def _renew(stage: Stage) -> None:
    stage.certificate()


INCIDENTS: Final = (
    Incident(
        name="bad-canary",
        happens="A new definition of `shop` is at 50 %, and each of its calls fails.",
        alert="CanaryFails",
        panel=("ramp", "Share that fails", "> 0.9"),
        page="/now",
        shows=r"shop-dates \(active\).*RUNNER_FAILED",
        part=SLOTS_TABLE,
        ends='`sidecar subagent rollback shop-dates --reason "its calls fail"`',
        plant=_ship,
        act=_roll_back,
    ),
    Incident(
        name="dead-runner",
        happens="The runner host of `rewards` dies.",
        alert="SubAgentBroken",
        panel=("users", "Why calls have no answer", "> 0.1"),
        page="/now",
        shows=r"breaker (half )?open: unix:",
        part=SLOTS_TABLE,
        ends="start the runner host again, as its service manager does",
        plant=_kill_host,
        act=_start_host,
    ),
    Incident(
        name="stale-flags",
        happens="The file of the flag backend is gone.",
        alert="FlagsStale",
        panel=("capacity", "Age of flags", "> 1.5"),
        page="/now",
        shows=r"Flags of file are unreachable",
        part="#live .note",
        ends="put the file back",
        plant=_take_flags_away,
        act=_give_flags_back,
    ),
    Incident(
        name="slow-database",
        happens="A job in PostgreSQL locks the table of facts, again and again for most of a second.",
        alert="RecordSlow",
        panel=("record", "Time to record", "> 0.5"),
        page="/now",
        shows=r"the record is slow: its last append took",
        part=SIDECARS_TABLE,
        ends="`select pg_terminate_backend(pid)` for the session that holds the lock (`pg_locks`)",
        plant=_lock,
        act=_end_session,
    ),
    Incident(
        name="full-disk",
        happens="The disk of one sidecar's checkpoints is full.",
        alert="NoCheckpoint",
        panel=("record", "Without a checkpoint", "> 5"),
        page="/now",
        shows=r"the record has not been signed for",
        part=SIDECARS_TABLE,
        ends="make room on that disk",
        plant=_fill,
        act=_make_room,
    ),
    Incident(
        name="clock-skew",
        happens="The clock of one sidecar is five minutes ahead.",
        alert="ClockWrong",
        panel=("capacity", "Clock ahead of Prometheus", "> 250"),
        page="/now",
        shows=r"its clock is (29|30)\d s ahead of the console's",
        part=SIDECARS_TABLE,
        ends="repair the time service of its machine",
        plant=_set_clock,
        act=_set_clock_right,
    ),
    Incident(
        name="killed-replica",
        happens="One of two sidecars is killed.",
        alert="SidecarGone",
        panel=("capacity", "Sidecars that answer", "== 0"),
        page="/now",
        shows=r"no sidecar answers at unix:",
        part=SIDECARS_TABLE,
        ends="start it again, as its service manager does",
        plant=_kill_replica,
        act=_start_replica,
    ),
    Incident(
        name="expired-certificate",
        happens="The server certificate of one sidecar was not renewed, and expires.",
        alert="CertificateExpires",
        panel=("capacity", "Life of certificates that is left", "< 0.34"),
        page="/now",
        shows=r"the certificate of tls expire[sd]",
        part=SIDECARS_TABLE,
        ends="put a new certificate in place of the old one; no restart",
        plant=_let_expire,
        act=_renew,
    ),
    Incident(
        name="wrong-principal",
        happens="The data service answers `support` with the orders of another user. The sidecar withholds them.",
        alert="EnvelopeForAnotherUser",
        panel=("users", "Another user's data", "> 0"),
        page="/now",
        shows=r"withheld, because they may belong to another user",
        part=SIDECARS_TABLE,
        ends='`sidecar subagent kill support --reason "it gets data of other users"`',
        plant=_answer_as_another,
        act=_kill_support,
    ),
    # Last: the turns that it leaves behind stay open, and the console shows them.
    Incident(
        name="leaking-turns",
        happens="A new version of the consumer-agent no longer ends its turns.",
        alert="TurnsNotEnded",
        panel=("capacity", "Turns ended by the sidecar", "> 10"),
        page="/now",
        shows=r"turns are open in which nothing runs",
        part=SIDECARS_TABLE,
        ends="roll the consumer-agent back",
        plant=_leave_turns,
        act=_end_turns,
    ),
)
