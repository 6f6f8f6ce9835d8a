"""Growth, measured with real sidecars and a handful of steps: that everything is measured, not what it comes to."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scripts import growth
from scripts.benchmark.definitions import write_definitions
from scripts.benchmark.growth.copies import copies_of
from scripts.benchmark.growth.dispatches import LAG
from scripts.benchmark.growth.processes import Place
from scripts.benchmark.growth.records import opened_store, original
from scripts.benchmark.sidecar_server import SQLITE
from sidecar.core.executing.stored_record import StoredTurn

pytestmark = pytest.mark.system

FEW = ["--dispatches", "128", "--definitions", "10", "--turns", "1,20", "--facts", "600,1200"]


@pytest.fixture(autouse=True)
def all_cores_again() -> Iterator[None]:
    """The measurement keeps itself on one core."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


def test_everything_that_grows_is_measured_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A point for each step, with a value for each figure; and a picture of each curve."""
    code = growth.main([*FEW, "--json", "--draw", str(tmp_path)])

    out, shown = capsys.readouterr()
    curves: list[dict[str, Any]] = json.loads(out)["curves"]
    assert code == 0
    assert [(curve["name"], [point["at"] for point in curve["points"]][-2:]) for curve in curves] == [
        ("dispatches", [112, 128]),
        ("definitions", [10]),
        ("open-turns", [1, 20]),
        ("facts", [600, 1200]),
    ]
    for curve in curves:
        names = {figure["name"] for figure in curve["figures"]}
        assert all(point["values"].keys() == names for point in curve["points"])
        assert all(_as_measured(*value) for point in curve["points"] for value in point["values"].items())
        assert all((finding["value"] is None) is (len(curve["points"]) == 1) for finding in curve["findings"])
        assert (tmp_path / f"{curve['name']}.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "dispatches: 128 of 128" in shown


async def test_a_record_gives_back_the_copies_that_it_was_filled_with(tmp_path: Path) -> None:
    """Through the port of a sidecar: two copies share no id, and each is read as it was made, but for its owner."""
    write_definitions(tmp_path / "definitions")
    turn_id, path = await original(Place(tmp_path, tmp_path / "definitions", None, lambda _: None))
    async with opened_store(path.parent, SQLITE) as record:
        store, copies = record.store, await copies_of(record.journal, turn_id)
        first, second = copies.next(), copies.next()
        for copy in (first, second):
            for draft in copy.by(store.instance):
                await store.append([draft])

        read = [await store.turn(each.turn_id) for each in (first, second)]

    assert [_as_read(turn) for turn in read] == [_as_read(first.turn()), _as_read(second.turn())]
    assert not _ids(first.turn()) & _ids(second.turn())
    assert len(first.drafts) == copies.facts == 9


def _as_measured(figure: str, value: float) -> bool:
    """Whether a figure can be what it is called: lists may lack nothing, everything else has a size."""
    return value >= 0 if figure == LAG else value > 0


def _as_read(turn: StoredTurn | None) -> object:
    """Return all of a turn but who owns it, and links and fingerprints, which follow from ids."""
    assert turn is not None
    plain = msgspec.to_builtins(turn)
    for dispatch in plain["dispatches"]:
        del dispatch["owner"], dispatch["owner_alive"], dispatch["opened"]["fingerprint"]
    for child in plain["children"]:
        for event in child["events"]:
            del event["link"], event["previous_link"]
    return plain


def _ids(turn: StoredTurn) -> set[str]:
    children = {child.opened.child_id for child in turn.children} | {child.opened.call_id for child in turn.children}
    return {turn.turn_id, *children, *(each.opened.dispatch_id for each in turn.dispatches)}
