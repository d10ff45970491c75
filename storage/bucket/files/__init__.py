"""The log on an object store as a log directory: files that readers know, made of what commits say. Read-only."""
