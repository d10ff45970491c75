"""A log on an object store that can create an object only if it is absent; its content is one sequence of commits.

``stores/`` is the port to object stores: ``remote`` opens the store at a URL (it needs the extra ``[bucket]``),
``patience`` repeats its requests, and ``probe`` tests whether it can hold a log. ``commits/`` has the kinds of commits
and the state that results from them. ``commit_log`` reads and adds commits, ``proposals`` and ``topics`` decide which
may be added, and ``staging`` puts records before the commit that names them. ``clients/`` does both for Kafka's
clients. ``root`` opens or creates a log. ``collecting`` deletes objects that no commit needs. ``files/`` shows the log
as a log directory. A log directory needs none of it, and imports it inside functions.
"""
