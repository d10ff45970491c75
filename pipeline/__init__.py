"""What Spark sees of a log: the data source, the sink, and what they are made of."""
