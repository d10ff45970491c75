"""Commands for the files of logs: retention, compaction, key filters, recovery, index rebuild, erasure, checks."""
