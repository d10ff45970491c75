"""What the programs in ``jobs/`` share: a Spark session, a command line, one query run to its end."""
