"""Parts that the programs in ``jobs/`` share: a Spark session, a command line, and running a query to its end."""
