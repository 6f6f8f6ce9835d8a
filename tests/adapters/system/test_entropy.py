"""Ids are drawn in hundreds; nobody may notice."""

import os

from sidecar.adapters.system import SystemIds


def test_a_forked_process_does_not_give_out_the_same_ids() -> None:
    """Both have drawn before they part."""
    ids = SystemIds()
    ids.new("child")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, ids.new("child").encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as told:
        assert told.read() != ids.new("child")
