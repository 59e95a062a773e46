"""Sends damaged requests to a broker without sockets, guided by what they reach: `make fuzz`.

An input is the number of a kind of request, a version, and a body. Whatever it is, the broker
answers, refuses or closes the connection: another exception, ten seconds, or more memory than is
allowed ends the run, and leaves the input in the folder of findings. The first inputs are valid
requests of every kind and version, with random values.

    python tools/fuzz/broker_requests.py FOLDER [options of libFuzzer, such as -max_total_time=3600]
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import atheris

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # for what tests share

with atheris.instrument_imports(include=["tidelog.broker", "tidelog.codec", "tidelog.records"]):
    from tests.machinery.broker_home import PEER, BrokerHome
    from tests.machinery.random_messages import values_of

    from tidelog.broker.client_request import Disconnect
    from tidelog.broker.dispatch import Pending
    from tidelog.codec.messages import function_text
    from tidelog.codec.protocol.apis import apis
    from tidelog.errors import InvalidRecord
    from tidelog.records.file_records import FileSlice

SEED = 20261128
INPUTS_OF_A_BROKER = 2000
"""After as many it is replaced: topics and groups would pile up."""
TURNS = 30
"""Of the event loop, for answers that come later; those that wait for others are given up."""
KINDS = [
    (api, version)
    for api in apis().values()
    for version in range(api.first_version, api.last_version + 1)
]


class Target:
    """Takes one input after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._home: BrokerHome | None = None
        self._count = 0

    def take(self, data: bytes) -> None:
        """Let the broker answer an input."""
        if len(data) > 1:
            self._loop.run_until_complete(self._take(data))

    async def _take(self, data: bytes) -> None:
        api, version = KINDS[int.from_bytes(data[:2], "big") % len(KINDS)]
        frame = api.request_header(version, 7, "fuzz") + data[2:]
        home = await self._broker()
        try:
            answer = home.broker.dispatcher.handle(memoryview(bytearray(frame)), PEER)
        except (Disconnect, InvalidRecord):
            return
        if isinstance(answer, Pending):
            answer = await self._later(answer)
        for part in answer or ():
            if isinstance(part, FileSlice):
                part.close()

    async def _later(self, answer: Pending) -> list[Any] | None:
        task = asyncio.ensure_future(answer.parts())
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if task.done():
                with suppress(Disconnect, InvalidRecord):
                    return task.result()
                return None
        task.cancel()
        with suppress(asyncio.CancelledError, Disconnect, InvalidRecord):
            return await task
        return None

    async def _broker(self) -> BrokerHome:
        self._count += 1
        if self._home is None or self._count % INPUTS_OF_A_BROKER == 0:
            if self._home is not None:
                await self._home.__aexit__(None, None, None)
            self._home = await BrokerHome().__aenter__()
            self._home.logs.create_topic("t")
        return self._home


def write_first_inputs(folder: Path) -> None:
    """Write a valid request of each kind and version, if there are none yet."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return
    rng = random.Random(SEED)  # noqa: S311 - the same inputs each time, no secrets
    for number, (api, version) in enumerate(KINDS):
        values = values_of(api._requests[version], rng)  # noqa: SLF001 - as tests do
        body = b"".join(api.write_request(version, values))
        (folder / f"{api.name}-{version}").write_bytes(number.to_bytes(2, "big") + body)


def main() -> None:
    """Fuzz until an option of libFuzzer says to end."""
    folder = Path(sys.argv[1])
    write_first_inputs(folder / "inputs")
    (folder / "findings").mkdir(exist_ok=True)
    logging.disable(logging.CRITICAL)
    compiled = function_text.FunctionText.compiled

    def instrumented(self: Any, arguments: str) -> Any:  # noqa: ANN401 - as what it replaces
        return atheris.instrument_func(compiled(self, arguments))

    function_text.FunctionText.compiled = instrumented  # type: ignore[method-assign]  # what it compiles is to be seen, too
    target = Target()
    given = [f"-artifact_prefix={folder / 'findings'}/", "-timeout=10", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *given, *sys.argv[2:], str(folder / "inputs")], target.take)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
