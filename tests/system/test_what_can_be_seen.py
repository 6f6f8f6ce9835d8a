"""What a running process shows of itself: metrics, readiness, its log; and what it must not show."""

import json
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from subagents.dispatch.v1 import dispatch_pb2, dispatch_pb2_grpc
from subagents_client import Integration, SidecarClient, SubagentsError, ToolCall, TurnRequest, Verdict
from subagents_client.runner import Run, RunnerHost
from tests.support.requirement import requirement
from tests.support.sidecar_process import SidecarProcess, next_look, place, serving, started

pytestmark = pytest.mark.system


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


async def surface(client: SidecarClient) -> tuple[str, str]:
    """Bind a turn; return shop's description and the binding digest."""
    turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
    shop = turn.surface.tool("ask_shop")
    assert shop is not None
    return shop.description, turn.surface.binding_digest


def is_other_than(known: set[str]) -> Callable[[dict[str, Any]], bool]:
    """Return what recognises a flag contact with a revision that is not `known`."""
    return lambda change: change["revision"] not in known


def entry(folder: Path) -> Path:
    """Return the file that a test changes."""
    return folder / "config" / "agent_config.yaml"


def described(text: str, word: str) -> str:
    """Return the configuration with another description of shop."""
    lines = text.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.strip() == "- id: shop")
    there = next(number for number in range(at, len(lines)) if lines[number].strip().startswith("description:"))
    lines[there] = lines[there].split("description:")[0] + f"description: {word}\n"
    del lines[there + 1 : next(n for n in range(there + 1, len(lines)) if lines[n].startswith("    role:"))]
    return "".join(lines)


def in_place(file: Path, text: str) -> None:
    """Write over the file."""
    file.write_text(text)


def by_rename(file: Path, text: str) -> None:
    """Write beside it, then rename."""
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(file)


def by_link(file: Path, text: str) -> None:
    """Swap a link inside the folder, as a mounted configuration does."""
    fresh, link = file.with_suffix(".second"), file.with_suffix(".link")
    fresh.write_text(text)
    link.symlink_to(fresh.name)
    link.rename(file)


def with_older_time(file: Path, text: str) -> None:
    """Write a file whose time lies before the one it replaces."""
    by_rename(file, text)
    os.utime(file, (1, 1))


async def test_the_alerting_counters_are_there_at_nought(folder: Path) -> None:
    """Before anything has happened: under dots for who asks for UTF-8 names, under underscores for others."""
    async with serving(folder) as sidecar:
        plain = (await sidecar.page("/metrics")).text
        dotted = (await sidecar.page("/metrics", accept="text/plain;version=1.0.0;escaping=allow-utf-8")).text
    for name in ("ps6.envelope.principal_mismatch_total", "ps6.envelope.version_mismatch_total"):
        assert f'{name.replace(".", "_")}{{consumer="consumer-agent"}} 0.0' in plain
        assert f'{{"{name}",consumer="consumer-agent"}} 0.0' in dotted


@pytest.mark.parametrize("write", [in_place, by_rename, by_link, with_older_time])
@requirement("PF1-D-74")
async def test_a_change_of_the_definitions_shows_at_the_next_bind(
    folder: Path, write: Callable[[Path, str], None]
) -> None:
    """Whichever way the file is changed; a turn that was bound before keeps what it had."""
    file = entry(folder)
    async with serving(folder) as sidecar, sidecar.client() as client:
        before = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1", turn_id="turn-1"))

        write(file, described(file.read_text(), "Changed."))
        await sidecar.event("definitions.changed", lambda change: change["revision"] != first_revision(sidecar))
        await sidecar.event("definitions.on_record", lambda change: change["version"] != first_version(sidecar))

        assert (await surface(client))[0] == "Changed."
        again = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1", turn_id="turn-1"))
        assert again.surface == before.surface
        page = (await sidecar.page("/metrics")).text
    assert 'sidecar_definitions_loads_total{result="in_force"} 2.0' in page


def first_version(sidecar: SidecarProcess) -> str:
    """Return what binds followed at the start."""
    return next(str(event["version"]) for event in sidecar.events if event["event"] == "definitions.on_record")


