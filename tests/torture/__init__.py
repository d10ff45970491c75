"""Random kills of a running query, and what is in the topic afterwards: ``python -m tests.torture --help``."""
