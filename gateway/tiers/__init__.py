"""Reads what only a tier has of the logs in a directory, in threads of its own: nobody else waits for a slow store."""