def first_revision(sidecar: SidecarProcess) -> str:
    """Return what was in force at the start."""
    return next(str(event["revision"]) for event in sidecar.events if event["event"] == "definitions.changed")


async def test_an_invalid_change_keeps_the_last_good_state_and_says_so(folder: Path) -> None:
    """In log, readiness and metric; correcting it is seen too."""
    file = entry(folder)
    good = file.read_text()
    async with serving(folder) as sidecar, sidecar.client() as client:
        before = await surface(client)

        in_place(file, good.replace("role:", "rle:", 1))
        refused = await sidecar.event("definitions.refused")

        assert any("rle" in problem and "agent_config.yaml" in problem for problem in refused["problems"])
        assert await surface(client) == before
        ready = await sidecar.page("/readyz")
        assert (ready.status_code, ready.json()["definitions"]["newest_state_in_force"]) == (200, False)
        assert ready.json()["definitions"]["problems"] == refused["problems"]
        await sidecar.metrics_show("sidecar_definitions_invalid 1.0")
        in_place(file, described(good, "Mended."))
        await sidecar.event("definitions.changed", lambda change: change["revision"] != first_revision(sidecar))
        await sidecar.metrics_show("sidecar_definitions_invalid 0.0")


async def test_without_any_valid_definitions_it_waits_and_says_why(folder: Path) -> None:
    """Not ready, with the problems; ready once the file is mended, without a restart."""
    file = entry(folder)
    good = file.read_text()
    file.write_text("agents: [")
    async with started(folder) as sidecar:
        await sidecar.event("sidecar.listening")
        page = await sidecar.page("/readyz")
        assert (page.status_code, list(page.json()["against"])) == (503, ["definitions"])
        in_place(file, good)
        await sidecar.event("sidecar.readiness")
        assert (await sidecar.page("/readyz")).status_code == 200


@requirement("PF1-FR-9c", "PF1-AC-1a", "PF1-AC-1b")
async def test_a_flag_that_is_switched_shows_at_the_next_bind(folder: Path) -> None:
    """Off at the start: the sub-agent is absent and the others are there; on: there; off: gone again."""
    await flag_what_is_served(folder)
    flags = folder / "flags.json"
    write_flags(flags, on=False)
    more = f'[policy.default]\nflags = "file"\n[flags.file]\nplugin = "file"\npath = "{flags}"\npoll_seconds = 0.05\n'
    async with serving(folder, more=more) as sidecar, sidecar.client() as client:
        assert await slots(client) == ["shop", "support"]
        for on, seen in ((True, ["shop", "rewards", "support"]), (False, ["shop", "support"])):
            known = {event["revision"] for event in sidecar.events if event["event"] == "flags.contact"}
            write_flags(flags, on=on, salt=len(known))
            await sidecar.event("flags.contact", is_other_than(known))
            assert await slots(client) == seen


@requirement("PF1-T-19")
async def test_flags_that_cannot_be_read_leave_gated_sub_agents_out(folder: Path) -> None:
    """The file is not there at all: readiness is untouched, its detail and a metric name the backend."""
    await flag_what_is_served(folder)
    more = f'[policy.default]\nflags = "file"\n[flags.file]\nplugin = "file"\npath = "{folder}/flags.json"\n'
    async with serving(folder, more=more) as sidecar, sidecar.client() as client:
        assert await slots(client) == ["shop", "support"]
        detail = (await sidecar.page("/readyz")).json()
        assert (detail["ready"], detail["flags"]["stale"], list(detail["flags"]["failures"])) == (
            True,
            ["file"],
            ["file"],
        )
        assert 'sidecar_flags_stale{backend="file"} 1.0' in (await sidecar.page("/metrics")).text


async def slots(client: SidecarClient) -> list[str]:
    """Bind a turn; return the sub-agents on its surface."""
    turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
    return [tool.sub_agent_id for tool in turn.surface.sub_agent_tools]


