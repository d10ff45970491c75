"""Files: the port through which everything in ``storage/`` reaches them, and the local file system behind it.

``port`` is the contract; ``local``, ``local_file`` and ``locks`` implement it for this machine; ``open_files`` keeps
the number of open files below the process's limit; ``operations`` needs only the port. Imports only ``errors``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .holders import lock_holders as lock_holders
    from .local import LocalFileSystem as LocalFileSystem
    from .local_file import LocalFile as LocalFile
    from .locks import (
        LocalLock as LocalLock,
        environment as environment,
        process_id as process_id,
        this_process as this_process,
    )
    from .open_files import OPEN_FILES as OPEN_FILES, raise_limit_to_highest as raise_limit_to_highest
    from .operations import (
        catch_up as catch_up,
        forget_read as forget_read,
        is_made as is_made,
        is_zero as is_zero,
        make_directory_durably as make_directory_durably,
        make_own_directory as make_own_directory,
        not_a_link as not_a_link,
        parent_of as parent_of,
        pin as pin,
        read_file as read_file,
        remove_tree as remove_tree,
        size_of as size_of,
        write_atomically as write_atomically,
    )
    from .port import (
        Buffer as Buffer,
        ByteLocks as ByteLocks,
        File as File,
        FileStatus as FileStatus,
        FileSystem as FileSystem,
        Held as Held,
        Lock as Lock,
        MadeFile as MadeFile,
        MadeFileSystem as MadeFileSystem,
        Mount as Mount,
        OpenMode as OpenMode,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "local": ["LocalFileSystem"],
            "local_file": ["LocalFile"],
            "holders": ["lock_holders"],
            "locks": ["LocalLock", "environment", "process_id", "this_process"],
            "open_files": ["OPEN_FILES", "raise_limit_to_highest"],
            "operations": [
                "catch_up",
                "forget_read",
                "is_made",
                "is_zero",
                "make_directory_durably",
                "make_own_directory",
                "not_a_link",
                "parent_of",
                "pin",
                "read_file",
                "remove_tree",
                "size_of",
                "write_atomically",
            ],
            "port": [
                "Buffer",
                "ByteLocks",
                "File",
                "FileStatus",
                "FileSystem",
                "Held",
                "Lock",
                "MadeFile",
                "MadeFileSystem",
                "Mount",
                "OpenMode",
            ],
        },
    )
