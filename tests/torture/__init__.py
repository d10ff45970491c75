"""Suites that torture the log, each until its count or its minutes are over: ``python -m tests.torture --help``."""
