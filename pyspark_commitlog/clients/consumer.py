"""The names of ``pyspark_commitlog.classic.consumer``, as 0.1.0 had them; each is loaded when first used."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_commitlog.classic.consumer import *
else:
    from pyspark_commitlog.classic.consumer import __all__, __dir__, __getattr__
