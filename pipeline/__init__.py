"""Logs in Spark: the data source, the sinks, and the jobs."""
