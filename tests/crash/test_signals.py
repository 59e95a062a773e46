"""Programs under signals whose handlers raise, at random moments of whatever they do."""

from __future__ import annotations

import io
import os
import signal
import threading
import weakref
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.crash.children import in_child
from tests.machinery.scale import scaled

import tidelog
from tidelog.cli.commands import warm_command
from tidelog.cli.main import main
from tidelog.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from tests.conftest import Enumerated


class AlarmRang(Exception):
    """What a program's own handler raises; no error of tidelog or of a disk."""


SIGNALS: Final = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: SystemExit,
    signal.SIGALRM: AlarmRang,
}
PROGRAMS: Final = scaled(6)
ACTS: Final = 150
LONGEST_S: Final = 0.01
SETTINGS: Final = {"log.flush.scheduler.interval.ms": "1000", "log.segment.bytes": "1048576"}


class Signalled:
    """Calls acts; while it does, signals of one kind come, whose handler raises."""

    def __init__(self, number: signal.Signals, rng: Random) -> None:
        self.count = 0
        self._in_a_row = 0
        self._number = number
        self._rng = rng
        self._is_armed = False
        self._is_over = threading.Event()
        signal.signal(number, self._handle)
        threading.Thread(target=self._send, daemon=True).start()

    def call(self, act: Callable[[], object]) -> bool:
        """Return whether an act ended without an interrupt."""
        try:
            try:
                self._is_armed = True
                act()
            finally:
                self._is_armed = False
        except SIGNALS[self._number]:
            self.count += 1
            self._in_a_row += 1
            return False
        self._in_a_row = 0
        return True

    def stop(self) -> None:
        """Send no more."""
        self._is_over.set()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_armed:
            self._is_armed = False
            raise SIGNALS[self._number]

    def _send(self) -> None:
        # Ever longer, or no act would come to its end on a machine that is busy with others.
        while not self._is_over.wait(self._rng.random() ** 3 * LONGEST_S * (1 + self._in_a_row)):
            os.kill(os.getpid(), self._number)


class Program:
    """Appends, transacts, and transforms records of one topic exactly once; repeats what fails."""

    def __init__(self, path: Path, rng: Random, signalled: Signalled) -> None:
        self.logs = tidelog.open(path, config=SETTINGS)
        self._rng = rng
        self._signalled = signalled
        self._reader: tidelog.GroupReader | None = None
        self.acked: set[bytes] = set()
        self.done: set[bytes] = set()
        for topic, partitions in (("t", 2), ("u", 1), ("in", 1), ("out", 2)):
            self.logs.create_topic(topic, partitions)
        self.logs.append_all("in", [b"%d" % number for number in range(2_000)])

    def act(self, number: int) -> None:
        """Do one thing, under signals."""
        value = b"%d" % number
        kind = self._rng.randrange(4)
        if kind == 0 and self._signalled.call(lambda: self.logs.append("t", value)):
            self.acked.add(value)
        elif kind == 1:
            while not self._signalled.call(lambda: self._transact(value)):
                pass
            self.done.add(value)
        elif kind == 2:
            if not self._signalled.call(self._transform) and self._reader is not None:
                self._reader.rewind()
        elif kind == 3:
            self._signalled.call(self.logs.flush)

    def _transact(self, value: bytes) -> None:
        with self.logs.transaction(f"id {value.decode()}") as txn:
            for part in range(4):
                txn.append("t", b"%b/%d" % (value, part), partition=part % 2)
            txn.append("u", value)

    def _transform(self) -> None:
        if self._reader is None:
            self._reader = self.logs.reader("in", group="g")
        with self.logs.transaction() as txn:
            for _, record in zip(range(20), self._reader.read(), strict=False):
                txn.append("out", record.value, key=record.value)
            self._reader.commit(txn)

    def close(self) -> None:
        """Close all, without signals."""
        if self._reader is not None:
            self._reader.close()
        self.logs.close()


def look(logs: tidelog.Logs, program: Program, when: str) -> list[str]:
    """Return what is wrong with the records."""
    found = {
        topic: Counter(
            record.value or b""
            for partition in logs.partitions(topic)
            for record in partition.log.records()
        )
        for topic in ("t", "u", "out")
    }
    wrong = [
        f"{when}: twice in {topic}" for topic in found if max(found[topic].values(), default=1) > 1
    ]
    if lost := program.acked - set(found["t"]):
        wrong.append(f"{when}: lost {len(lost)}")
    parts = {b"%b/%d" % (value, part) for value in program.done for part in range(4)}
    if set(found["u"]) != program.done or parts - set(found["t"]):
        wrong.append(f"{when}: transactions are not whole")
    positions = logs.group_positions().get("g", {})
    position = sum(one.offset for one in positions.values())
    if set(found["out"]) != {b"%d" % number for number in range(position)}:
        wrong.append(f"{when}: results differ from position {position}")
    return wrong


def run(path: Path, seed: int, number: signal.Signals) -> tuple[int, list[str]]:
    """Run a program; return how often it was interrupted, and what is wrong."""
    rng = Random(seed)
    signalled = Signalled(number, Random(seed))
    program = Program(path, rng, signalled)
    for at in range(ACTS):
        program.act(at)
    signalled.stop()
    wrong = look(program.logs, program, "live")
    if program.logs.manager.live_dirs != [str(path)]:
        wrong.append("offline")
    program.close()
    left = [name for name in os.listdir(path) if name.endswith((".staged", ".intent", ".tmp"))]
    if left:
        wrong.append(f"left behind: {left}")
    with tidelog.open(path, config=SETTINGS) as logs:
        wrong += look(logs, program, "reopened")
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said), suppress(SystemExit):
        if main(["verify", str(path)]):
            wrong.append(said.getvalue()[:500])
    return signalled.count, wrong


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)],
)
def test_a_signal_in_a_callback_of_a_weak_reference_ends_a_command(
    number: signal.Signals, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python drops what the handler raises there, as while modules are imported."""

    class Module:
        pass

    def interrupted(_args: object) -> int:
        module = Module()
        _reference = weakref.ref(module, lambda _: signal.raise_signal(number))
        del module
        signal.pause()
        return ExitCode.OK

    def command() -> int:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return main(["warm"])

    monkeypatch.setattr(warm_command, "run", interrupted)

    assert in_child(command, timeout_s=20) == code


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_program_under_signals_loses_and_repeats_nothing(
    number: signal.Signals, tmp_path: Path, enumerated: Enumerated
) -> None:
    """Appends, transactions that are repeated, and a group that commits with its results."""
    first = Random().getrandbits(32)
    interrupts, problems = 0, {}
    for seed in range(first, first + PROGRAMS):
        told: Any = in_child(partial(run, tmp_path / str(seed), seed, number))
        if isinstance(told, str) or told[1]:
            problems[seed] = told
        else:
            interrupts += told[0]

    assert problems == {}
    enumerated(f"interrupts by {number.name}", interrupts, at_least=PROGRAMS)
