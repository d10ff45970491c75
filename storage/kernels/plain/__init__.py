"""The kernels as plain Python, for a process that cannot wait until they are compiled.

The modules are those of ``kernels/``, loaded once more under this package's name: here, ``compiling`` compiles nothing,
and ``memory`` copies by slices. So numba is not imported, which takes a third of a second, and nothing is compiled,
which takes half a minute on a new machine. Both give the same results; plain Python takes 13 µs for a record.
"""

from __future__ import annotations

__path__ = [*__path__, __path__[0].rpartition("/")[0]]
