"""LiveSettings: the settings that clients may change while the gateway runs, as ``topics.json`` keeps them.

They rank as on a broker: those of this node, then those of all nodes, then those that the gateway was started with. A
change by another node, or by ``commitlog configs``, is in force within a second. On an object store there are none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Event, Lock
from typing import Any, NamedTuple

from ..storage import NODE_KEYS, TOPICS_FILE, InvalidConfigError, LogManager, LogStoreError, Owner, TopicsFile
from .config import GatewayConfig, keys_of_gateway
from .listeners import Listener, limits_of_addresses, parse_address_limits
from .network.limits.admission import Admission, AdmissionLimits
from .security.listener import own_tls_settings
from .threads.kept import KeptThread
from .threads.said import Said

LOOK_S = 0.5
OVERRIDES = "max.connections.per.ip.overrides"
_FIELDS = {key.name: field for field, key in keys_of_gateway().items()}

logger = logging.getLogger(__name__)
_said = Said(logger)


class Change(NamedTuple):
    """The changes since the last check."""

    config: GatewayConfig  # with what is in force now
    own: Mapping[str, str]  # settings of this node alone
    topics: Collection[str]  # the topics whose settings have changed


Later = Callable[[], Callable[[], None] | None]  # looks something up; returns what applies it, None to be called again
OnChange = Callable[[Change], Later | None]  # puts in force what it can at once; returns what may take long


class LiveSettings:
    """The settings in force. For any thread."""

    def __init__(self, config: GatewayConfig, manager: LogManager) -> None:
        """``config``: what the gateway was started with. ``manager``: used only here, and closed by :meth:`stop`."""
        self._started_with, self._manager = config, manager
        self._lock, self._stopped = Lock(), Event()  # The lock guards all fields below; no name is looked up under it.
        self._on_change: OnChange = lambda _: None
        self._later: Later | None = None  # what the last change left for later
        self._seen, self._is_applied = self._stamp(), True  # the file that was read, and whether the listener took it
        self._file = self._read()
        self.config = self._config_of(self._file, config)
        self._thread = KeptThread("gateway-settings", self._run)
        self._names_thread = KeptThread("gateway-names", self._run_names)

    @property
    def own(self) -> Mapping[str, str]:
        """The settings of this node alone."""
        return self._file.owned_by(Owner.NODE, str(self._started_with.node_id))

    def of_group(self, name: str) -> Mapping[str, str]:
        """Returns the settings of a group of consumers."""
        return self._file.owned_by(Owner.GROUP, name)

    def listen(self, on_change: OnChange) -> None:
        """Calls ``on_change`` with the settings in force, and then with each change, in the thread that found it."""
        with self._lock:
            self._on_change = on_change
            self._later = on_change(Change(self.config, self.own, ()))

    def start(self) -> None:
        """Starts the thread that checks for changes, and the one that looks up names in them."""
        if self._manager.bucket is None:
            self._thread.start()
            self._names_thread.start()

    def stop(self) -> None:
        """Ends the threads, one that waits for a name server once that has answered."""
        self._stopped.set()
        self._thread.join()
        self._names_thread.join(timeout_s=0)
        self._manager.close()

    def look(self) -> None:
        """Puts the file's settings in force; they are on return, even if another thread did it.

        Limits of names that have no address are left to :meth:`look_up`. A change that raised an error is tried again
        by the next call.
        """
        if self._look():
            self.look_up()  # a change of anything else does not wait for names

    def _look(self) -> bool:
        """Puts the file's settings in force; returns whether there are others of names, which need :meth:`look_up`."""
        with self._lock:
            seen = self._stamp()
            if seen == self._seen and self._is_applied:
                return False
            before, overrides = self._file, self.config.max_connections_per_ip_overrides
            self._file = self._read()
            self._seen, self._is_applied = seen, False
            self.config = self._config_of(self._file, self.config)
            self._later = self._on_change(Change(self.config, self.own, _changed(before, self._file)))
            self._is_applied = True
            return self.config.max_connections_per_ip_overrides != overrides

    def look_up(self) -> None:
        """Puts in force what changes have left for later, such as limits of names, unless a name has no address.

        It may take long, while other threads go on.
        """
        while (later := self._later) is not None:
            apply = later()
            if apply is None:
                return
            with self._lock:
                if self._later is later:  # no other change has come in the meantime
                    apply()
                    self._later = None

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            try:
                self._look()
            except (LogStoreError, OSError) as error:
                logger.error("settings cannot be read, so the old ones stay: %s", error)

    def _run_names(self) -> None:
        while not self._stopped.wait(LOOK_S):
            self.look_up()

    def _stamp(self) -> object:
        return None if self._manager.bucket is not None else self._manager.filesystem.status(self._path)

    @property
    def _path(self) -> str:
        return self._manager.path(TOPICS_FILE)

    def _read(self) -> TopicsFile:
        return TopicsFile({}, {}) if self._manager.bucket is not None else self._manager.topics_file()

    def _config_of(self, file: TopicsFile, otherwise: GatewayConfig) -> GatewayConfig:
        """Returns the config with the settings in a file; ``otherwise`` if they are invalid, which is logged."""
        own = file.owned_by(Owner.NODE, str(self._started_with.node_id))
        try:
            return with_live(self._started_with, file.broker, own)
        except InvalidConfigError as error:
            logger.error("%s: the settings of nodes are not used, the old ones stay: %s", self._path, error)
            return otherwise


