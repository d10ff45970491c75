"""Produce requests that have arrived at several connections, served together in one turn of their thread.

What is plain (``storage/kernels/produce``) is found without an object for a request, appended with one write for each
partition, and answered with one send for each connection. A larger request has a turn of its own. The rest goes the
usual way, by ``handlers``. ``turn`` is one thread's; ``known`` has the partitions that its requests may name;
``compressed`` checks what must be decompressed; ``rights`` asks rules and quotas; ``transactions`` says which are
open; ``appends`` takes requests, of which ``writing`` appends the batches to a log directory and ``commits`` to an
object store: one of these ``ends``; ``answers`` wait for syncs or a commit, with ``refusals``; ``loading`` loads the
kernels once a client produces.
"""
