"""Applies the policy to the reports of one dispatch: rate limit per child, batches across siblings.

Times are monotonic seconds. The owner of a relay asks `next_due` when to call `flush`.
"""

from collections.abc import Mapping, Sequence

import msgspec

from sidecar.core.dispatching.frames import StatusUpdate
from sidecar.core.identifiers import CallId, Slot
from sidecar.core.status_events.policy import EventRule, Handling, Vocabulary, bounded_attributes


class TokenBucket(msgspec.Struct):
    """Allows `burst` reports at once and `per_second` in the long run."""

    per_second: float
    burst: float
    # Negative until the first report, which fills the bucket: only then is the time known.
    level: float = -1.0
    filled_at: float = 0.0

    def take(self, now: float) -> bool:
        """Take one token, if there is one."""
        if self.level < 0:
            self.level, self.filled_at = self.burst, now
        # `max`: a clock that goes back must not take tokens away.
        self.level = min(self.burst, self.level + max(0.0, now - self.filled_at) * self.per_second)
        self.filled_at = now
        if self.level < 1:
            return False
        self.level -= 1
        return True


class _Batch(msgspec.Struct):
    """Reports of one type, collected until `due`."""

    due: float
    reports: list[tuple[int, CallId, Slot]] = msgspec.field(default_factory=list)
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)


class ChildReporter(msgspec.Struct, frozen=True):
    """The source of a report: a call of the dispatch and its place in it."""

    index: int
    call_id: CallId
    slot: Slot


class StatusRelay:
    """The policy applied to one dispatch."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Begin with empty batches and full buckets."""
        self._vocabulary, self._rules = vocabulary, vocabulary.rules
        self._buckets: dict[int, TokenBucket] = {}
        self._batches: dict[str, _Batch] = {}

    def offer(
        self, reporter: ChildReporter, event_type: str, attributes: Mapping[str, str], now: float
    ) -> tuple[str, StatusUpdate | None]:
        """Process one report.

        Returns:
            (decision, update to send now). The decision is a `Handling`, `unknown` or `rate_limited`.
        """
        rule = self._rules.get(event_type)
        # Before the rate limit: unknown types are dropped anyway, and must not use up the tokens of known ones.
        if rule is None:
            return "unknown", None
        # Per call: a sub-agent that reports too often must not silence its siblings.
        bucket = self._buckets.get(reporter.index)
        if bucket is None:
            bucket = self._buckets[reporter.index] = TokenBucket(self._vocabulary.per_second, self._vocabulary.burst)
        # Suppressed types also use tokens: otherwise a child could send an unlimited number of reports that cost work
        # here.
        if not bucket.take(now):
            return "rate_limited", None
        if rule.handling is Handling.SUPPRESS:
            return rule.handling, None
        bounded = bounded_attributes(attributes) if attributes else {}
        if rule.handling is Handling.BATCH:
            self._gather(reporter, event_type, rule, bounded, now)
            return rule.handling, None
        passed_on = rule.becomes if rule.handling is Handling.TRANSFORM else event_type
        return rule.handling, StatusUpdate(reporter.call_id, passed_on, (reporter.slot,), 1, bounded)

    def next_due(self) -> float | None:
        """Return when the first batch is due; None if there is none."""
        return min((batch.due for batch in self._batches.values()), default=None)

    def flush(self, now: float) -> Sequence[StatusUpdate]:
        """Return the batches that are due, combined across siblings, the earliest first."""
        # The name decides between batches with the same due time, so that the order does not depend on the arrival of
        # reports.
        ripe = sorted([(batch.due, name) for name, batch in self._batches.items() if batch.due <= now])
        return [_collapsed(name, self._batches.pop(name)) for _, name in ripe]

    def _gather(
        self, reporter: ChildReporter, event_type: str, rule: EventRule, attributes: Mapping[str, str], now: float
    ) -> None:
        # The first report determines when the batch is due; later reports do not extend it, so a steady stream cannot
        # delay it for ever.
        batch = self._batches.setdefault(event_type, _Batch(now + rule.window.total_seconds()))
        batch.reports.append((reporter.index, reporter.call_id, reporter.slot))
        # The newest attributes count: a batch describes the present state and not its history.
        batch.attributes = attributes


def _collapsed(event_type: str, batch: _Batch) -> StatusUpdate:
    """Return one update for all reports: each sub-agent once, in emission order (PC2-D-20)."""
    # By the place of the call, not by arrival: the update then does not depend on which sibling was faster.
    in_order = sorted(batch.reports, key=lambda report: report[0])
    slots = tuple(dict.fromkeys(slot for _, _, slot in in_order))
    calls = list(dict.fromkeys(call_id for _, call_id, _ in in_order))
    # An update that combines several calls cannot name one of them.
    shared = calls[0] if len(calls) == 1 else None
    return StatusUpdate(shared, event_type, slots, len(batch.reports), batch.attributes)
