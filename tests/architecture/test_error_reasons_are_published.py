"""Every way a call can fail is a value of the proto enum `ErrorReason`, and the enum holds nothing else."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from subagents.errors.v1 import error_reason_pb2
from subagents_errors import CallFailure, InvalidRequest, SubagentsError, all_errors, error_of_reason

PREFIX = "ERROR_REASON_"
SHARED = frozenset({"INTERNAL"})
"""Reasons that mean the same for a failed RPC and for the outcome of one call."""
PUBLISHED: Mapping[str, int] = dict(error_reason_pb2.ErrorReason.items())


def violations(
    classes: Iterable[type[SubagentsError]], failures: Iterable[str], published: Mapping[str, int]
) -> Iterator[str]:
    """Yield each reason that is missing, doubled, or stands for nothing."""
    reasons = [cls.reason for cls in classes] + list(failures)
    yield from (
        f"{reason} stands for two things"
        for reason, count in Counter(reasons).items()
        if count > 1 + (reason in SHARED)
    )
    yield from (f"{reason} is not in ErrorReason" for reason in reasons if PREFIX + reason not in published)
    for name, number in published.items():
        if number and name.removeprefix(PREFIX) not in reasons:
            yield f"{name} stands for nothing"


def test_every_reason_is_published() -> None:
    """The exceptions and the failures of single calls, both ways."""
    assert list(violations(all_errors(), CallFailure, PUBLISHED)) == []


def test_every_reason_leads_back_to_its_class() -> None:
    """So that the SDK raises what the sidecar raised."""
    assert [cls for cls in all_errors() if error_of_reason(cls.reason) is not cls] == []


def test_a_reason_that_is_not_published_is_caught() -> None:
    """A class that nobody added to the proto."""
    published = {name: number for name, number in PUBLISHED.items() if name != "ERROR_REASON_TURN_ENDED"}
    assert list(violations(all_errors(), CallFailure, published)) == ["TURN_ENDED is not in ErrorReason"]


def test_a_published_reason_that_stands_for_nothing_is_caught() -> None:
    """A value left over in the proto."""
    published = {**PUBLISHED, "ERROR_REASON_LONG_GONE": 999}
    assert list(violations(all_errors(), CallFailure, published)) == ["ERROR_REASON_LONG_GONE stands for nothing"]


def test_a_class_that_refines_another_within_a_program_is_not_published() -> None:
    """Callers are told what it refines; with a reason of its own it would have to be published."""

    class OfThisTest(InvalidRequest):
        """Has the reason of its parent."""

    class WithReason(InvalidRequest):
        """Has its own."""

        reason = "OF_THIS_TEST"

    assert OfThisTest not in all_errors()
    assert WithReason in all_errors()
    del WithReason
    gc.collect()  # or the other tests would find it among the subclasses


def test_two_classes_with_one_reason_are_caught() -> None:
    """A caller could not tell them apart; also a class that forgets to set its own reason ends here."""
    classes = [*all_errors(), InvalidRequest]
    assert list(violations(classes, CallFailure, PUBLISHED)) == ["INVALID_REQUEST stands for two things"]
