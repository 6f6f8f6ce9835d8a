"""Converts rows to values of rollouts and back."""

from collections.abc import Sequence
from typing import Any, TypeVar

from sidecar.adapters.postgresql.texts import escape_nul, unescape_nul
from sidecar.core.decoding import JsonDecoder
from sidecar.core.identifiers import Slot
from sidecar.operations.rollout.store.encoding import audit_body, text_of
from sidecar.operations.rollout.store.ports import AuditRow

Kind = TypeVar("Kind")


def body(value: Any) -> str:
    """Return the value of a column `body`."""
    return escape_nul(text_of(value))


def kept(decoder: JsonDecoder[Kind], text: str | None) -> Kind | None:
    """Return the value of a column `body`; None: there is no row."""
    return None if text is None else decoder.decode(unescape_nul(text))


def all_kept(decoder: JsonDecoder[Kind], rows: Sequence[Any]) -> list[Kind]:
    """Return the values of rows that have a `body` only."""
    return [decoder.decode(unescape_nul(row[0])) for row in rows]


def audit_row(row: Any) -> AuditRow:
    """Return an audit row."""
    content = audit_body(row["kind"], unescape_nul(row["body"]))
    return AuditRow(row["number"], Slot(row["slot"]), content, row["effective_at"], exported=row["exported"])
