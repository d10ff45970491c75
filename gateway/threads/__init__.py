"""Threads that run tasks in order, and a helper that waits for several answers.

``kept`` is a thread that no error ends, and knows which threads fail. ``worker`` is a thread with timers. ``disk`` is a
thread that reads and writes for a coordinator, so that the coordinator never waits. ``answers`` calls back when several
answers have arrived, and asks for many in turns. ``fair`` is a thread for tasks of many clients. ``said`` logs a fault
once, ``counted`` logs and counts events that many clients can cause, ``disk_faults`` logs that a disk fails and works
again; ``repeats`` decides when all three log. This room knows no protocol and no log.
"""
