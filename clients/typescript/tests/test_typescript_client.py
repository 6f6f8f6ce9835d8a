"""The TypeScript client as a package: packed, installed into an empty project, used there against a real sidecar."""

import asyncio
import base64
import json
import re
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from subagents.dispatch.v1 import dispatch_pb2
from subagents.history.v1 import history_pb2
from subagents_client.runner import Run, RunnerHost
from tests.support.asking_sub_agents import QUESTIONS, asks_once, message_of
from tests.support.authority import AGENT, Authority, Issued
from tests.support.cable import cable
from tests.support.fake_runner import answers, waits_for
from tests.support.harness import SECRET, SessionRules, SidecarForTests, running_sidecar_for_tests
from tests.support.rule_cases import cases_of, message_type
from tests.support.sidecar_process import place
from tests.support.tls_sidecar import a_tls_sidecar
from tests.support.typescript_package import PACKAGE, installed_project, ran

PROGRAM: Final = PACKAGE / "tests" / "programs" / "behaviours.mjs"
MESSAGE_BYTES: Final = 40_000
"""What a small lane reads: a request of 30,000 bytes, and what may be beside it, is too much."""

pytestmark = [pytest.mark.system, pytest.mark.seconds(180)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The empty project that has installed the packed client."""
    return asyncio.run(installed_project(tmp_path_factory))


class Program:
    """A running program of the project, which prints JSON and waits for cues."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> dict[str, Any]:
        """Return the next line."""
        assert self._process.stdout is not None
        read = await self._process.stdout.readline()
        if not read:
            assert self._process.stderr is not None
            raise AssertionError((await self._process.stderr.read()).decode())
        found: dict[str, Any] = json.loads(read)
        return found

    def go_on(self) -> None:
        """Give the cue."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go on\n")

    async def rest(self) -> list[dict[str, Any]]:
        """Return the remaining lines; the program has to end well."""
        output, errors = await self._process.communicate()
        assert self._process.returncode == 0, errors.decode()
        return [json.loads(line) for line in output.splitlines()]


@asynccontextmanager
async def running(
    project: Path, case: str, socket: Path, folder: Path, credentials: Path | None = None
) -> AsyncIterator[Program]:
    """Run one case of the program in the project; `credentials` are a folder with certificates, or the boot secret."""
    (project / PROGRAM.name).write_text(PROGRAM.read_text("utf-8"), "utf-8")
    (folder / "secret").write_text(SECRET)
    pipe = asyncio.subprocess.PIPE
    command = ("node", PROGRAM.name, case, str(socket), str(credentials or folder / "secret"))
    process = await asyncio.create_subprocess_exec(*command, cwd=project, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def told(project: Path, case: str, sidecar: SidecarForTests) -> list[dict[str, Any]]:
    """Run a case that needs no cue."""
    async with running(project, case, sidecar.folder / "dispatch.sock", sidecar.folder) as program:
        return await program.rest()


async def test_the_packed_file_holds_code_types_and_licence(project: Path) -> None:
    """No sources, no tests, nothing of this machine."""
    (file,) = (project.parent / "clients" / "typescript").glob("*.tgz")
    with tarfile.open(file) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    package = json.loads((project / "node_modules/subagents-client/package.json").read_text("utf-8"))
    assert {"LICENSE", "README.md", "package.json", "dist/index.js", "dist/index.d.ts"} <= names
    assert all(name.startswith("dist/") for name in names - {"LICENSE", "README.md", "package.json"})
    assert all(name.removesuffix(".js") + ".d.ts" in names for name in names if name.endswith(".js"))
    assert "private" not in package
    assert all(
        str(PACKAGE) not in file.read_text("utf-8")
        for file in (project / "node_modules/subagents-client").rglob("*.js")
    )


async def test_the_sample_of_the_readme_compiles_and_runs(project: Path) -> None:
    """With strict types, from what the package exports."""
    (sample,) = re.findall(r"```ts\n(.*?)```", (PACKAGE / "README.md").read_text("utf-8"), re.DOTALL)
    (project / "sample.ts").write_text(sample, "utf-8")
    modules = project.parent / "clients" / "typescript" / "node_modules"
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "--skipLibCheck", "false"]
    roots = ["--typeRoots", str(modules / "@types")]
    await ran(project, str(modules / ".bin" / "tsc"), *options, *roots, "sample.ts")

    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", answers("Two pairs.", statuses=["searching_offers"]))
        secret = sidecar.folder / "secret"
        secret.write_text(SECRET)
        shown = await ran(project, "node", "sample.js", str(sidecar.folder / "dispatch.sock"), str(secret))
        (record,) = sidecar.recorder.of("turn_routed")

    assert shown.splitlines() == [
        "[ 'ask_shop', 'ask_rewards', 'ask_support' ]",
        "searching_offers [ 'shop' ]",
        "[ 'SUCCEEDED' ]",
        "[ { callId: 'call-1', text: 'Two pairs.' } ]",
    ]
    assert record is not None


async def test_over_tls_both_ends_are_checked_and_renewed_files_are_used(project: Path) -> None:
    """A listed certificate does all that the boot secret does; every other connection ends without a turn.

    The files of a client are read for each connection: one that was made with an unlisted certificate connects with the
    listed one that has replaced it.
    """
    stranger = Authority("a stranger").issue(AGENT)
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        return "Two pairs."

    with place() as folder:
        async with host.serving(f"unix:{folder}/shop.sock"), a_tls_sidecar(folder) as served:
            ours = served.authority
            ours.issue(AGENT).written(folder / "client")
            ours.issue("unlisted.example").written(folder / "unlisted")
            ours.issue("unlisted.example").written(folder / "renewed")
            Issued(ours.pem, stranger.certificate, stranger.key).written(folder / "stranger")
            async with running(project, "secured", Path(served.address("dispatch")), folder, folder) as program:
                dispatched = await program.line()
                await program.line()
                ours.issue(AGENT).written(folder / "renewed")
                program.go_on()
                tried, mistakes = await program.rest()
    assert dispatched == {"outcomes": [["call-1", "SUCCEEDED", ""]], "synthesised": False, "texts": ["Two pairs."]}
    assert tried == {
        "unlisted": "CALLER_NOT_ALLOWED",
        "misnamed": "no connection",
        "strange": "no connection",
        "renewed": "bound",
    }
    assert ["address needs tls" in mistakes[0], "give socket" in mistakes[1], "give either" in mistakes[2]] == [
        True
    ] * 3
    assert "nowhere/ca.pem" in mistakes[3]


async def test_a_wrong_request_says_which_field_is_wrong(project: Path) -> None:
    """The error has the sidecar's reason; the message says what failed, where and what to do."""
    async with running_sidecar_for_tests() as sidecar:
        failure, schema = await told(project, "mistake", sidecar)
    assert failure["isError"]
    assert failure["answered"]
    assert failure["reason"] == "INVALID_REQUEST"
    assert failure["fields"] == ["date"]
    assert "BindTurn at " in failure["message"]
    assert "correct the request" in failure["message"]
    assert schema == {"schema": "subagents.dispatch.v1.BindTurnRequest"}


async def test_requests_are_checked_against_the_rules_before_they_are_sent(project: Path, tmp_path: Path) -> None:
    """The cases are made from the protos, as for the sidecar and the Python SDK. There is no sidecar here."""
    services = (dispatch_pb2.DESCRIPTOR, history_pb2.DESCRIPTOR)
    asked = {
        method.input_type.full_name: method.input_type.name
        for file in services
        for service in file.services_by_name.values()
        for method in service.methods
        if method.name != "Session"
    }
    cases = [(name, case) for full, name in asked.items() for case in cases_of(message_type(full))]
    assert {name for name, _ in cases} == set(asked.values())
    raw = [(name, base64.b64encode(case.request.SerializeToString()).decode()) for name, case in cases]
    (tmp_path / "rules.json").write_text(json.dumps(raw), "utf-8")
    async with running(project, "rules", tmp_path / "nothing.sock", tmp_path) as program:
        *checked, binding, reading = await program.rest()

    for (name, case), fields in zip(cases, checked, strict=True):
        assert fields == ([] if case.allowed else [case.field]), (name, case.field)
    for failure, field in ((binding, "turn_id"), (reading, "turn_id")):
        assert (failure["reason"], failure["fields"], failure["code"]) == ("INVALID_REQUEST", [field], 3)
        assert "was not sent" in failure["message"]


async def test_a_bind_outlasts_a_restart(project: Path) -> None:
    """The socket appears after the first attempt has failed."""
    async with running_sidecar_for_tests() as sidecar:
        front = sidecar.folder / "front.sock"
        async with running(project, "restart", front, sidecar.folder) as program:
            assert await program.line() == {"binding": True}
            async with cable(front, sidecar.folder / "dispatch.sock"):
                program.go_on()
                assert await program.rest() == [{"bound": 3}]


async def test_a_bind_without_a_sidecar_fails_with_its_address(project: Path, tmp_path: Path) -> None:
    """Within its timeout."""
    async with running(project, "away", tmp_path / "nothing.sock", tmp_path) as program:
        assert await program.rest() == [{"answered": False, "reason": "", "where": True}]


async def test_outcomes_of_a_lost_sidecar_are_synthesised(project: Path) -> None:
    """One for each call, in order. An outcome that an event told stays; what is over the cap was dropped."""
    async with running_sidecar_for_tests(cap=2) as sidecar:
        sidecar.runner.use("shop", waits_for(asyncio.Event()))
        sidecar.runner.use("rewards", answers("done", statuses=["searching_offers"]))
        front = sidecar.folder / "front.sock"
        laying = cable(front, sidecar.folder / "dispatch.sock")
        async with laying as laid, running(project, "lost", front, sidecar.folder) as program:
            assert await program.line() == {"running": True}
            front.unlink()
            laid.cut()
            program.go_on()
            (shown,) = await program.rest()
    assert shown["synthesised"]
    assert shown["outcomes"] == [
        ["call-1", "FAILED", "SIDECAR_UNREACHABLE"],
        ["call-2", "SUCCEEDED", ""],
        ["call-3", "DROPPED", "OVER_CAP"],
    ]
    assert [one["callId"] for one in shown["messages"]] == ["call-1", "call-2", "call-3"]
    assert all(one["text"] for one in shown["messages"])


async def test_the_limits_of_the_lane_are_respected(project: Path) -> None:
    """One operation at a time and small messages: what is more, or larger, goes as plain RPCs; the lane lives on."""
    session = SessionRules(most_operations=1, message_bytes=MESSAGE_BYTES)
    async with running_sidecar_for_tests(session=session) as sidecar:
        parallel, large, small = await told(project, "limits", sidecar)
        counted = dict(sidecar.lane_counts.operations)
    assert [outcome for _, outcome, _ in parallel["parallel"]] == ["SUCCEEDED"] * 3
    assert large == {"large": [["call-4", "SUCCEEDED", ""]]}
    assert small == {"small": [["call-5", "SUCCEEDED", ""]]}
    # Of the dispatches, one of the three parallel ones and the small one went over the lane; none was refused there.
    assert sum(count for (method, _), count in counted.items() if method.endswith("Dispatch")) == 2
    assert {code for method, code in counted if method.endswith("Dispatch")} == {"OK"}


async def test_a_dispatch_is_listened_to_again(project: Path) -> None:
    """Leaving the loop leaves the dispatch, which runs on; `resume` brings its outcome."""
    finish = asyncio.Event()
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", reporting_first(finish))
        async with running(project, "resume", sidecar.folder / "dispatch.sock", sidecar.folder) as program:
            left = await program.line()
            finish.set()
            program.go_on()
            shown = await program.rest()
    assert "closed" in left["left"]
    assert shown == [{"outcomes": [["call-1", "SUCCEEDED", ""]], "synthesised": False}]


def reporting_first(finish: asyncio.Event) -> Callable[..., Any]:
    """Return a sub-agent that reports progress and answers when the event is set."""
    then = waits_for(finish)

    async def script(request: Any, runner: Any) -> AsyncIterator[Any]:
        async for event in answers(statuses=["searching_offers"])(request, runner):
            yield event
            break
        async for event in then(request, runner):
            yield event

    return script


async def test_turns_end_whatever_happens_and_are_kept(project: Path) -> None:
    """An exception in `withTurn` ends the turn, too; history, lists and exports are there."""
    async with running_sidecar_for_tests() as sidecar:
        raised, narrations, listed, exported, defaults = await told(project, "history", sidecar)
        ended = len(sidecar.recorder.of("turn_routed"))
    assert raised == {"raised": "a defect"}
    assert "Two pairs fit." in narrations["narrations"]
    assert listed == {"listed": 2}
    assert exported == {"exported": True}
    assert defaults == {"defaults": 5000}
    assert ended == 2


async def test_questions_are_shown_as_by_the_python_sdk_and_answered_in_the_next_turn(project: Path) -> None:
    """A decision, a text that a model wrote, and an authorisation with words."""
    async with running_sidecar_for_tests(cap=3) as sidecar:
        for slot in QUESTIONS:
            sidecar.runner.use(slot, asks_once)
        shown, continued = await told(project, "questions", sidecar)

    assert shown == [message_of(slot) for slot in QUESTIONS]
    assert continued == ["user: declined ''", "orchestrator: None '42'", "user: approved 'done'"]


def test_the_lock_names_versions_and_hashes_but_no_address() -> None:
    """Any mirror that has the same files will do; the lock has the lowest versions that package.json admits."""
    text = (PACKAGE / "package-lock.json").read_text(encoding="utf-8")
    lock = json.loads(text)
    wanted = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert "://" not in text
    assert "resolved" not in text
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())
    assert lock["packages"][""]["dependencies"] == wanted["dependencies"]
    for name, version in (wanted["dependencies"] | wanted["devDependencies"]).items():
        assert packages[f"node_modules/{name}"]["version"] == version.removeprefix("^")


def test_all_packages_of_the_repository_have_one_version() -> None:
    """The one of npm too."""
    root = (PACKAGE.parents[1] / "pyproject.toml").read_text("utf-8")
    (version,) = re.findall(r'^version = "(.*)"$', root, re.MULTILINE)
    assert json.loads((PACKAGE / "package.json").read_text("utf-8"))["version"] == version
