"""The exceptions the core raises: those of the shared tree, so that there is only one."""

from subagents_errors import *  # noqa: F403  the tree is shared by both ends of the wire
