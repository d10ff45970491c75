"""Figures for Prometheus: of running queries, and of a log directory."""
