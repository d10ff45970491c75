"""Sockets: an acceptor for each listener, processor threads with their connections, frames in and answers out.

This room knows frames, not requests: an :class:`Exchange` is a frame with its pending answer, and :class:`Processor`
calls the function it was created with to serve it. Answers are sent in the order of the frames, whichever thread gives
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .acceptor import Acceptor as Acceptor, listening as listening
    from .admission import Admission as Admission, AdmissionLimits as AdmissionLimits
    from .connection import Connection as Connection
    from .exchange import Exchange as Exchange
    from .file_slice import FileSlice as FileSlice, Part as Part, release as release
    from .frames import FrameError as FrameError, FrameReader as FrameReader
    from .memory import AnswerMemory as AnswerMemory, RequestMemory as RequestMemory
    from .pace import LeastRate as LeastRate
    from .processor import Limits as Limits, Processor as Processor, Serve as Serve, Terms as Terms, Timer as Timer
    from .quota import Quota as Quota
    from .together import Together as Together
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "acceptor": ["Acceptor", "listening"],
            "admission": ["Admission", "AdmissionLimits"],
            "connection": ["Connection"],
            "exchange": ["Exchange"],
            "file_slice": ["FileSlice", "Part", "release"],
            "frames": ["FrameError", "FrameReader"],
            "memory": ["AnswerMemory", "RequestMemory"],
            "pace": ["LeastRate"],
            "processor": ["Limits", "Processor", "Serve", "Terms", "Timer"],
            "quota": ["Quota"],
            "together": ["Together"],
        },
    )
