"""What replicas publish through the store: the version that their binds use, and the turns that they have bound."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sidecar.core.identifiers import Digest, InstanceId


class PinnedTurnCount(msgspec.Struct, frozen=True):
    """The open turns that a replica has bound, as it shows them beside its version.

    Attributes:
        turns: how many hold a definition; without those that none holds.
        lasting: the longest life of a turn: for so long it counts what was shown last by a replica that died.
    """

    turns: Mapping[Digest, int] = {}
    lasting: timedelta = timedelta(0)


NOTHING_PINNED: Final = PinnedTurnCount()


class Replica(msgspec.Struct, frozen=True):
    """A sidecar and the newest version that its binds show.

    Attributes:
        pinned: how many open turns it had bound to each definition, when it said so last.
    """

    instance: InstanceId
    version: int
    seen_at: datetime
    alive: bool
    pinned: Mapping[Digest, int] = {}
