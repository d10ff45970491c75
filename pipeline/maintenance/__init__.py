"""The maintenance jobs: from a command line to tasks on a cluster, a report, and an exit code.

The operations themselves are in storage/maintenance, which does not depend on Spark.
"""
