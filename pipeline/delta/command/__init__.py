"""The command line of the export job. Imports no Spark, so that ``--help`` works without it.

``words`` has the values that flags may have, ``arguments`` the parser, ``value_arguments`` the flags for the format of
values.
"""
