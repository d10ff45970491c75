"""Reads records that only a tier has, in threads of its own, so that nothing else waits for a slow store."""
