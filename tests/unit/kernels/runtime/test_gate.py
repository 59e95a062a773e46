"""When compiled kernels are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from copy import copy
from importlib.machinery import ModuleSpec
from itertools import count
from types import ModuleType

import pytest

from tidelog.kernels.runtime import gate
from tidelog.kernels.runtime.cache import kernel_sources
from tidelog.kernels.runtime.gate import KERNEL_MODULES, LOADING_PAYS_BYTES, Gate, warm


class Loader:
    """Stands in for numba; ``calls`` counts how often it was loaded."""

    def __init__(self, *, works: bool = True) -> None:
        self.works = works
        self.calls = 0

    def __call__(self) -> bool:
        """Load it."""
        self.calls += 1
        return self.works


def test_a_little_work_is_done_in_plain_python() -> None:
    """As long as all pieces together are below the limit, nothing is loaded."""
    loader = Loader()
    own = Gate(loader)

    chosen = [own.use_kernels(LOADING_PAYS_BYTES // 4) for _ in range(3)]

    assert (chosen, loader.calls) == ([False] * 3, 0)


def test_kernels_are_loaded_once_plain_work_would_have_paid_for_them() -> None:
    """The piece that reaches the limit loads the kernels; after that even small pieces use them."""
    loader = Loader()
    own = Gate(loader)

    chosen = [own.use_kernels(LOADING_PAYS_BYTES // 2) for _ in range(2)]

    assert (chosen, own.use_kernels(1), loader.calls) == ([False, True], True, 1)


def test_one_great_piece_loads_them_at_once() -> None:
    """A piece that reaches the limit by itself is not begun in plain Python."""
    assert Gate(Loader()).use_kernels(LOADING_PAYS_BYTES)


def test_a_question_counts_no_work() -> None:
    """Asking whether kernels would be used does not add to the plain work."""
    loader = Loader()
    own = Gate(loader)
    half = LOADING_PAYS_BYTES // 2

    asked = [own.would_use(half) for _ in range(3)]

    assert (asked, own.use_kernels(half), loader.calls) == ([False] * 3, False, 0)
    assert own.would_use(half)


def test_without_numba_all_is_plain() -> None:
    """If loading fails, it is not tried again."""
    loader = Loader(works=False)
    own = Gate(loader)

    chosen = [own.use_kernels(LOADING_PAYS_BYTES) for _ in range(3)]

    assert (chosen, loader.calls) == ([False] * 3, 1)


@pytest.mark.parametrize(
    ("choice", "works", "expected"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_a_test_can_choose(*, choice: bool, works: bool, expected: bool) -> None:
    """A forced choice applies to any work, as long as numba works at all."""
    own = Gate(Loader(works=works))
    own.force(choice)

    assert [own.use_kernels(1), own.use_kernels(LOADING_PAYS_BYTES)] == [expected] * 2


def test_a_choice_can_be_taken_back() -> None:
    """After None, the rule applies again."""
    own = Gate(Loader())
    own.force(True)
    own.force(None)

    assert not own.use_kernels(1)


def test_a_thread_that_must_not_wait_asks_instead() -> None:
    """It loads nothing, whatever the work; where kernels do not work it does not even ask."""
    loader, asked = Loader(), []
    own = Gate(loader)
    end = own.ask_instead(lambda: asked.append("load them"))

    assert not own.use_kernels(LOADING_PAYS_BYTES - 1)
    assert not asked
    assert not own.use_kernels(LOADING_PAYS_BYTES)
    assert (len(asked), loader.calls) == (1, 0)
    own.is_whole = True  # another thread has loaded all
    assert own.use_kernels(1)
    end()

    broken = Gate(Loader(works=False))
    broken.load()
    broken.ask_instead(lambda: asked.append("load them"))
    assert not broken.use_kernels(LOADING_PAYS_BYTES)
    assert len(asked) == 1


def test_a_child_of_a_process_that_was_loading_kernels_uses_none() -> None:
    """The locks that the loading thread held are never released in a forked child."""
    forked: list[bool] = []

    def load() -> bool:
        child = copy(own)
        child.after_fork()
        forked.append(child.use_kernels(LOADING_PAYS_BYTES))
        return True

    own = Gate(load)
    assert own.use_kernels(LOADING_PAYS_BYTES)
    assert forked == [False]

    loading = Gate(Loader())
    loading.is_whole = True
    half = ModuleType("tidelog.kernels.half")
    half.__spec__ = spec = ModuleSpec(half.__name__, None)
    spec._initializing = True  # type: ignore[attr-defined]  # as the import system does
    sys.modules[half.__name__] = half
    try:
        loading.after_fork()
    finally:
        del sys.modules[half.__name__]

    assert not loading.use_kernels(LOADING_PAYS_BYTES)


def test_a_fork_while_nothing_is_loaded_changes_nothing() -> None:
    """A child loads kernels as any process."""
    own = Gate(Loader())
    own.after_fork()

    assert own.use_kernels(LOADING_PAYS_BYTES)


def test_others_load_where_one_thread_asks() -> None:
    """Only the thread that must not wait asks; after the end it loads, too."""
    loader = Loader()
    own = Gate(loader)
    end = own.ask_instead(lambda: None)
    end()

    assert own.use_kernels(LOADING_PAYS_BYTES)
    assert loader.calls == 1


def test_warm_loads_every_module_and_times_it() -> None:
    """Each module comes with the seconds since the previous one."""
    ticks = count(0, 10**9)

    warmed = warm(lambda: next(ticks))

    assert warmed == [(name, 1.0) for name in KERNEL_MODULES]


def test_every_module_with_kernels_is_known() -> None:
    """``warm`` covers every module that has kernels."""
    found = {
        name.removesuffix(".py").replace("/", ".")
        for name, text in kernel_sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name)
        if decorator.func.id == "kernel"
    }

    assert found == set(KERNEL_MODULES)


def test_asking_loads_no_numba() -> None:
    """A short command that asks the gate does not import numba."""
    code = (
        "import sys; from tidelog.kernels.runtime import gate; assert not gate.use_kernels(1000); "
        "sys.exit('numba' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_process_has_one_gate() -> None:
    """The module's functions share their state; this test resets it afterwards."""
    gate.force(False)
    chosen = gate.use_kernels(LOADING_PAYS_BYTES)
    gate.force(None)

    assert not chosen
