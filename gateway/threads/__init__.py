"""Threads that run tasks in order, and a helper that waits for several answers.

``kept`` is a thread that no error ends, and knows which threads fail. ``worker`` is a thread with timers. ``disk`` is a
thread that reads and writes for a coordinator, so that the coordinator never waits. ``answers`` calls back when several
answers have arrived, and asks for many in turns. ``fair`` is a thread for tasks of many clients. ``said`` logs a fault
once, ``counted`` what many clients can cause, ``disk_faults`` that a disk fails and works again; ``repeats`` says when
for all three. This room knows no protocol and no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .answers import A_TURN as A_TURN, Turns as Turns, gathering as gathering
    from .counted import Counted as Counted
    from .disk import Disk as Disk, DiskWorker as DiskWorker, Home as Home, Store as Store
    from .disk_faults import DiskFaults as DiskFaults
    from .fair import FairTask as FairTask, FairWorker as FairWorker
    from .kept import (
        KeptThread as KeptThread,
        run_apart as run_apart,
        thread_failures as thread_failures,
        unwell_threads as unwell_threads,
        watch_all_threads as watch_all_threads,
    )
    from .said import Said as Said
    from .worker import Task as Task, Timer as Timer, Worker as Worker
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "disk": ["Disk", "DiskWorker", "Home", "Store"],
            "counted": ["Counted"],
            "disk_faults": ["DiskFaults"],
            "answers": ["A_TURN", "Turns", "gathering"],
            "fair": ["FairTask", "FairWorker"],
            "kept": ["KeptThread", "run_apart", "thread_failures", "unwell_threads", "watch_all_threads"],
            "said": ["Said"],
            "worker": ["Task", "Timer", "Worker"],
        },
    )
