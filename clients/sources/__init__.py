"""What mirrors and loads read: the partitions of a cluster of any generation, or of a log directory, in whole batches.

:func:`sources_of` takes the settings of a consumer and returns what opens a :class:`Source`: by today's protocol, or by
that of Kafka 0.8. :func:`all_sources_of` also knows brokers of Kafka 0.7, whose partitions are
:class:`BrokerPartition`, and directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .leaders_0_8 import Leaders as Leaders
    from .log_directory import DirectorySources as DirectorySources
    from .port import (
        AnySource as AnySource,
        AnySources as AnySources,
        BrokerPartition as BrokerPartition,
        Source as Source,
        SourcePartition as SourcePartition,
        Sources as Sources,
    )
    from .settings import (
        all_sources_of as all_sources_of,
        number_of as number_of,
        required as required,
        sources_of as sources_of,
    )
    from .todays_wire import ClusterSources as ClusterSources
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "leaders_0_8": ["Leaders"],
            "log_directory": ["DirectorySources"],
            "port": ["AnySource", "AnySources", "BrokerPartition", "Source", "SourcePartition", "Sources"],
            "settings": ["all_sources_of", "number_of", "required", "sources_of"],
            "todays_wire": ["ClusterSources"],
        },
    )
