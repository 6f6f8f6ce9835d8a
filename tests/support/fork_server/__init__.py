"""Python processes that begin as a copy of a warm one, so that a test does not pay for what each of them imports.

A worker of pytest starts one server, at its first command of the form `python -m <module of this repository>`. The
server has imported what such modules import, and has done nothing else: no thread, no event loop, nothing of gRPC but
its import. For each further command it forks. The copy is given the arguments, the environment, the folder and the
three standard streams of the command, becomes a child of the worker, and runs the module as `python -m` would.

`plugin.py` puts `popen.WarmPopen` in the place of `subprocess.Popen`, on which `asyncio` builds, too. So a test starts
processes as always; what it gets is a real child with an id, a status and signals of its own. A process that starts
others (`asking.STARTERS`) has a server of its own, which is a copy, too.

What a copy could not honour is started as always: other programs, options of Python, variables that act when an
interpreter or a library starts, folders that hold other code under the same names. `refusals.py` decides it, and
what it does not know is refused. A test whose point is the start itself is marked `real_start`; with
`SIDECAR_TESTS_START=real` in the environment, nothing is forked.

Three things differ from a new interpreter: more modules are loaded, the seed of `hash` is that of the server, and
`/proc/<pid>/exe` apart, the memory is larger.
"""
