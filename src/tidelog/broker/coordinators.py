"""FindCoordinator: this broker coordinates all groups and transactions."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import Refusal, refused
from tidelog.broker.seldom_lines import SeldomLines
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError
from tidelog.manager.group_home import offsets_topic
from tidelog.readonly.group_positions import OFFSETS_TOPIC
from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.groups.group_coordinator import GroupCoordinator
    from tidelog.broker.node import Node
    from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
    from tidelog.manager.log_manager import LogManager

_log = logging.getLogger(__name__)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_MANY_VERSION: Final = 4
_PATIENCE_S: Final = 5
"""How long a client waits until a coordinator is loaded. After that it is named all the same."""
_NOBODY: Final[dict[str, Any]] = {"nodeId": -1, "host": "", "port": -1}


class Coordinators:
    """Names this broker to those who ask for a coordinator."""

    def __init__(
        self,
        manager: LogManager,
        node: Node,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
    ) -> None:
        self._manager = manager
        self._node = node
        self._transactions = transactions
        self._lines: Final = SeldomLines(manager.machine.clock)
        self._shards = {_GROUP: groups.shards, _TRANSACTION: transactions.shards}

    def find(self, request: Request) -> Answer:
        """Answer at once, unless the topic is to be created or read that the coordinator needs."""
        kind = request.values["keyType"]
        if kind not in {_GROUP, _TRANSACTION}:
            error = Refusal(ErrorCode.INVALID_REQUEST, f"{kind} is not a kind of coordinator")
            return _of_each_key(request, lambda _: _nobody(error))
        topic = OFFSETS_TOPIC if kind == _GROUP else TRANSACTIONS_TOPIC
        is_loaded = self._shards[kind].loaded.is_set()
        if not is_loaded or topic not in self._manager.topics():
            return self._find_later(request)
        return self._answer(request)

    async def _find_later(self, request: Request) -> dict[str, Any]:
        # A client that is sent to one that turns out to be unusable may not ask again.
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._shards[request.values["keyType"]].loaded.wait()
        # Here, and not by the first write: a topic takes a few flushes of directories.
        try:
            if request.values["keyType"] == _GROUP:
                await in_thread(lambda: offsets_topic(self._manager))
            else:
                await in_thread(self._transactions.create_topic)
        except KafkaError as caught:
            host = request.peer.host
            if self._lines.is_due(host, str(caught)):
                _log.warning("coordinator-not-found host=%s reason=%s", host, caught)
            error = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(caught))
            return _of_each_key(request, lambda _: _nobody(error))
        return self._answer(request)

    def _answer(self, request: Request) -> dict[str, Any]:
        return _of_each_key(request, lambda key: self._found(request, key))

    def _found(self, request: Request, key: str) -> dict[str, Any]:
        shards = self._shards[request.values["keyType"]]
        try:
            shards.check_home(key)
        except Refusal as error:
            return _nobody(error)
        host, port = request.peer.advertised
        return {"nodeId": self._node.node_id, "host": host, "port": port}


def _nobody(error: Refusal) -> dict[str, Any]:
    return {**_NOBODY, **refused(error)}


def _of_each_key(request: Request, found: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Return an answer; a client takes one without the keys that it has asked for as malformed."""
    if request.version < _MANY_VERSION:
        return found(request.values["key"])
    keys = request.values["coordinatorKeys"]
    return {"coordinators": [{**found(key), "key": key} for key in keys]}
