"""Every exception of the tree has exactly one gRPC status, by its most specific base in one table."""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

from grpc import StatusCode

from subagents_errors import InvalidRequest, MalformedMessage, SubagentsError, TurnEnded, all_errors


def table() -> Mapping[type[SubagentsError], StatusCode]:
    """Return `STATUS_OF`, read late so that the other tests of this file run without it."""
    found: Mapping[type[SubagentsError], StatusCode] = import_module("sidecar.rpc.errors").STATUS_OF
    return found


def violations(classes: Iterable[type], status_of: Mapping[Any, StatusCode]) -> Iterator[str]:
    """Yield each class without a status or with two, and each row that is out of place."""
    for cls in classes:
        rows = [row for row in status_of if issubclass(cls, row)]
        nearest = [row for row in rows if not any(other is not row and issubclass(other, row) for other in rows)]
        if len(nearest) != 1:
            named = " and ".join(row.__name__ for row in nearest) or "no row"
            yield f"{cls.__name__} has {named} in STATUS_OF"
    for row, status in status_of.items():
        if row is SubagentsError:
            yield "the root has a row, so that a forgotten class would go unseen"
        if status in {StatusCode.OK, StatusCode.UNKNOWN}:
            yield f"{row.__name__} answers {status.name}, which tells the caller nothing"


def test_every_error_has_one_status() -> None:
    """The whole tree against the table."""
    assert list(violations(all_errors(), table())) == []


def test_a_class_without_a_row_is_caught() -> None:
    """A branch of the tree that nobody mapped."""
    assert list(violations([TurnEnded], {InvalidRequest: StatusCode.INVALID_ARGUMENT})) == [
        "TurnEnded has no row in STATUS_OF"
    ]


def test_a_class_with_two_rows_is_caught() -> None:
    """Two bases of which neither is nearer. Not of our tree, because a class once made would stay in it."""

    class One(Exception): ...

    class Other(Exception): ...

    class Both(One, Other): ...

    rows = {One: StatusCode.NOT_FOUND, Other: StatusCode.ABORTED}
    assert list(violations([Both], rows)) == ["Both has One and Other in STATUS_OF"]


def test_a_nearer_row_wins() -> None:
    """A row for a leaf beside one for its base is no contradiction."""
    rows = {InvalidRequest: StatusCode.INVALID_ARGUMENT, MalformedMessage: StatusCode.INTERNAL}
    assert list(violations([InvalidRequest, MalformedMessage], rows)) == []


def test_a_row_that_hides_forgotten_classes_is_caught() -> None:
    """The root, and a status that says nothing."""
    assert len(list(violations([], {SubagentsError: StatusCode.UNKNOWN}))) == 2
