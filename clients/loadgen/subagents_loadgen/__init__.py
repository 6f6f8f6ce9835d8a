"""A load generator for the dispatch sidecar that knows nothing of it but the protos.

`python -m subagents_loadgen --help` explains itself; `docs/load-testing.md` says how to read what it prints.
"""
