"""Rules of the code base as tests: one module a rule, each with an offender that it catches."""
