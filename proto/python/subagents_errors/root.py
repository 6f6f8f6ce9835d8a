"""The root of the tree, and the attributes of every exception in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One problem with one field of a request.

    Attributes:
        field: path of the field as the proto names it, e.g. `calls[1].arguments_json`.
        description: what is wrong and what would be right; safe to show to the caller.
    """

    field: str
    description: str


class SubagentsError(Exception):
    """A call failed.

    Args:
        message: one sentence for the caller: what, where, what to do. Never holds the text of another exception.
        metadata: short facts a program can act on; become `ErrorInfo.metadata`.
        fields: what is wrong with which field; become `google.rpc.BadRequest`.
        retry_after: how long to wait before trying again; becomes `google.rpc.RetryInfo`. None: no advice.
    """

    reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        fields: Sequence[FieldProblem] = (),
        retry_after: timedelta | None = None,
    ) -> None:
        """Keep the parts; `str(error)` is the message."""
        super().__init__(message)
        self.message = message
        self.metadata: Mapping[str, str] = dict(metadata or {})
        self.fields: tuple[FieldProblem, ...] = tuple(fields)
        self.retry_after = retry_after
