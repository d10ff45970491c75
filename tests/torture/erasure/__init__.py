"""Erasures: random ones of all kinds of logs, and processes that are killed while they erase."""