async def flag_what_is_served(folder: Path) -> None:
    """Let a sidecar serve rewards to everybody, and gate it after that: its flags decide from then on."""
    async with serving(folder):
        pass
    head, found, rest = entry(folder).read_text().partition("  - id: rewards\n")
    assert found
    gated = f"{found}    enabled_via_flag: ai_assistant_subagent_rewards\n"
    entry(folder).write_text(head + gated + rest)


def write_flags(file: Path, *, on: bool, salt: int = 0) -> None:
    """Write whole and rename, with a content that was not there before."""
    gate = "ai_assistant_subagent_rewards"
    names = {gate: on, f"{gate}_cohort": True, f"other_{salt}": True}
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({"flags": names}))
    fresh.rename(file)


async def test_no_secret_gets_into_any_output(folder: Path) -> None:
    """Boot secret, signing key, surface token, grant and a plugin's password: searched for in all that is emitted."""
    key = folder / "key"
    key.write_text("canary-signing-key-0123456789-abcdefgh")
    key.chmod(stat.S_IRUSR)
    more = f'[keys.files]\na1 = "{key}"\n'
    async with serving(folder, more=more) as sidecar, sidecar.client() as client, leaking_host(folder) as seen:
        turn = await client.bind_turn(TurnRequest(principal="user-canary", episode_id="episode-1"))
        token = turn.binding.surface_token
        await turn.dispatch_and_wait([ToolCall("call-1", "ask_shop", json.dumps({"request": token}))])
        await turn.end("Done.")
        await refused_everywhere(sidecar, token)
        pages = [(await sidecar.page(path)).text for path in ("/metrics", "/readyz", "/healthz", f"/{token}")]
        await sidecar.event("routing.decision")
        secrets = {
            "boot secret": sidecar.boot_secret,
            "key": key.read_text(),
            "token": token,
            "grant": seen[0],
            "user": "user-canary",
        }
    emitted = sidecar.text + "".join(pages)
    assert [name for name, secret in secrets.items() if secret in emitted] == []
    assert len(seen) == 1


@asynccontextmanager
async def leaking_host(folder: Path) -> AsyncIterator[list[str]]:
    """Serve shop by a sub-agent that fails with its grant and its user in the error's text."""
    seen: list[str] = []
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        grant = run._grant
        seen.append(grant)
        raise RuntimeError(f"failed with {grant} for {run.context.principal}")

    async with host.serving(f"unix:{folder}/shop.sock"):
        yield seen


async def refused_everywhere(sidecar: SidecarProcess, token: str) -> None:
    """Send secrets where they do not belong: each is refused, and no text of it comes back."""
    async with grpc.aio.insecure_channel(sidecar.dispatch_target) as channel:
        stub = dispatch_pb2_grpc.DispatchServiceStub(channel)
        request = dispatch_pb2.EndTurnRequest(surface_token=f"{token}x")
        for secret in ("wrong-secret-canary", sidecar.boot_secret):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.EndTurn(request, metadata=(("x-subagents-boot-secret", secret),), timeout=5)
            said = f"{refused.value.details()} {refused.value.trailing_metadata()}"
            assert token not in said
            assert secret not in said


async def test_grpc_spans_are_there_where_they_are_switched_on(folder: Path) -> None:
    """OpenTelemetry's instrumentation around a bind; without an OTLP endpoint, in the log."""
    more = "[telemetry]\ngrpc_spans = true\ntrace_ratio = 1.0\n"
    async with serving(folder, more=more) as sidecar, sidecar.client() as client:
        await surface(client)
        span = await sidecar.event("sidecar.span", lambda one: str(one["message"]).endswith("BindTurn"))
    assert span["seconds"] > 0


def measured_rpc(carrier: str, method: str, code: str, reason: str = "") -> str:
    """Return the line of `/metrics` that says that one call of a method came to this end."""
    return (
        f'rpc_server_call_duration_count{{carrier="{carrier}",error_type="{reason}",'
        f'rpc_method="subagents.dispatch.v1.DispatchService/{method}",rpc_response_status_code="{code}"}} 1.0\n'
    )


