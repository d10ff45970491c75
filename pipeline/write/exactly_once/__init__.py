"""How far a query has written: in the log, in notes in Spark's checkpoint, and in the memory of the driver."""
