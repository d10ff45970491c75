"""Commands that change topics, settings, groups and transactions."""
