"""Child processes of a gateway: they end with it, however it ends.

The standard input of a child is a pipe from the gateway. :func:`end_with_parent` waits in the child until the pipe is
closed, which a stop, a crash and SIGKILL all do. ``kernels`` compiles the kernels, which takes half a minute on a new
machine, while the gateway already serves; ``maintenance`` runs retention and compaction.
"""
