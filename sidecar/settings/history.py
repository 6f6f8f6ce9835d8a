"""The `[history]` section: which earlier turns a model gets, and when a conversation is summarised."""

from datetime import timedelta
from typing import Final

from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration

NOTHING: Final = timedelta(0)
MIB: Final = 1024 * 1024


class HistorySettings(Section):
    """Storage and compaction of conversations. The thresholds have no defaults; they depend on your traffic."""

    compact_above_tokens: int | None = setting(
        None,
        ge=1,
        description="Estimated tokens above which an episode is due for compaction. Unset: no such threshold.",
    )
    compact_above_turns: int | None = setting(
        None,
        ge=1,
        description="Turns after the summary above which an episode is due for compaction. Unset: no such threshold.",
    )
    recent_turns: int = setting(5, ge=1, le=1000, description="Number of newest turns that are never summarised.")
    own_turns: int = setting(
        20, ge=1, le=1000, description="Maximum number of its own earlier turns that a sub-agent may read."
    )
    episode_turns: int = setting(500, ge=1, le=1000, description="Maximum number of turns of an episode per read.")
    answer_bytes: int = setting(
        2 * MIB,
        ge=1024,
        description="Maximum size of the turns in one response; older turns are omitted. Must be smaller than a "
        "message.",
    )
    queue: int = setting(
        1000,
        ge=1,
        description="Maximum number of ended turns that wait for the episode memory; further ones are added "
        "later from the record.",
    )
    timeout: Duration = setting(
        timedelta(seconds=2),
        gt=NOTHING,
        description="Maximum wait for the episode memory, per read and per queued turn.",
    )
    catch_up_window: Duration = setting(
        timedelta(hours=24),
        gt=NOTHING,
        le=timedelta(hours=24),
        description="At the start, ended turns of this period are checked for turns that the episode memory lacks.",
    )
    catch_up_max_turns: int = setting(
        2000, ge=0, description="Maximum number of turns that are checked at the start, newest first."
    )
    size_cache_ttl: Duration = setting(
        timedelta(seconds=10),
        gt=NOTHING,
        description="Time that the known size of an episode is reused. Another replica may add turns meanwhile.",
    )

    def _check(self) -> None:
        # Otherwise an episode would always be due for compaction: a summary may not cover the recent turns, which alone
        # exceed the threshold.
        if self.compact_above_turns is not None and self.compact_above_turns < self.recent_turns:
            raise ValueError("compact_above_turns must be at least recent_turns, which are never compacted")
        # A read returns only the newest turns. The turns that the next summary must cover have to be among them.
        if self.episode_turns <= max(self.recent_turns, self.compact_above_turns or 0):
            raise ValueError(
                "episode_turns must be more than recent_turns and compact_above_turns, to reach what is due"
            )
