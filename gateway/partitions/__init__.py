"""The partitions that the gateway serves: their logs, appends and syncs, and what other processes append.

:class:`LedPartition` is one partition, and the interface of the two ends that use logs.

In a directory they are :class:`FilePartition`, :class:`Appender` and :class:`Follower`. The appender appends all
pending batches of a partition under one lock and passes them to syncers; the high watermark, up to which clients read,
is the end of the synced records. A log that cannot be opened for writing, because its last segment is damaged, is a
:class:`DamagedPartition`: its sound records are read, and nothing is appended. The follower finds what other processes
appended, and with :class:`LogStarts` what they deleted.

On an object store they are :class:`BucketPartition`, :class:`BucketAppender` and :class:`BucketFollower`. There the
high watermark is the log end in the newest commit. :class:`Topics` lists the topics of either, and
:class:`MessageFormats` says in which format they are written.
"""
