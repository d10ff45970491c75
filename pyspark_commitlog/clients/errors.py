"""The names of ``pyspark_commitlog.classic.errors``, as 0.1.0 had them."""

from pyspark_commitlog.classic.errors import *
