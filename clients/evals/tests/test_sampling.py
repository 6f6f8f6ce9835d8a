"""Turns from production: chosen by seed out of a real record, redacted, labelled in a file, added to the set."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from clients.langchain.tests.support.scripted_model import calling, composes, says
from clients.langchain.tests.support.talking import Talk, talking
from subagents_client import SidecarClient
from subagents_evals.command import NOT_MEASURED, main
from subagents_evals.inputs.cases import Kind, read_golden_set
from subagents_evals.inputs.sampling import Redactor, Sampled, add_labelled, sampled, write_sampled
from subagents_evals.inputs.strict_yaml import UnusableFile
from tests.support.requirement import requirement

SUITE = "version: 1\nsub_agents:\n  shop: {answer: An offer.}\n  support: {answer: On its way.}\n"
SET = "version: 1\ncases:\n  - {id: first, message: Hello, calls: []}\n"
MAIL = "My mail is ada@example.com, call +46 70 123 45 67, and user-1 is my name. Ask Ingrid Berg."


@asynccontextmanager
async def production() -> AsyncIterator[Talk]:
    """A sidecar in whose record a conversation is: shop, small talk, support."""
    script = [calling("ask_shop"), says("Coffee."), says("Hello!"), calling("ask_support"), composes]
    async with talking(*script, summaries=[says("Coffee.")]) as talk:
        await talk.say(MAIL)
        await talk.say("Hello!")
        await talk.say("Where is it?")
        yield talk


async def taken(client: SidecarClient, seed: str, turns: int = 10) -> list[Sampled]:
    """Sample."""
    return list(await sampled(client, seed, turns, "en", Redactor(["Ingrid Berg"])))


@requirement("PC1-OBS-1", "PC2-OBS-1")
async def test_turns_of_the_record_are_chosen_by_seed_with_what_was_said_before() -> None:
    """Small talk, too; the same seed chooses the same turns in the same order."""
    async with production() as talk:
        all_of_them = await taken(talk.client, "one")
        again = await taken(talk.client, "one", 2)
        orders = {tuple(one.message for one in await taken(talk.client, str(seed))) for seed in range(12)}

    by_routing = {one.routed: one for one in all_of_them}
    assert set(by_routing) == {("shop",), (), ("support",)}
    earlier = by_routing["support",].history
    assert [(past.assistant, past.called) for past in earlier] == [("Coffee.", ("shop",)), ("Hello!", ())]
    assert again == all_of_them[:2]
    assert len(orders) > 1


async def test_what_identifies_people_is_removed_from_messages_and_history() -> None:
    """Mail, telephone, the user's own id, and the operator's own words; in every turn that shows them."""
    async with production() as talk:
        text = str(await taken(talk.client, "one"))

    assert not any(one in text for one in ("ada@example.com", "123 45", "user-1", "Ingrid"))
    assert all(one in text for one in ("<email>", "<number>", "<name>"))


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("IBAN SE35 5000 0000 0549 1000 0003.", "IBAN <iban>."),
        ("Card 4111 1111 1111 1111!", "Card <number>!"),
        ("See https://example.com/?token=1 now", "See <link> now"),
        ("rt1.abc.def and eyJhbGciOi.eyJzdWIi", "<token> and <token>"),
        ("Order A-1042 for 250 points on 24 December.", "Order A-1042 for 250 points on 24 December."),
    ],
)
def test_patterns_remove_what_identifies_and_leave_what_routing_needs(text: str, redacted: str) -> None:
    """Short numbers and identifiers of orders stay."""
    assert Redactor().text(text, "user-1") == redacted


def labelled(file: Path, *turns: Sampled) -> None:
    """Write a file as `sample` does, with every label filled in as routed."""
    write_sampled("one", turns, file)
    content = yaml.safe_load(file.read_text("utf-8"))
    for each in content["sampled"]:
        each["calls"] = ["support"] if each["id"] == "wrong" else list(each["routed"])
    file.write_text(yaml.safe_dump(content), "utf-8")


def golden(folder: Path) -> Path:
    """Write a set."""
    folder.mkdir()
    (folder / "suite.yaml").write_text(SUITE, "utf-8")
    (folder / "cases.yaml").write_text(SET, "utf-8")
    return folder


def turn(name: str, *routed: str) -> Sampled:
    """Return a sampled turn."""
    return Sampled(id=name, message=f"say {name}", routed=routed, language="en")


@requirement("PC1-OBS-1", "PC2-OBS-1")
def test_labelled_turns_join_the_set_and_say_how_production_routed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three turns, of which production had routed two as labelled."""
    sets = golden(tmp_path / "evals")
    labelled(tmp_path / "turns.yaml", turn("right", "shop"), turn("talk"), turn("wrong", "shop"))

    code = main(["add", str(tmp_path / "turns.yaml"), str(tmp_path)])

    cases = {case.id: case for case in read_golden_set(sets).cases}
    assert (code, set(cases)) == (0, {"first", "right", "talk", "wrong"})
    assert (cases["wrong"].calls, cases["wrong"].kind) == (("support",), Kind.SAMPLED)
    assert "3 cases added; production had routed 66.7 % of them as labelled" in capsys.readouterr().out


def test_turns_without_a_label_are_refused_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is added, not even those that have one."""
    sets = golden(tmp_path / "evals")
    write_sampled("one", [turn("new", "shop")], tmp_path / "turns.yaml")

    code = main(["add", str(tmp_path / "turns.yaml"), str(tmp_path)])

    assert code == NOT_MEASURED
    assert "turns.yaml:7: new: `calls` is not labelled" in capsys.readouterr().err
    assert len(read_golden_set(sets).cases) == 1


def test_the_same_turns_are_not_added_twice(tmp_path: Path) -> None:
    """Nor is a turn for a sub-agent that the suite does not know."""
    sets = golden(tmp_path / "evals")
    labelled(tmp_path / "turns.yaml", turn("one", "shop"))
    labelled(tmp_path / "other.yaml", turn("two", "travel"))
    add_labelled(tmp_path / "turns.yaml", sets)

    with pytest.raises(UnusableFile, match="one: in the set already, at"):
        add_labelled(tmp_path / "turns.yaml", sets)
    with pytest.raises(UnusableFile, match="two: no sub-agent 'travel'; one of shop, support"):
        add_labelled(tmp_path / "other.yaml", sets)


def test_a_file_to_label_is_its_owners_alone_and_never_overwritten(tmp_path: Path) -> None:
    """It holds what users said."""
    file = tmp_path / "turns.yaml"
    write_sampled("one", [turn("one")], file)

    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(UnusableFile, match="name a new file"):
        write_sampled("one", [turn("two")], file)
