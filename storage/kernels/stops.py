"""Why a walk over batches stopped: what the kernel says, and who calls it by name."""

END = 0  # exactly behind the last batch
TRUNCATED = 1  # the rest is shorter than a header, or than the batch it begins
BAD_SIZE = 2  # a length smaller than any entry of its magic
BAD_MAGIC = 3  # a magic below zero
UNKNOWN_MAGIC = 4  # a magic above 2: a format from the future
FULL = 5  # as many batches as were asked for
