"""Child processes of a gateway: they end with it, however it ends.

The standard input of a child is a pipe from the gateway. :func:`end_with_parent` waits in the child until the pipe is
closed, which a stop, a crash and SIGKILL all do. ``kernels`` compiles the kernels, which takes half a minute on a new
machine, while the gateway already serves; ``maintenance`` runs retention and compaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .kernels import compile_kernels_beside as compile_kernels_beside, compile_turns as compile_turns
    from .lifetime import end_with_parent as end_with_parent, start_child as start_child
    from .maintenance import Maintenance as Maintenance
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "kernels": ["compile_kernels_beside", "compile_turns"],
            "lifetime": ["end_with_parent", "start_child"],
            "maintenance": ["Maintenance"],
        },
    )
