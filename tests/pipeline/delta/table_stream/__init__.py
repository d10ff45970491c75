"""Tests of streams that begin in a table."""
