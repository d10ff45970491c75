"""Commands that change what a directory says: topics, settings, groups, transactions."""
