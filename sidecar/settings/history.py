"""The `[history]` section."""

from datetime import timedelta
from typing import Final

from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration

NOTHING: Final = timedelta(0)
MIB: Final = 1024 * 1024


class HistorySettings(Section):
    """How conversations are kept and compacted; the thresholds have no default number, your traffic has to give it."""

    compact_above_tokens: int | None = setting(
        None,
        ge=1,
        description="An episode of more estimated tokens is due for compaction; unset: tokens do not matter.",
    )
    compact_above_turns: int | None = setting(
        None, ge=1, description="An episode with more turns after its summary is due; unset: turns do not matter."
    )
    recent_turns: int = setting(5, ge=1, le=1000, description="Newest turns, which no summary may stand in for.")
    own_turns: int = setting(
        20, ge=1, le=1000, description="Most earlier answers of its own that a sub-agent may read."
    )
    episode_turns: int = setting(500, ge=1, le=1000, description="Most turns of an episode that are read at once.")
    answer_bytes: int = setting(
        2 * MIB, ge=1024, description="Room for the turns of one answer; older ones are left out. Less than a message."
    )
    queue: int = setting(
        1000, ge=1, description="Most ended turns that wait to be kept; more are kept later, from the record."
    )
    timeout: Duration = setting(
        timedelta(seconds=2), gt=NOTHING, description="Longest wait for the episode memory, by reads and in the queue."
    )
    look_back: Duration = setting(
        timedelta(hours=24),
        gt=NOTHING,
        le=timedelta(hours=24),
        description="How far back, at the start, ended turns on record are looked at for what is not kept yet.",
    )
    look_back_turns: int = setting(2000, ge=0, description="Most turns that are looked at then; the newest.")
    size_fresh_for: Duration = setting(
        timedelta(seconds=10),
        gt=NOTHING,
        description="How long a bind believes the size of an episode that it has seen; another replica may add to it.",
    )

    def _check(self) -> None:
        if self.compact_above_turns is not None and self.compact_above_turns < self.recent_turns:
            raise ValueError("compact_above_turns must be at least recent_turns, which are never compacted")
        if self.episode_turns <= max(self.recent_turns, self.compact_above_turns or 0):
            raise ValueError(
                "episode_turns must be more than recent_turns and compact_above_turns, to reach what is due"
            )
