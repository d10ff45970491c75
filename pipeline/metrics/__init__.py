"""Figures for Prometheus, as the driver knows them: of running queries, and of a log directory.

The tasks of a read report nothing here.
"""
