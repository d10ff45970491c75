"""The end of an object store: its partitions, what appends to them, and what follows the commits of others."""
