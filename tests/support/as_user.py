"""`python -m tests.support.as_user <uid>:<gid>:<gid>,... <umask> -m <module> ...`: runs a module as another user.

`subprocess.Popen(user=...)` changes the user before it starts the program, which fails where other users may not read
the interpreter, as in `/root`. Here everything is imported first. Only root may.
"""

import ctypes
import os
import runpy
import sys

from tests.support.fork_server import server

SET_DUMPABLE = 4
"""`PR_SET_DUMPABLE` of prctl(2). The kernel closes the memory of a process that changes its user; starting a program
as that user would not."""


def become(ids: str, umask: str) -> None:
    """Become another user for good; all rights of root are gone."""
    user, group, others = ids.split(":")
    os.setgroups([int(each) for each in others.split(",") if each])
    os.setresgid(int(group), int(group), int(group))
    os.setresuid(int(user), int(user), int(user))
    os.umask(int(umask, 8))
    ctypes.CDLL(None).prctl(SET_DUMPABLE, 1, 0, 0, 0)


def main() -> None:
    """Import, change the user, and run."""
    ids, umask, _, module, *arguments = sys.argv[1:]
    if "sidecar.rpc.listeners" not in sys.modules:  # no copy of a warm process
        server.warm_up()
    become(ids, umask)
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
