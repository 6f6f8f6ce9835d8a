"""A load generator for the dispatch sidecar that depends only on its protos.

`python -m subagents_loadgen --help` lists the options; `docs/load-testing.md` explains the report.
"""
