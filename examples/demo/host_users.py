"""Users of the runner hosts: if root runs the demo, each has one of its own, and so no access to the sidecar."""

import grp
import os
import pwd
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

FIRST: Final = 61_001
"""Systems give no ids from here on to people or services."""
OF_THE_GROUP: Final = 0o750
OF_ITS_HOSTS: Final = 0o1770
THROUGH: Final = 0o711
"""Other users may pass through the folder of the demo, and see nothing in it."""


@dataclass(frozen=True, slots=True)
class HostUsers:
    """Which user each host runs as.

    Attributes:
        of: user and group by slot, the same number; empty: every host runs as the user of the demo.
        remark: a line for the screen.
    """

    of: Mapping[str, int] = field(default_factory=dict)
    remark: str = "The sub-agents run as the same user as the sidecar: only root can start processes of other users."

    def prepare(self, folder: Path) -> None:
        """Make the directory of each host's group before the hosts start; the sidecar would make it later."""
        if self.of:
            os.umask(stat.S_IRWXG | stat.S_IRWXO)
            folder.chmod(THROUGH)
        for slot, user in self.of.items():
            for made, mode in ((folder / slot, OF_THE_GROUP), (folder / slot / "hosts", OF_ITS_HOSTS)):
                made.mkdir(exist_ok=True)
                os.chown(made, -1, user)
                made.chmod(mode)


def choose_users(folder: Path, slots: Sequence[str]) -> HostUsers:
    """Return a user for each host, if this process may start processes of others, and they can enter the folder."""
    if os.geteuid() != 0:
        return HostUsers()
    for parent in folder.parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            return HostUsers({}, f"The sub-agents run as root, like the sidecar: other users cannot enter {parent}.")
    unused = (number for number in count(FIRST) if not _has(pwd.getpwuid, number) and not _has(grp.getgrgid, number))
    of = {slot: next(unused) for slot in slots}
    return HostUsers(
        of, f"Each sub-agent runs as a user of its own ({', '.join(map(str, of.values()))}), the sidecar as root."
    )


def _has(look_up: Callable[[int], object], number: int) -> bool:
    try:
        look_up(number)
    except KeyError:
        return False
    return True
