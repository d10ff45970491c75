"""Files: the port through which everything in ``storage/`` uses them, and its implementation for the local file system.

``port`` is the contract; ``local``, ``local_file`` and ``locks`` implement it for this machine; ``open_files`` keeps
the number of open files below the process's limit; ``operations`` needs only the port; ``temporary`` makes folders that
do not outlast their process for long. Imports only ``errors``.
"""
