"""`sidecar replay`: from the running sidecar, and from a file elsewhere."""

import asyncio
import io
import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from sidecar.cli.record.replay import Replaying, replay
from sidecar.cli.record.replay_command import ReplayOptions, add_replay
from sidecar.cli.record.replay_source import exported
from sidecar.composition.replay import replayed, replaying
from sidecar.core.replaying.document import CannotReplay, ReplayDocument
from sidecar.operations.replay.replay_turn import ReplayReport
from sidecar.settings import Settings
from tests.support.fake_runner import answers
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests
from tests.support.requirement import requirement

EXAMPLE = Path(__file__).parents[2] / "examples" / "config"


def doing(sidecar: SidecarForTests, folder: Path) -> Replaying:
    """Return what the command needs, with the definitions of a sidecar of the tests."""
    secret = folder / "secret"
    secret.write_text(SECRET)

    def run(document: ReplayDocument) -> ReplayReport:
        return replayed(document, sidecar.definitions.card_by_digest)

    return Replaying(lambda turn_id: exported(sidecar.dispatch_target, secret, turn_id), run)


async def said(wish: ReplayOptions, using: Replaying) -> tuple[int, str]:
    """Run the command beside the sidecar that it asks."""
    out = io.StringIO()
    return await asyncio.to_thread(replay, wish, using, out), out.getvalue()


async def a_turn(sidecar: SidecarForTests) -> None:
    """Let turn `t` happen: one call, one answer."""
    sidecar.runner.use("shop", answers("Two offers."))
    await sidecar.dispatch(await sidecar.bind(turn_id="t"), "ask_shop", dispatch_id="d")


@requirement("PC1-FR-10d")
async def test_a_turn_of_the_running_sidecar_is_the_same_and_the_exit_code_says_so(tmp_path: Path) -> None:
    """0; the JSON holds what was joined. Exported, it is replayed without the sidecar."""
    file = tmp_path / "t.json"
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar)
        using = doing(sidecar, tmp_path)
        assert await said(ReplayOptions("t"), using) == (0, "turn t: 1 call replayed: the same\n")
        code, text = await said(ReplayOptions("t", export=file), using)
    found = json.loads((await said(ReplayOptions("t", source=file, as_json=True), using))[1])

    assert (code, text) == (0, f"turn t: 1 dispatch, 1 attempt, {file.stat().st_size} bytes in {file}\n")
    assert (found["same"], found["joined"]["d"][0]["narration"]) == (True, "Two offers.")


async def test_a_difference_is_printed_and_the_exit_code_is_one(tmp_path: Path) -> None:
    """Somebody was told something else: the line names dispatch, call and where the texts part."""
    file = tmp_path / "t.json"
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar)
        using = doing(sidecar, tmp_path)
        await said(ReplayOptions("t", export=file), using)
        document = json.loads(file.read_text())
        document["told"]["d"][0]["answer"]["narration"] = "Two bargains."
        file.write_text(json.dumps(document))

        code, text = await said(ReplayOptions("t", source=file), using)

    assert code == 1
    assert text.splitlines()[0] == "turn t: 1 call replayed: DIFFERS"
    assert "d call-1: narration differs from character 4: was 'bargains.'; is now 'offers.'" in text


async def test_what_cannot_be_replayed_is_said_with_exit_code_two(tmp_path: Path) -> None:
    """An unknown turn, no sidecar, no file, something else in it, another turn."""
    junk = tmp_path / "junk.json"
    junk.write_text("{}")
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar)
        using = doing(sidecar, tmp_path)
        await said(ReplayOptions("t", export=tmp_path / "t.json"), using)
        answers_of = {
            "nothing is on record": await said(ReplayOptions("t-2"), using),
            "cannot be read: No such file": await said(ReplayOptions("t", source=tmp_path / "absent"), using),
            "no exported turn": await said(ReplayOptions("t", source=junk), using),
            "holds turn t, not t-2": await said(ReplayOptions("t-2", source=tmp_path / "t.json"), using),
            "cannot be written": await said(ReplayOptions("t", export=tmp_path / "no" / "where"), using),
        }
    answers_of["UNAVAILABLE"] = await said(ReplayOptions("t"), using)

    for why, (code, text) in answers_of.items():
        assert (code, text.startswith("cannot be replayed: "), why in text) == (2, True, True), text


async def test_definitions_that_are_not_there_are_named_with_digest_and_commit(tmp_path: Path) -> None:
    """The message says which, and how to get them; nothing is replayed with others."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar)
        shop = sidecar.definitions.current_card("shop")
        await said(ReplayOptions("t", export=tmp_path / "t.json"), doing(sidecar, tmp_path))

    code, text = await said(ReplayOptions("t", source=tmp_path / "t.json"), replaying(None, EXAMPLE))

    assert code == 2
    assert f"shop with digest {shop.digest} (commit {shop.commit})" in text
    assert "--definitions" in text


def test_the_options_reach_the_command_and_exclude_each_other(tmp_path: Path) -> None:
    """Offline needs no settings; both a source and an export are refused."""
    app, asked = typer.Typer(), list[tuple[Settings | None, Path | None, ReplayOptions]]()

    def settings_of(file: Path | None) -> Settings:
        raise CannotReplay("settings were read")

    def run(settings: Settings | None, definitions: Path | None, wish: ReplayOptions) -> int:
        asked.append((settings, definitions, wish))
        return 1

    add_replay(app, settings_of, run)
    offline = ["t", "--from", "a.json", "--definitions", "config", "--json"]

    assert CliRunner().invoke(app, offline).exit_code == 1
    assert asked == [(None, Path("config"), ReplayOptions("t", Path("a.json"), None, True))]
    assert CliRunner().invoke(app, ["t", "--from", "a.json", "--export", "b.json"]).exit_code == 2
    assert isinstance(CliRunner().invoke(app, ["t"]).exception, CannotReplay)