def with_live(config: GatewayConfig, broker: Mapping[str, str], own: Mapping[str, str]) -> GatewayConfig:
    """Returns a config with the settings of all nodes, and of this one.

    Raises InvalidConfigError for an invalid one.
    """
    given = {name: value for name, value in {**broker, **own}.items() if name in NODE_KEYS}
    made = _with(config, given)
    parse_address_limits(OVERRIDES, made.max_connections_per_ip_overrides)
    return made


def for_listener(config: GatewayConfig, own: Mapping[str, str], listener: Listener) -> GatewayConfig:
    """Returns a config with a listener's own settings. Raises InvalidConfigError for an invalid one."""
    given = own_tls_settings(own, listener.name)
    return _with(config, given) if given else config


def admission_limits(config: GatewayConfig) -> AdmissionLimits:
    """Returns the limits of connections. Raises OSError if one is that of a name without an address."""
    return _admission_limits(config, _limits_of_addresses(config))


def change_admission(admission: Admission, config: GatewayConfig) -> Later:
    """Applies the limits of connections, and returns what looks up the names among their addresses.

    Until that is applied, and while a name has no address, addresses keep the limits that they had; all others are in
    force.
    """
    admission.change(_admission_limits(config, admission.of_addresses))
    return partial(_looked_up, admission, config)


def _looked_up(admission: Admission, config: GatewayConfig) -> Callable[[], None] | None:
    try:
        of_addresses = _limits_of_addresses(config)
    except OSError as error:
        _said.log(f"{OVERRIDES} = {config.max_connections_per_ip_overrides!r} is not in force yet", error)
        return None
    return partial(admission.change, _admission_limits(config, of_addresses))


def _admission_limits(config: GatewayConfig, of_addresses: Mapping[str, int]) -> AdmissionLimits:
    return AdmissionLimits(
        most=config.max_connections,
        per_address=config.max_connections_per_ip,
        of_addresses=of_addresses,
        per_second=config.max_connection_creation_rate,
        before_login=config.commitlog_login_max_connections,
    )


def _limits_of_addresses(config: GatewayConfig) -> Mapping[str, int]:
    return limits_of_addresses(parse_address_limits(OVERRIDES, config.max_connections_per_ip_overrides))


def _with(config: GatewayConfig, given: Mapping[str, str]) -> GatewayConfig:
    fields: dict[str, Any] = {_FIELDS[name]: value for name, value in given.items()}
    return replace(config, **fields)


def _changed(before: TopicsFile, after: TopicsFile) -> Collection[str]:
    """Returns the topics whose settings have changed: all of them if the defaults for all topics did."""
    shared = [{name: each for name, each in file.broker.items() if name not in NODE_KEYS} for file in (before, after)]
    if shared[0] != shared[1]:
        return after.topics
    found = set()
    for name, topic in after.topics.items():
        with suppress(KeyError):  # a new topic
            if before.topics[name].configs != topic.configs:
                found.add(name)
    return found
