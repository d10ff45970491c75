"""A log on an object store that can create an object only if it is absent; its content is one sequence of commits.

``stores/`` is the port to object stores: :func:`open_store` opens the store at a URL (it needs the extra ``[bucket]``),
and :func:`check_store` tests whether it can hold a log. ``commits/`` has the kinds of commits and the state that
results from them. :class:`CommitLog` reads and adds commits, ``proposals`` and ``topics`` decide which may be added,
and :class:`Stager` puts records before the commit that names them. ``clients/`` does both for Kafka's clients.
:func:`open_root` opens or creates a log. :func:`collect` deletes objects that no commit needs. ``files/`` shows the log
as a log directory: :func:`open_files` returns that file system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .clients.appends import ClientBatch as ClientBatch, append_batches as append_batches
    from .clients.transactions import (
        AddedOffsets as AddedOffsets,
        ClientTransactions as ClientTransactions,
        give_up as give_up,
        give_up_producer as give_up_producer,
    )
    from .collecting import (
        COLLECTOR_KEYS as COLLECTOR_KEYS,
        Collected as Collected,
        CollectLimits as CollectLimits,
        abort_overdue as abort_overdue,
        collect as collect,
        unnamed_objects as unnamed_objects,
    )
    from .commit_log import CommitLog as CommitLog
    from .commits.commit import (
        ClientTransaction as ClientTransaction,
        DataChange as DataChange,
        GroupOffset as GroupOffset,
        OffsetsChange as OffsetsChange,
        PartitionSlices as PartitionSlices,
        Segment as Segment,
        SwapChange as SwapChange,
        TopicChange as TopicChange,
    )
    from .commits.state import PartitionState as PartitionState, Slice as Slice, State as State, Topic as Topic
    from .commits.transactions import undecided_offsets as undecided_offsets
    from .files.filesystem import (
        BucketFileSystem as BucketFileSystem,
        is_kept as is_kept,
        open_files as open_files,
    )
    from .files.marks import StateMarks as StateMarks
    from .files.open_files import MadeBytes as MadeBytes, ObjectBytes as ObjectBytes, OpenFile as OpenFile
    from .files.parts import PART_BYTES as PART_BYTES, Parts as Parts
    from .files.pinned import PinnedFiles as PinnedFiles
    from .files.read_only import ReadOnlyFileSystem as ReadOnlyFileSystem
    from .filler import encode_filler as encode_filler, is_filler as is_filler
    from .proposals import (
        Claim as Claim,
        StagedWrite as StagedWrite,
        claim_app as claim_app,
        commit_write as commit_write,
        open_app as open_app,
    )
    from .root import open_root as open_root
    from .staging import (
        STAGED_BYTES_MAX as STAGED_BYTES_MAX,
        Staged as Staged,
        StagedTopic as StagedTopic,
        Stager as Stager,
        combined as combined,
    )
    from .stores.patience import (
        Patience as Patience,
        PatientRanges as PatientRanges,
        PatientStore as PatientStore,
    )
    from .stores.port import (
        PUT_BYTES_MAX as PUT_BYTES_MAX,
        FolderListing as FolderListing,
        ListingStore as ListingStore,
        ObjectFacts as ObjectFacts,
        ObjectStore as ObjectStore,
    )
    from .stores.probe import check_store as check_store
    from .stores.race import Contenders as Contenders
    from .stores.remote import open_store as open_store
    from .topics import (
        add_partitions as add_partitions,
        alter_configs as alter_configs,
        check_configs as check_configs,
        create_topic as create_topic,
        delete_topic as delete_topic,
        ensure_topic as ensure_topic,
        find_topic as find_topic,
    )
    from .upkeep import (
        Part as Part,
        finish_copy as finish_copy,
        parts_of as parts_of,
        raise_log_start as raise_log_start,
        replace_parts as replace_parts,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "clients.appends": ["ClientBatch", "append_batches"],
            "clients.transactions": ["AddedOffsets", "ClientTransactions", "give_up", "give_up_producer"],
            "collecting": [
                "COLLECTOR_KEYS",
                "CollectLimits",
                "Collected",
                "abort_overdue",
                "collect",
                "unnamed_objects",
            ],
            "commit_log": ["CommitLog"],
            "commits.commit": [
                "ClientTransaction",
                "DataChange",
                "GroupOffset",
                "OffsetsChange",
                "PartitionSlices",
                "Segment",
                "SwapChange",
                "TopicChange",
            ],
            "commits.state": ["PartitionState", "Slice", "State", "Topic"],
            "commits.transactions": ["undecided_offsets"],
            "files.filesystem": ["BucketFileSystem", "is_kept", "open_files"],
            "files.marks": ["StateMarks"],
            "files.open_files": ["MadeBytes", "ObjectBytes", "OpenFile"],
            "files.parts": ["PART_BYTES", "Parts"],
            "files.pinned": ["PinnedFiles"],
            "files.read_only": ["ReadOnlyFileSystem"],
            "filler": ["encode_filler", "is_filler"],
            "proposals": ["Claim", "StagedWrite", "claim_app", "commit_write", "open_app"],
            "root": ["open_root"],
            "staging": ["STAGED_BYTES_MAX", "Staged", "StagedTopic", "Stager", "combined"],
            "stores.patience": ["Patience", "PatientRanges", "PatientStore"],
            "stores.port": ["FolderListing", "ListingStore", "ObjectFacts", "ObjectStore", "PUT_BYTES_MAX"],
            "stores.probe": ["check_store"],
            "stores.race": ["Contenders"],
            "stores.remote": ["open_store"],
            "topics": [
                "add_partitions",
                "alter_configs",
                "check_configs",
                "create_topic",
                "delete_topic",
                "ensure_topic",
                "find_topic",
            ],
            "upkeep": ["Part", "finish_copy", "parts_of", "raise_log_start", "replace_parts"],
        },
    )
