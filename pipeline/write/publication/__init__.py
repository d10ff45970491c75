"""Makes the records of tasks visible: a port with two implementations, and the choice between them.

``port`` is the interface, ``log_directory`` is for a directory, and ``bucket`` for an object store.
"""
