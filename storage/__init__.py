"""Kafka's log as a Python module that knows nothing of Spark. Its public names are listed in ``__init__.pyi``.

They are loaded when first used (PEP 562): a program that lists topics must answer at once, so it must not import numba,
a codec or Arrow.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
