"""The public names of the clients: an application of the last release keeps working."""

from pathlib import Path

import pytest

from scripts.public_names import RELEASED, TYPESCRIPT, current_names, names_of_typescript, problems, released_names

RELEASED_NAMES = frozenset(
    {"sdk.Client", "sdk.connect", "sdk.connect(target at 0 required)", "sdk.connect(timeouts by name)"}
)


def test_the_clients_have_the_released_names_and_no_others() -> None:
    """A removed or renamed name fails; a new one is added to the list."""
    assert problems(released_names(), current_names()) == []


def test_the_list_is_sorted_and_covers_each_package() -> None:
    """A list that lacks a package guards none of its names."""
    lines = RELEASED.read_text("utf-8").splitlines()
    assert lines == sorted(set(lines))
    assert {
        "subagents_client.SidecarClient.connect(timeouts by name)",
        "subagents_client.BoundTurn.dispatch(calls at 1 required)",
        "subagents_client.Outcome.SUSPENDED = 'suspended'",
        "subagents_client.StatusRenderer.render",
        "subagents_client.coalescing.Coalescer",
        "subagents_client.runner.RunnerHost.sub_agent",
        "subagents_errors.SubagentsError.retry_after",
        "subagents_langchain.Answer.full_text",
        "subagents_langchain.tools_of(turn at 0 required)",
        "subagents_openai_agents.SubAgents",
        "typescript: BoundTurn.dispatchAndWait",
        "typescript: Timeouts.bindMs",
    } <= set(lines)


@pytest.mark.parametrize(
    ("gone", "added", "complaint"),
    [
        ("sdk.Client", None, "sdk.Client is gone"),
        ("sdk.connect(timeouts by name)", "sdk.connect(limits by name)", "sdk.connect(timeouts by name) is gone"),
        ("sdk.connect(target at 0 required)", "sdk.connect(target at 1 required)", "(target at 0 required) is gone"),
        (None, "sdk.connect(secret by name required)", "sdk.connect(secret by name required): a new parameter"),
        (None, "sdk.Client.close", "sdk.Client.close is new"),
    ],
    ids=["removed", "renamed parameter", "moved parameter", "new required parameter", "new name"],
)
def test_each_break_of_an_application_is_caught(gone: str | None, added: str | None, complaint: str) -> None:
    """Names that go, and parameters that old code does not pass."""
    current = RELEASED_NAMES - {gone or ""} | ({added} if added else set())
    found = problems(RELEASED_NAMES, current)
    assert complaint in found[0], found


def test_a_new_parameter_of_a_new_function_may_be_required() -> None:
    """No application calls it yet."""
    added = {"sdk.ask", "sdk.ask(question at 0 required)"}
    assert all("is new" in each for each in problems(RELEASED_NAMES, RELEASED_NAMES | added))


@pytest.mark.parametrize(
    ("file", "old", "new", "gone"),
    [
        ("index.ts", "BoundTurn, ", "", "typescript: BoundTurn"),
        ("turn.ts", "  async cancelCall(", "  async stopCall(", "typescript: BoundTurn.cancelCall"),
        ("connecting.ts", "  readonly sessionLane?:", "  readonly lane?:", "typescript: Options.sessionLane"),
        ("dispatch_stream.ts", "  get sequence()", "  private get sequence()", "typescript: DispatchStream.sequence"),
    ],
)
def test_a_break_of_the_typescript_client_is_caught(file: str, old: str, new: str, gone: str, tmp_path: Path) -> None:
    """An export, a method, an option and a property."""
    for path in TYPESCRIPT.glob("*.ts"):
        text = path.read_text("utf-8")
        assert path.name != file or old in text
        (tmp_path / path.name).write_text(text.replace(old, new, 1) if path.name == file else text, "utf-8")
    lost = frozenset(names_of_typescript(TYPESCRIPT)) - frozenset(names_of_typescript(tmp_path))
    assert gone in lost
