"""The names of ``pyspark_commitlog.classic.topic_filters``, as 0.1.0 had them."""

from pyspark_commitlog.classic.topic_filters import *
