"""The log on an object store as a read-only log directory: the usual files, computed from the commits."""
