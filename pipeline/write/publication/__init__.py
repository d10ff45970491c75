"""Makes the records of tasks visible: a port with two implementations, and the choice between them.

``port`` is the interface, ``transactions`` is for a log directory, and ``bucket`` for an object store.
"""
