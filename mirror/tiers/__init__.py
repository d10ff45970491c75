"""Tiers of a running cluster: publishes topics to them, by what brokers keep in ``__remote_log_metadata``."""
