"""Logs in Spark: the data source, the sink, and their parts."""
