"""A broker answers its clients while kernels are loaded, which takes long where none is cached."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tidelog.broker import server
from tidelog.kernels.runtime import gate
from tidelog.testing import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

PATIENCE_S = 30


def test_clients_are_answered_while_kernels_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are loaded on another thread, once they pay."""
    from confluent_kafka import Producer

    loaded_by: list[str] = []
    begun, released = threading.Event(), threading.Event()

    def load() -> bool:
        loaded_by.append(threading.current_thread().name)
        return True

    own = gate.Gate(load)

    def slowly() -> Iterator[str]:
        own.load()
        begun.set()
        assert released.wait(PATIENCE_S)
        yield from ()

    monkeypatch.setattr(gate, "_GATE", own)
    monkeypatch.setattr(gate, "LOADING_PAYS_BYTES", 20_000)
    monkeypatch.setattr(server, "load_all", slowly)
    with KafkaBroker(tmp_path) as broker:
        broker.logs.create_topic("t")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

        def produce(count: int) -> None:
            for _ in range(count):
                producer.produce("t", b"x")
                assert producer.flush(PATIENCE_S) == 0

        try:
            produce(50)
            assert begun.wait(PATIENCE_S)
            produce(50)
            assert len(loaded_by) == 1
            assert loaded_by != ["broker"]
        finally:
            released.set()
        assert len(list(broker.logs.read("t"))) == 100
