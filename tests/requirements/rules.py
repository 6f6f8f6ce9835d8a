"""What must be true between catalogue, tests and written reasons. Each rule returns its findings, one line each."""

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from tests.requirements.claims import Claim

MOST_IDS: Final = 4
PUBLIC_PLACES: Final = (
    "tests/rpc/*",
    "tests/system/*",
    "tests/cli/*",
    "clients/*/tests/*",
    "plugins/*/tests/*",
)
"""Tests there go through a public RPC or the command line."""
NEEDS_PUBLIC_PLACE: Final = frozenset({"FR", "AC"})
LATER: Final = "later: "
REASONS_BEGIN: Final = (LATER, "needs eval sets: ", "document row: ", "owned elsewhere: ", "not built: ")


def worthless(claims: Iterable[Claim]) -> list[str]:
    """Claims that prove nothing wherever they stand."""
    return [f"{claim.place} {problem}" for claim in claims for problem in claim.problems]


def unknown(claims: Iterable[Claim], catalogue: Collection[str]) -> list[str]:
    """Ids on tests that no row has."""
    return [f"{claim.place}: no row {one}" for claim in claims for one in claim.ids if one not in catalogue]


def unsettled(claims: Iterable[Claim], catalogue: Iterable[str], unproven: Collection[str]) -> list[str]:
    """Rows that have neither a test nor a reason, in the order of the catalogue."""
    claimed = {one for claim in claims for one in claim.ids}
    return [one for one in catalogue if one not in claimed and one not in unproven]


def settled_twice(claims: Iterable[Claim], unproven: Mapping[str, str]) -> list[str]:
    """Rows that have a test and still a reason for having none."""
    return [
        f"{claim.place} proves {one}; take it out of unproven.py ({unproven[one]})"
        for claim in claims
        for one in claim.ids
        if one in unproven
    ]


def overfull(claims: Iterable[Claim]) -> list[str]:
    """Tests that name more rows than they can prove."""
    return [f"{claim.place} names {len(claim.ids)}" for claim in claims if len(claim.ids) > MOST_IDS]


def misplaced(claims: Iterable[Claim]) -> list[str]:
    """FR and AC ids on tests that do not go through a public RPC or the command line."""
    return [
        f"{claim.place}: {one}"
        for claim in claims
        if not any(fnmatchcase(claim.path, place) for place in PUBLIC_PLACES)
        for one in claim.ids
        if _kind(one) in NEEDS_PUBLIC_PLACE
    ]


def bad_reasons(unproven: Mapping[str, str], catalogue: Collection[str], open_issues: Collection[str]) -> list[str]:
    """Reasons of no known form, for rows that do not exist, or waiting for an issue that is not open."""
    findings = [f"unproven.py: no row {one}" for one in unproven if one not in catalogue]
    for one, reason in unproven.items():
        begin = next((begin for begin in REASONS_BEGIN if reason.startswith(begin)), "")
        if not begin or not reason.removeprefix(begin).strip():
            findings.append(f"{one}: {reason!r} is no reason; begin with one of {', '.join(REASONS_BEGIN)}")
        elif begin == LATER and reason.removeprefix(LATER) not in open_issues:
            findings.append(f"{one}: {reason!r} waits for an issue that is not open")
    return findings


def _kind(id_: str) -> str:
    return id_.split("-")[1]
