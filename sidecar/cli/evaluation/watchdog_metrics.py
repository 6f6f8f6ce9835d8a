"""The metrics of `sidecar ramp-watchdog`, in the text format of Prometheus.

The watchdog is a separate program, so no metric of a sidecar can show that it is running. `metrics_server.py` serves
these metrics.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sidecar.core.evaluation.ramp_verdict import Verdict

START_TIME: Final = "sidecar.watchdog.start_time_seconds"
INTERVAL: Final = "sidecar.watchdog.interval_seconds"
LAST_ROUND: Final = "sidecar.watchdog.last_round_time_seconds"
ROUNDS: Final = "sidecar.watchdog.rounds_total"
VERDICT: Final = "sidecar.watchdog.ramp_verdict"
RAMP_DOWNS: Final = "sidecar.watchdog.ramp_downs_total"
"""Names with dots, like the sidecar's own metrics; the text format replaces them by underscores."""

JUDGED: Final = "judged"
FAILED: Final = "failed"
"""Results of a round."""
DONE: Final = ("ramped_down", "would_ramp_down", "refused")
"""What was done about a breach."""

Series = Iterable[tuple[Mapping[str, str], float]]
"""Labels and value of each series of a metric."""


@dataclass(slots=True)
class WatchdogMetrics:
    """The counts and verdicts of the watchdog. Its loop writes them, and the threads of the server read them.

    There is no lock: a reader may see a round in part, which its next read corrects.

    Attributes:
        every: seconds between two rounds.
        now: returns the seconds since 1970.
        last_round: when all ramps were last judged; None: never. A failed round does not change it.
    """

    every: float = 0.0
    now: Callable[[], float] = time.time
    last_round: float | None = None
    rounds: dict[str, int] = field(default_factory=lambda: dict.fromkeys((JUDGED, FAILED), 0))
    ramp_downs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DONE, 0))
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin now."""
        self.started = self.now()

    def judged(self, verdicts: Mapping[str, Verdict], done: Iterable[str]) -> None:
        """Note a round.

        Args:
            verdicts: on each ramp, by slot; replaces those of the round before.
            done: what was done about breaches: words of `DONE`.
        """
        self.verdicts = verdicts
        for each in done:
            self.ramp_downs[each] += 1
        self.rounds[JUDGED] += 1
        # Last: the alert about a silent watchdog reads it, so it must not be newer than the rest.
        self.last_round = self.now()

    def failed(self) -> None:
        """Note a round without evidence. The last verdicts stay."""
        self.rounds[FAILED] += 1

    def text(self) -> str:
        """Return the exposition."""
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _family(START_TIME, "When the watchdog started, in seconds since 1970.", [({}, self.started)])
        yield from _family(INTERVAL, "Seconds between two rounds.", [({}, self.every)])
        # Read once: the loop may replace both while this thread writes the text.
        last, verdicts = self.last_round, self.verdicts
        last_rounds: Series = [] if last is None else [({}, last)]
        yield from _family(LAST_ROUND, "When all ramps were last judged, in seconds since 1970.", last_rounds)
        results = [({"result": name}, count) for name, count in self.rounds.items()]
        yield from _family(ROUNDS, "Rounds of the watchdog.", results)
        # A series for each possible verdict, so that the former one falls to 0 when the verdict changes.
        current = [
            ({"slot": slot, "verdict": each}, float(each is verdict))
            for slot, verdict in verdicts.items()
            for each in Verdict
        ]
        yield from _family(VERDICT, "1: the last verdict on the ramp of the slot.", current)
        downs = [({"result": name}, count) for name, count in self.ramp_downs.items()]
        yield from _family(RAMP_DOWNS, "Breaches, by what was done about them.", downs)


def _family(name: str, help_text: str, series: Series) -> Iterator[str]:
    """Yield the lines of one metric with all its series."""
    shown = name.replace(".", "_")
    kind = "counter" if name.endswith("_total") else "gauge"
    yield f"# HELP {shown} {help_text}\n# TYPE {shown} {kind}\n"
    for labels, value in series:
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{shown}{{{inner}}} {value}\n" if inner else f"{shown} {value}\n"


def _escaped(text: str) -> str:
    # The backslash first, because the other replacements add backslashes.
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
