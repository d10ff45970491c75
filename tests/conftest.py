"""Settings for every test."""

from __future__ import annotations

from hypothesis import settings

# No test asserts a time: a kernel that compiles, or a busy machine, would fail it.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
