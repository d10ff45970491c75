"""Commands that work on files: recovery, index rebuild, snapshots, the check of a file system."""
