"""Cluster: the gateways over one log directory: which of them are live, and which of them leads a partition.

Each node registers, and watches the others. One of them is the controller: it alone writes the view, which is the list
of live nodes with an epoch that grows at each change. Every node derives the same leaders from the view.

Leadership is for speed only. Two nodes that both believe they lead a partition do no harm: a node appends only under
the partition's lock, after it has read what others appended. So a change of leader waits for nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Event
from typing import TypeVar

from ...registry import kafka_nodes
from ...registry.errors import BadVersionError, NodeExistsError, NoNodeError, RegistryError
from ...registry.kafka_nodes import BROKER_IDS, CONTROLLER, CONTROLLER_EPOCH, Endpoint
from ...registry.operations import discard
from ...registry.port import Change, Node, Registry, SessionState, Watch
from ...storage import Address, Clock, LogStoreError
from ..config import GatewayConfig
from ..threads.worker import Worker
from .host_lock import HostLock
from .registration import GATEWAYS, Registration, registered
from .view import NOBODY, VIEW, Leader, View

LOOK_S = 1.0  # seconds between checks; watches report changes, so this only catches missed ones
HOST_LOCKS_S = 0.1  # seconds between two checks of which nodes of this host live
START_S = 30.0
LEAVE_S = 5.0
LATE_S = 1.5  # if the controller has not updated the view for this long, another node does

Changed = Callable[[View], None]
T = TypeVar("T")

logger = logging.getLogger(__name__)


class Cluster:
    """What one node knows of all nodes. Its methods may be called from any thread."""

    def __init__(
        self,
        registry: Registry,
        config: GatewayConfig,
        endpoints: Sequence[Endpoint],
        clock: Clock,
        host_lock: HostLock | None = None,
    ) -> None:
        """``endpoints``: where clients are told to connect to this node.

        ``host_lock``: shows which nodes of this host live; None: sessions end with their processes, or it is not known.
        """
        self.node = config.node_id
        self.controller = NOBODY
        self.addresses: Mapping[int, Mapping[str, Address]] = {}  # by node and name of the listener
        self.view = View()
        self._registry, self._clock, self._host_lock = registry, clock, host_lock
        self._registration = Registration(
            registry,
            config.node_id,
            endpoints,
            config.kafka_version,
            clock.now_ms(),
        )
        self._wait_s = (config.zookeeper_session_timeout_ms / 1000 + 1) if config.zookeeper_connect else 0.0
        self._worker = Worker("gateway-cluster")
        self._watched: set[str] = set()
        self._is_due = False
        self._is_leaving = False
        self._left = Event()
        self._on_change: list[Changed] = []
        self.controller_epoch = 0
        self._unwritten = (frozenset[int](), 0.0)  # live nodes, if they differ from the view, and since when they do

    # For handlers

    def leader(self, topic: str, partition: int) -> Leader:
        """Returns the leader of a partition, with its epoch."""
        return self.view.leader(topic, partition)

    def leads(self, topic: str, partition: int) -> bool:
        """Whether this node leads a partition."""
        return self.view.leader(topic, partition).node == self.node

    @property
    def is_controller(self) -> bool:
        """Whether this node writes the view."""
        return self.controller == self.node

    def listen(self, changed: Changed) -> None:
        """Calls ``changed`` with each later view, in the cluster's thread; it must return soon."""
        self._on_change.append(changed)

    # Beginning and end

    def start(self) -> None:
        """Registers the node, and returns when it is in the view.

        Raises NodeIdInUseError, OtherBrokersError, and RegistryError if the registry cannot be reached.
        """
        if self._host_lock is not None:
            self._host_lock.take(self._registry)
            self._worker.repeat(HOST_LOCKS_S, self._try_remove_ended)
        self._registration.make(self._wait_s)
        deadline_s = time.monotonic() + START_S
        while True:
            self._look()
            if self.node in self.view.nodes:
                break
            if time.monotonic() > deadline_s:
                raise RegistryError(
                    f"node {self.controller} is the controller, and has not added this node for {START_S:g} s; "
                    "is it stopped?"
                )
            time.sleep(0.02)
        self._registry.listen(self._on_session)
        self._worker.start()
        self._try_look()
        self._worker.repeat(LOOK_S, self._try_look)

    def leave(self) -> None:
        """Leaves the view, so that the other nodes, if any, take over; waits a limited time until they have seen it."""
        if len(self.view.nodes) > 1:
            self._worker.run(self._leave)
            self._left.wait(LEAVE_S)

    def stop(self) -> None:
        """Ends the thread and the session, which removes the node from the registry."""
        self._worker.stop()
        if self._host_lock is not None:
            self._host_lock.release()

    def _leave(self) -> None:
        self._is_leaving = True
        try:
            self._registration.remove()
            self._look()
            if self.is_controller and self.node not in self.view.nodes:
                discard(self._registry, CONTROLLER)
        except (LogStoreError, OSError) as error:  # its session ends soon
            logger.warning(
                "this node could not be removed from the registry, so it stays there until its session expires: %s",
                error,
            )
            self._left.set()

    # Looking

    def _on_session(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            logger.warning("the session of the registry is %s", state.value)
        self._worker.run(partial(self._on_event, None if state is SessionState.EXPIRED else ""))

    def _on_event(self, path: str | None) -> None:
        """Schedules one check of the registry for all pending events."""
        if path is None:
            self._watched.clear()
        self._watched.discard(path or "")
        if not self._is_due:
            self._is_due = True
            self._worker.run(self._try_look)

    def _try_look(self) -> None:
        self._is_due = False
        try:
            self._look()
        except (LogStoreError, OSError) as error:
            logger.warning("the live nodes could not be read from the registry: %s", error)

    def _try_remove_ended(self) -> None:
        """Removes nodes of this host whose process has ended; those of other hosts go with their sessions."""
        try:
            others = self.addresses.keys() - {self.node}
            if self._host_lock is not None and self._host_lock.remove_ended(self._registry, others):
                self._look()
        except (LogStoreError, OSError) as error:
            logger.warning("could not check which nodes live: %s", error)

    def _look(self) -> None:
        found = self._read(self._registry.children, BROKER_IDS)
        brokers = {int(each) for each in found or () if each.isdigit()}
        nodes = brokers & registered(self._registry, GATEWAYS)  # a broker of another kind would lead partitions in vain
        if self.node not in nodes and not self._is_leaving:  # its session has expired
            self._registration.make()
            nodes.add(self.node)
        self._find_controller()
        if self.is_controller or self._is_late(nodes):
            self._write_view(nodes)
        addresses = {}
        for node in nodes:
            path = kafka_nodes.broker_path(node)
            found_broker = self._registry.find(path)
            if found_broker is not None:
                broker = kafka_nodes.decode_broker(path, found_broker.data)
                addresses[node] = {each.name: Address(each.host, each.port) for each in broker.endpoints}
        self.addresses = addresses
        written = self._read(self._registry.find, VIEW)
        if written is not None:
            self._show(View.decode(written.data))

    def _read(self, read: Callable[[str, Watch | None], T], path: str) -> T | None:
        """Reads, and watches the path if it is not watched yet; None if it is missing."""
        watch = None
        if path not in self._watched:
            self._watched.add(path)
            watch = self._on_watch
        try:
            return read(path, watch)
        except NoNodeError:
            self._watched.discard(path)
            return None
        except BaseException:
            self._watched.discard(path)
            raise

    def _on_watch(self, _: Change, path: str) -> None:
        self._worker.run(partial(self._on_event, path))

    def _show(self, view: View) -> None:
        if view == self.view:
            return
        logger.info("live nodes: %s, in epoch %d", sorted(view.nodes), view.epoch)
        self.view = view
        for changed in self._on_change:
            changed(view)
        if self.node not in view.nodes:
            self._left.set()

    # The controller

    def _find_controller(self) -> None:
        found: Node | None = self._read(self._registry.find, CONTROLLER)
        if found is None and not self._is_leaving:
            try:
                content = kafka_nodes.encode_controller(self.node, self._clock.now_ms())
                self._registry.create(CONTROLLER, content, ephemeral=True)
            except NodeExistsError:
                pass
            else:
                self._raise_controller_epoch()
            found = self._registry.find(CONTROLLER)
        if found is None:
            self.controller = NOBODY
            return
        node = kafka_nodes.decode_controller(found.data)
        is_ours = found.owner == self._registry.session
        self.controller = node if is_ours or node != self.node else NOBODY

    def _raise_controller_epoch(self) -> None:
        while True:
            found = self._registry.find(CONTROLLER_EPOCH)
            try:
                if found is None:
                    self._registry.create(CONTROLLER_EPOCH, b"1")
                    self.controller_epoch = 1
                else:
                    self.controller_epoch = int(found.data or b"0") + 1
                    self._registry.set(CONTROLLER_EPOCH, b"%d" % self.controller_epoch, found.version)
                return
            except (BadVersionError, NodeExistsError, NoNodeError):  # two elections at once
                pass

    def _is_late(self, nodes: set[int]) -> bool:
        """Whether the controller has failed to write the live nodes for so long that another node may write them.

        A version of the node keeps two writers from undoing each other's changes.
        """
        now_s = time.monotonic()
        if nodes == self.view.nodes or nodes != self._unwritten[0]:
            self._unwritten = (frozenset(nodes), now_s)
            return False
        if now_s - self._unwritten[1] < LATE_S:
            return False
        logger.warning(
            "node %d is the controller but does not update the view; this node writes it instead", self.controller
        )
        return True

    def _write_view(self, nodes: set[int]) -> None:
        found = self._registry.find(VIEW)
        view = self.view if found is None else View.decode(found.data)  # clients ignore epochs lower than before
        if not nodes or (found is not None and view.nodes == nodes):
            return
        data = (view if view.nodes == nodes else view.changed(nodes)).encode()
        try:
            if found is None:
                self._registry.create(VIEW, data)
            else:
                self._registry.set(VIEW, data, found.version)
        except (BadVersionError, NodeExistsError):  # another controller, since this one's session expired
            logger.warning("another node wrote the view at the same time; reading it again")
