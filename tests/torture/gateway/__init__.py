"""Suites that break the gateway: frames that no client sends, kills, power cuts."""
