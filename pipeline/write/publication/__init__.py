"""How what tasks wrote becomes visible: a port with two ends, and the choice between them.

``port`` says what an end does, ``transactions`` is the end of a log directory, and ``bucket`` that of an object store.
"""
