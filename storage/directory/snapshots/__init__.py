"""Snapshots of a log directory, with all partitions at one moment, and log directories restored from them.

A snapshot is a directory with ``log/``, which has the content of the log directory, and ``snapshot.json``, which lists
its files with sizes and times (``manifest``). ``taking`` links and copies the files of a log, ``filling`` takes those
that a caller writes. All of them, and restored directories, are made complete or not at all (``building``).
"""
