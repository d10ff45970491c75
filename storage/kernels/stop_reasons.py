"""Reasons why a walk over batches stops, shared by the kernel and its callers."""

END = 0  # exactly after the last batch
TRUNCATED = 1  # the rest is shorter than a header, or than the batch that begins there
BAD_SIZE = 2  # a length smaller than any entry of its magic
BAD_MAGIC = 3  # a magic below zero
UNKNOWN_MAGIC = 4  # a magic above 2: a newer format
FULL = 5  # as many batches as were asked for
NO_CHECKSUM = 6  # a message of magic 1 in Kafka 0.7's format that ends before its checksum does
