"""What replicas publish through the store: the version that their binds use, and the turns that they have bound."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sidecar.core.identifiers import Digest, InstanceId


class PinnedTurnCount(msgspec.Struct, frozen=True):
    """The number of open turns that a replica has bound, reported together with its version.

    Attributes:
        turns: by definition, without zeros.
        lasting: the longest lifetime of a turn: the last report of a dead replica remains valid for this time.
    """

    turns: Mapping[Digest, int] = {}
    lasting: timedelta = timedelta(0)


NOTHING_PINNED: Final = PinnedTurnCount()


class Replica(msgspec.Struct, frozen=True):
    """A sidecar and the newest version that its binds use.

    Attributes:
        pinned: the number of open turns that it had bound to each definition at its last report.
    """

    instance: InstanceId
    version: int
    seen_at: datetime
    alive: bool
    pinned: Mapping[Digest, int] = {}
