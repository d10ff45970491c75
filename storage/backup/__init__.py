"""Backups: the state of a log directory at several moments, each piece of it stored once.

A backup is a folder, or a place on an object store, with ``objects/``, which has pieces of files by their checksums,
and ``cuts/``, which has a file for each moment that lists the files of the log directory and their pieces.
:mod:`.places` reads and writes its files, :mod:`.cuts` has the lists, :mod:`.taking` adds one, :mod:`.restoring` makes
a log directory from one, :mod:`.checking` reads all pieces back, :mod:`.keeping` deletes old ones, and
:mod:`.encryption` is for backups with a key.
"""
