"""Commands that copy logs: ``snapshot``, ``backup``, ``restore`` and ``copy``."""