async def test_calls_and_rpcs_show_who_failed_and_why(folder: Path) -> None:
    """A sub-agent that fails, a tool that does not exist, and an RPC that is refused, on the page of a process."""
    async with leaking_host(folder), serving(folder) as sidecar:
        async with sidecar.client() as client:
            turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
            asked = json.dumps({"request": "shoes"})
            await turn.dispatch_and_wait([ToolCall("call-1", "ask_shop", asked), ToolCall("call-2", "ask_none", asked)])
            await turn.end("Done.")
        async with grpc.aio.insecure_channel(sidecar.dispatch_target) as channel:
            stub = dispatch_pb2_grpc.DispatchServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.CloseChild(dispatch_pb2.CloseChildRequest(), timeout=5)
        refused = measured_rpc("rpc", "CloseChild", "UNAUTHENTICATED", "BOOT_SECRET_WRONG")
        page = (await sidecar.page("/metrics")).text
        while refused not in page:  # it is measured when it has ended, which its client may know first
            await next_look()
            page = (await sidecar.page("/metrics")).text
    calls = {line for line in page.splitlines() if line.startswith("sidecar_child_calls_total{")}
    assert calls == {
        'sidecar_child_calls_total{arm="active",definition_id="shop",outcome="failed",reason="RUNNER_FAILED",'
        'sub_agent_id="shop"} 1.0',
        'sidecar_child_calls_total{arm="",definition_id="",outcome="refused",reason="UNKNOWN_TOOL",'
        'sub_agent_id=""} 1.0',
    }
    assert measured_rpc("rpc", "BindTurn", "OK") in page


def ends_with(method: str) -> Callable[[dict[str, Any]], bool]:
    """Return what recognises the span of a method."""
    return lambda span: str(span["message"]).endswith(f"/{method}")


async def test_operations_of_a_session_lane_have_spans_and_counts_of_their_own(folder: Path) -> None:
    """Each kind of operation has its span, with its error, and is counted and measured; the lane itself has no span."""
    more = "[telemetry]\ngrpc_spans = true\ntrace_ratio = 1.0\n[session]\nenabled = true\n"
    ends = {
        "BindTurn": ("OK", ""),
        "Dispatch": ("OK", ""),
        "ResumeDispatch": ("NOT_FOUND", "UNKNOWN_DISPATCH"),
        "CancelCall": ("NOT_FOUND", "UNKNOWN_DISPATCH"),
        "CloseChild": ("NOT_FOUND", "UNKNOWN_CHILD"),
        "EndTurn": ("OK", ""),
    }
    async with serving(folder, more=more) as sidecar:
        async with sidecar.client() as client:
            await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
            assert await client._wire.lanes.ready() is not None
            turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
            await turn.dispatch_and_wait([ToolCall("call-1", "ask_none", "{}")])
            with pytest.raises(SubagentsError):
                await anext(aiter(turn.resume("nothing")))
            with pytest.raises(SubagentsError):
                await turn.cancel_call("nothing", "call-1")
            with pytest.raises(SubagentsError):
                await turn.close_child(Integration("nobody", Verdict.ACCEPTED))
            await turn.end("Nothing to do.")
            spans = {method: await sidecar.event("sidecar.span", ends_with(method)) for method in ends}
            page = (await sidecar.page("/metrics")).text
        assert "DispatchService/Session" not in sidecar.text
    assert {method: span["status"] for method, span in spans.items()} == {
        method: "UNSET" if code == "OK" else "ERROR" for method, (code, _) in ends.items()
    }
    counted = [line for line in page.splitlines() if line.startswith("sidecar_session_operations_total{")]
    assert len(counted) == len(ends), page
    for method, (code, reason) in ends.items():
        assert measured_rpc("lane", method, code, reason) in page
        assert f'code="{code}",method="/subagents.dispatch.v1.DispatchService/{method}"' in "".join(counted)
    assert measured_rpc("rpc", "BindTurn", "OK") in page
    assert "sidecar_session_lanes 1.0" in page
    assert 'sidecar_session_out_of_credit_total{credit="lane"} 0.0' in page
