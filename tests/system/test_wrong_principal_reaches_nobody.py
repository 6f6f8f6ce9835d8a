"""Data that belongs to somebody else: a canary in it is searched for in all that every process has emitted.

A search that finds nothing proves something only if it can find: it finds the right users' canaries where they belong,
and in a sidecar without the principal check (`defects/`) it finds the wrong ones.
"""

import asyncio
import itertools
import random
import shutil
import subprocess
from collections.abc import AsyncIterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from examples.ccs.faults import Fault, FaultKind, Where
from sidecar.observability import span_names
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.emitting import ROOT, SLOTS, Emitting, emitting_processes, places_of
from tests.support.requests import a_bind, some_calls
from tests.support.requirement import requirement
from tests.support.whole_result import whole_result

pytestmark = pytest.mark.system

DEFECT: Final = Path(__file__).parent / "defects" / "principal_check_removed.patch"
MISMATCHES: Final = 'ps6_envelope_principal_mismatch_total{consumer="consumer-agent"}'
USERS: Final = ("user-ada", "user-gr\u00fcn/7")
ENRICHERS: Final = {"shop": "offer_search", "rewards": "points_balance", "support": "order_status"}
ROUNDS: Final = 10
SEED: Final = 20_310_405


@dataclass(frozen=True, slots=True)
class Planned:
    """One answer of the data service.

    Attributes:
        fault: as the service's switch has it.
        canary: in the answer's payload, `cache_meta` and `partial[]`.
        is_mismatch: whether the principal check is what must catch it.
    """

    user: str
    slot: str
    fault: Mapping[str, Any]
    canary: str
    is_right: bool
    is_mismatch: bool


@dataclass(slots=True)
class Plan:
    """The answers to come, round by round: every user asks every sub-agent in every round."""

    rounds: list[list[Planned]] = field(default_factory=list)

    @property
    def all(self) -> list[Planned]:
        """Every answer."""
        return [each for one in self.rounds for each in one]

    @property
    def wrong(self) -> list[str]:
        """Canaries in data of others."""
        return [each.canary for each in self.all if not each.is_right]

    @property
    def right(self) -> list[Planned]:
        """Answers that belong to who asked."""
        return [each for each in self.all if each.is_right]


def look_alikes(user: str, other: str) -> Sequence[str]:
    """Return principals that are not `user`, though a careless comparison might say so."""
    return (
        *(other, user.upper(), f"{user} ", f" {user}", f"{user}\u200b", f"{user}\x00", user[:-1], f"{user}0"),
        *(user.replace("\u00fc", "u\u0308") + "\u0301", "", "*", "null", f"{user},{other}"),
    )


def wrong_faults(user: str, other: str) -> Sequence[Mapping[str, Any]]:
    """Return every way in which an answer may be somebody else's."""
    named = [
        {"kind": FaultKind.WRONG_PRINCIPAL, "answer_as": name, "status": status}
        for name in look_alikes(user, other)
        for status in ("ok", "partial", "error")
    ]
    doubled = [{"kind": FaultKind.DUPLICATE_KEYS, "where": Where.PRINCIPAL, "answer_as": other}]
    return (*named, *doubled, {"kind": FaultKind.REPLAY, "answer_as": other})


def plan_of(seed: int) -> Plan:
    """Return a plan in which about half of all answers are somebody else's, in an order that the seed decides."""
    chance, numbers = random.Random(seed), itertools.count(1)
    waiting = {user: _shuffled(chance, wrong_faults(user, other)) for user, other in (USERS, USERS[::-1])}
    plan = Plan()
    for _ in range(ROUNDS):
        answers = []
        for user, slot in itertools.product(USERS, SLOTS):
            right = chance.random() < 0.5
            fault = {"kind": FaultKind.MARKED} if right else next(waiting[user])
            canary = f"canary-{'right' if right else 'wrong'}-{seed}-{next(numbers)}-end"
            mismatch = not right and fault["kind"] is not FaultKind.REPLAY
            answers.append(Planned(user, slot, fault, canary, right, mismatch))
        plan.rounds.append(answers)
    return plan


