"""For ``set_forkserver_preload``: imports and loads all that a driver's first micro-batch needs, so that forks have it.

Kernels and pandas take two seconds of processor time per process, while a process to be killed writes for 20 ms.
"""

from __future__ import annotations

from tests.pipeline.inline_spark import PARTITIONS, TOPIC, Driver
from tests.support.logs.directories import memory_disk_with_topics

_driver = Driver("/log", memory_disk_with_topics("/log", TOPIC, PARTITIONS))
_driver.write(0)
_driver.content()
