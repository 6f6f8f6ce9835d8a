"""A provider of one's own, as a vertical may write it: answers what it is told to, and hangs for ever if told to."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from openfeature.event import ProviderEventDetails
from openfeature.exception import FlagNotFoundError
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider import AbstractProvider, Metadata
from typing_extensions import override

Details = FlagResolutionDetails[Any]


class OwnProvider(AbstractProvider):
    """Static values.

    Attributes:
        made: every provider that was made, in order.
        hangs: what a question waits for; None: it does not wait.
        during: called with each question.
    """

    made: ClassVar[list["OwnProvider"]] = []
    hangs: ClassVar[threading.Event | None] = None

    def __init__(self, values: Mapping[str, Any], key: str = "") -> None:
        super().__init__()
        self.values = values
        self.key = key
        self.ended = False
        self.during: Callable[[], None] = lambda: None
        self.made.append(self)

    @override
    def get_metadata(self) -> Metadata:
        return Metadata(name="own")

    @override
    def shutdown(self) -> None:
        self.ended = True

    def says_stale(self) -> None:
        """Tell that flags are old."""
        self.emit_provider_stale(ProviderEventDetails())

    @override
    def resolve_boolean_details(self, flag_key: str, default_value: bool, evaluation_context: Any = None) -> Details:
        return self._resolved(flag_key)

    resolve_string_details = resolve_boolean_details  # type: ignore[assignment]  # there is one set of values
    resolve_integer_details = resolve_boolean_details  # type: ignore[assignment]  # there is one set of values
    resolve_float_details = resolve_boolean_details  # type: ignore[assignment]  # there is one set of values
    resolve_object_details = resolve_boolean_details  # type: ignore[assignment]  # there is one set of values

    def _resolved(self, name: str) -> Details:
        self.during()
        if self.hangs is not None:
            self.hangs.wait()
        if name not in self.values:
            raise FlagNotFoundError(name)
        return FlagResolutionDetails(self.values[name], reason=Reason.STATIC)