def _shuffled(chance: random.Random, faults: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return itertools.cycle(chance.sample(faults, len(faults)))


async def play(plan: Plan, processes: Emitting) -> None:
    """Hold two users' turns at the same time, round after round, and keep all that the client is told."""
    for number, answers in enumerate(plan.rounds):
        await processes.answer_with(
            Fault(principal=one.user, enricher_id=ENRICHERS[one.slot], canary=one.canary, **one.fault)
            for one in answers
        )
        await asyncio.gather(*(turn(processes, user, number) for user in USERS))
    await processes.keep_pages()


async def turn(processes: Emitting, user: str, number: int) -> None:
    """Bind, dispatch to all three, listen again, end with what was said, and end again."""
    stub, metadata, name = processes.stub, processes.metadata, f"{USERS.index(user)}-{number}"
    bind = a_bind(turn_id=f"turn-{name}", episode_id=f"episode-{USERS.index(user)}", principal=user)
    bound = await stub.BindTurn(bind, metadata=metadata, timeout=10)
    processes.keep("bind", bound)
    request = pb.DispatchRequest(
        surface_token=bound.surface_token,
        binding_digest=bound.surface.binding_digest,
        dispatch_id=f"dispatch-{name}",
        calls=some_calls(*(f"ask_{slot}" for slot in SLOTS)),
        prior_context="So far nothing.",
    )
    frames = await kept(processes, f"frames of {user}", stub.Dispatch(request, metadata=metadata, timeout=20))
    again = pb.ResumeDispatchRequest(surface_token=bound.surface_token, dispatch_id=f"dispatch-{name}")
    await kept(processes, f"resumed frames of {user}", stub.ResumeDispatch(again, metadata=metadata, timeout=20))
    said = " ".join(outcome.narration for outcome in whole_result(each.frame for each in frames).outcomes)
    end = pb.EndTurnRequest(surface_token=bound.surface_token, narration=said[:4000])
    for _ in range(2):
        processes.keep(f"end of {user}", await stub.EndTurn(end, metadata=metadata, timeout=10))


async def kept(processes: Emitting, place: str, stream: AsyncIterable[Any]) -> list[Any]:
    """Read a stream to its end, keep each message, and return them."""
    messages = [message async for message in stream]
    for message in messages:
        processes.keep(place, message)
    return messages


@requirement("PC2-FR-12a", "PC2-FR-12b", "PC2-D-34", "PC2-T-28")
@pytest.mark.seconds(120)
async def test_what_belongs_to_somebody_else_reaches_nobody() -> None:
    """Two users at once, 60 answers, half of them wrong in every way there is: no wrong canary is anywhere."""
    plan = plan_of(SEED)
    async with emitting_processes() as processes:
        await play(plan, processes)
        counted = await processes.metric(MISMATCHES)
        recorded = processes.recorded()

    assert places_of(processes.told, plan.wrong) == {}
    assert counted == sum(each.is_mismatch for each in plan.all) > 20

    found = places_of(processes.told, [each.canary for each in plan.right])
    for each in plan.right:
        assert {"host.record", f"frames of {each.user}"} <= found[each.canary], "the search must be able to find"
        other = next(user for user in USERS if user != each.user)
        assert f"frames of {other}" not in found[each.canary]
        users = {line["principal"] for line in recorded if each.canary in str(line)}
        assert users == {each.user}


@requirement("PC2-FR-12c", "PC2-FR-12d")
@pytest.mark.seconds(120)
async def test_logs_spans_and_metrics_hold_nothing_of_any_data() -> None:
    """Not even what was rightly released: it goes to the sub-agent and, in its words, to the client. Another plan.

    What a collector receives is searched, too; only `cache_meta` of what was released is there, on its own attribute.
    """
    plan = plan_of(random.SystemRandom().randrange(10**9))
    async with emitting_processes() as processes:
        await play(plan, processes)

    operators = [(place, content) for place, content in processes.told if place.endswith(OPERATORS)]
    assert {place for place, _ in operators} == {
        *("sidecar.log", "host.log", "ccs.log", "metrics", "openmetrics", "/readyz", "/healthz"),
        *("collector.logs", "collector.metrics"),
    }
    log = dict(operators)["sidecar.log"]
    assert log.count(b"routing.decision") == ROUNDS * len(USERS)
    assert log.count(b"security.incident") == len(plan.wrong) > 0
    assert places_of(operators, [each.canary for each in plan.all]) == {}
    collector, right = processes.collector, [each.canary for each in plan.right]
    assert len([one for one in collector.logs if one.name == "security.incident"]) == len(plan.wrong)
    assert {"execute_tool search_offers", "invoke_agent shop"} < {one.name for one in collector.spans}
    shown = [str(one.attributes.get(span_names.CACHE_META, "")) for one in collector.spans]
    assert places_of([("cache_meta", "".join(shown).encode())], right).keys() == set(right), "the search can find"
    rest = [str({**one.attributes, span_names.CACHE_META: ""}) for one in collector.spans]
    assert places_of([("rest", "".join(rest).encode())], right) == {}
    assert places_of(processes.told, plan.wrong) == {}


OPERATORS: Final = (".log", ".logs", "metrics", "/readyz", "/healthz")


@pytest.mark.seconds(120)
async def test_without_the_principal_check_the_search_finds_what_leaked(tmp_path: Path) -> None:
    """The defect in a copy of the sidecar: wrong canaries show in the sub-agent's input and in what the user sees."""
    code = tmp_path / "code"
    shutil.copytree(ROOT / "sidecar", code / "sidecar", ignore=shutil.ignore_patterns("__pycache__"))
    applied = await asyncio.to_thread(
        subprocess.run, ["git", "apply", str(DEFECT)], cwd=code, capture_output=True, text=True, check=False
    )
    assert applied.returncode == 0, f"the defect no longer fits the code; make it anew: {applied.stderr}"
    plan = plan_of(SEED)
    async with emitting_processes(code) as processes:
        await play(plan, processes)

    found = places_of(processes.told, plan.wrong)
    assert len(found) > 5
    for places in found.values():
        assert "host.record" in places
        assert any(place.startswith("frames of") for place in places)
