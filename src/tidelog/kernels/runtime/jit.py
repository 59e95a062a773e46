"""The only import of numba: decorators that compile functions as kernels.

Without a usable numba, or on a big-endian machine, the decorators change nothing and the same
functions run as Python: correct but slow, so ``gate`` avoids them. Some of what is used here is
private to numba. If a release changes it, ``gate`` falls back to plain code, and if only the cache
is affected, each process compiles its kernels.

A signature gives the types of all arguments, so a module compiles its kernels when it is imported
and never again: an argument of another type is a TypeError. ``BYTES`` also accepts writable arrays.
"""

from __future__ import annotations

import inspect
import logging
import pickle
import sys
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from tidelog.errors import CorruptFile
from tidelog.kernels.runtime.cache import cache_folder
from tidelog.kernels.runtime.callbacks import raising_interrupts
from tidelog.kernels.runtime.gate import notify_compiling

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    import llvmlite
    import llvmlite.binding
    import llvmlite.ir
    import numba as _numba

    numba: Any = _numba  # its types change between releases; callers see the kernels' own types
    ir: Any = llvmlite.ir
    UNUSABLE: str | None = None
    """Why kernels cannot be compiled here; None if they can."""
    if sys.byteorder != "little":
        UNUSABLE = "the machine is big-endian"
    elif numba.config.DISABLE_JIT:
        UNUSABLE = "NUMBA_DISABLE_JIT is set"
except Exception as _error:  # noqa: BLE001 - an unsupported NumPy, or a library that cannot be loaded
    UNUSABLE = f"{type(_error).__name__}: {_error}"
HAVE_NUMBA: bool = UNUSABLE is None

_log = logging.getLogger(__name__)

F = TypeVar("F", bound="Callable[..., Any]")

BYTES: Final = "Array(uint8, 1, 'C', readonly=True)"
WRITABLE_BYTES: Final = "Array(uint8, 1, 'C')"
INT32S: Final = "Array(int32, 1, 'C', readonly=True)"
WRITABLE_INT32S: Final = "Array(int32, 1, 'C')"
INT64S: Final = "Array(int64, 1, 'C', readonly=True)"
WRITABLE_INT64S: Final = "Array(int64, 1, 'C')"
TABLE: Final = "Array(int64, 2, 'C', readonly=True)"
WRITABLE_TABLE: Final = "Array(int64, 2, 'C')"


def give_up() -> None:
    """Compile no more kernels: from now on the decorators change nothing."""
    global HAVE_NUMBA  # noqa: PLW0603 - one decision for the process
    HAVE_NUMBA = False


def kernel(signature: str) -> Callable[[F], F]:
    """Compile a loop over arrays that Python calls; ``signature`` is numba's, and the only one."""

    def decorate(function: F) -> F:
        if not HAVE_NUMBA:
            return function
        made: Any = numba.njit(nogil=True)(function)
        if not _keep_in_cache(made):
            notify_compiling(_name_of(function))
        with raising_interrupts():
            made.compile(signature)
        notify_compiling(None)
        made.disable_compile()
        return made  # type: ignore[no-any-return]  # called as ``function`` is

    return decorate


def inlined(function: F) -> F:
    """Compile a small function on numbers that is inlined into the kernels that call it.

    Called from Python it runs as Python, so that a kernel's ``py_func`` is plain Python throughout.
    """
    return _callee(function, forceinline=True)


def called(function: F) -> F:
    """Compile a function that kernels call without inlining it, such as a loop."""
    return _callee(function, forceinline=False)


def _callee(function: F, *, forceinline: bool) -> F:
    """Compile ``function`` when a kernel first needs it, without an entry point from Python."""
    if not HAVE_NUMBA:
        return function
    made: Any = numba.njit(
        nogil=True, forceinline=forceinline, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(function)
    made.__class__ = type("Callee", (type(made),), {"__call__": staticmethod(function)})
    return made  # type: ignore[no-any-return]  # called as ``function`` is


def native(result: str, plain: F) -> Callable[[Callable[..., Any]], F]:
    """Decorate ``build(builder, *values)``, which emits the LLVM code of one operation.

    Numbers are passed as int64, arrays as they are; ``result`` names numba's type of the result.
    ``plain`` is the same operation in Python, which callers outside kernels get.
    """

    def in_python(*values: Any) -> Any:  # noqa: ANN401 - the types of ``plain``
        return plain(*(value if hasattr(value, "ctypes") else int(value) for value in values))

    def decorate(build: Callable[..., Any]) -> F:
        if not HAVE_NUMBA:
            return cast("F", in_python)

        def typed(_context: Any, *arguments: Any) -> Any:  # noqa: ANN401 - numba's own types
            is_array = numba.types.Array
            words = [a if isinstance(a, is_array) else numba.types.int64 for a in arguments]

            def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401 - numba's own types
                pairs = zip(signature.args, values, strict=True)
                return build(
                    builder,
                    *(
                        context.make_array(kind)(context, builder, value).data
                        if isinstance(kind, is_array)
                        else value
                        for kind, value in pairs
                    ),
                )

            return getattr(numba.types, result)(*words), emit

        typed.__name__ = build.__name__
        first, *_ = inspect.signature(typed).parameters.values()
        named = inspect.signature(plain).parameters.values()
        typed.__signature__ = inspect.Signature((first, *named))  # type: ignore[attr-defined]  # numba requires named arguments
        made: Any = numba.extending.intrinsic(typed)
        made.__class__ = type("Native", (type(made),), {"__call__": staticmethod(in_python)})
        return made  # type: ignore[no-any-return]  # called as ``plain`` is

    return decorate


def llvm_type(bits: int) -> Any:  # noqa: ANN401 - llvmlite's own types
    """Return LLVM's integer type of ``bits`` bits."""
    return ir.IntType(bits)


def llvm_void() -> Any:  # noqa: ANN401 - llvmlite's own types
    """Return LLVM's void type."""
    return ir.VoidType()


def llvm_vector(bytes_: int) -> Any:  # noqa: ANN401 - llvmlite's own types
    """Return LLVM's type of a vector of ``bytes_`` bytes."""
    return ir.VectorType(ir.IntType(8), bytes_)


def llvm_words(count: int) -> Any:  # noqa: ANN401 - llvmlite's own types
    """Return LLVM's type of a vector of ``count`` 64-bit words."""
    return ir.VectorType(ir.IntType(64), count)


def call_llvm(builder: Any, name: str, result: Any, values: list[Any]) -> Any:  # noqa: ANN401 - llvmlite's own types
    """Emit a call of an LLVM intrinsic."""
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(builder.module.declare_intrinsic(name, fnty=kind), values)


def call_address(builder: Any, address: Any, result: Any, values: list[Any]) -> Any:  # noqa: ANN401 - llvmlite's own types
    """Emit a call of the C function at an address, an int64; its arguments are integers."""
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(builder.inttoptr(address, kind.as_pointer()), values)


def llvm_constant(bits: int, value: int) -> Any:  # noqa: ANN401 - llvmlite's own types
    """Return an LLVM integer constant."""
    return ir.Constant(ir.IntType(bits), value)


def cpu_has(feature: str) -> bool:
    """Return whether kernels may use this CPU feature (LLVM's name) on the target CPU."""
    if not HAVE_NUMBA:
        return False
    if numba.config.CPU_NAME or numba.config.CPU_FEATURES:  # compiling for another CPU
        return f"+{feature}" in (numba.config.CPU_FEATURES or "").split(",")
    try:
        return bool(llvmlite.binding.get_host_cpu_features().get(feature))
    except RuntimeError:  # LLVM cannot detect the features here
        return False


@cache
def _folder() -> str | None:
    """Return the cache folder for this numba; its name depends on the settings that affect code."""
    settings = (numba.config.BOUNDSCHECK, numba.config.OPT, numba.config.DEBUGINFO_DEFAULT)
    return cache_folder(numba.__version__, llvmlite.__version__, repr(settings))


def _name_of(function: Any) -> str:  # noqa: ANN401 - a function of any type
    """Return a kernel's name with that of its module, as in ``scan.find_batches``."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def _keep_in_cache(dispatcher: Any) -> bool:  # noqa: ANN401 - numba's own type
    """Cache the code of ``dispatcher`` in our folder; numba's settings are left unchanged.

    Returns whether it is cached; if so, a listener is notified where the code is not there.
    """
    folder = _folder()
    if folder is None:
        return False
    try:
        kept = _kernel_cache(dispatcher.py_func, folder)
    except Exception as error:  # noqa: BLE001 - whatever a release of numba has changed
        _report_no_cache(f"{type(error).__name__}: {error}")
        return False
    dispatcher._cache = kept  # noqa: SLF001 - numba has no public way to cache in a folder of one's own
    return True


@cache
def _report_no_cache(reason: str) -> None:
    """Log, once, that this process compiles its kernels."""
    _log.warning("kernels-not-cached reason=%s", reason)


def _contents(caching: Any, locator: Any) -> Any:  # noqa: ANN401 - numba's own types
    """Return what numba keeps of a kernel: its code, with a checksum and the CPU that it is for.

    Numba runs whatever is in a file: part of it may be zeros after a power cut, and where machines
    with different CPUs share a folder and compile at once, it may be the code for another one.
    """

    class Contents(caching.CompileResultCacheImpl):  # type: ignore[misc]  # numba is untyped
        _locator_classes = (locator,)

        def reduce(self, cres: Any) -> tuple[bytes, Any, bytes]:  # noqa: ANN401 - as above
            code = caching.dumps(super().reduce(cres))
            return sha256(code).digest(), cres.codegen.magic_tuple(), code

        def rebuild(self, target_context: Any, payload: tuple[bytes, Any, bytes]) -> Any:  # noqa: ANN401 - as above
            digest, cpu, code = payload
            if digest != sha256(code).digest() or cpu != target_context.codegen().magic_tuple():
                raise CorruptFile("a cached kernel is damaged, or not for this CPU")
            return super().rebuild(target_context, pickle.loads(code))  # noqa: S301 - in a private folder

    return Contents


def _kernel_cache(function: Any, folder: str) -> Any:  # noqa: ANN401 - numba's own types
    """Return numba's cache for one function, in ``folder``; loading and saving never raise."""
    from numba.core import caching as private  # noqa: PLC0415 - its failure is not numba's

    caching: Any = private

    class Locator(caching._CacheLocator):  # type: ignore[misc]  # noqa: SLF001 - as above; numba is untyped
        """Puts the files into ``folder``, whose name already identifies the sources."""

        def get_cache_path(self) -> str:
            return folder

        def get_source_stamp(self) -> str:
            return folder

        def get_disambiguator(self) -> str:
            return str(function.__code__.co_firstlineno)

        @classmethod
        def from_function(cls, _function: Any, _path: str) -> Locator:  # noqa: ANN401 - numba's own type
            return cls()

    class KernelCache(caching.Cache):  # type: ignore[misc]  # numba is untyped
        _impl_class = _contents(caching, Locator)

        def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401 - numba's own types
            found = None
            try:
                found = super().load_overload(sig, target_context)
            except Exception:  # noqa: BLE001 - whatever is wrong with a cached file: compile again
                with suppress(OSError):
                    self.flush()
            if found is None:
                notify_compiling(_name_of(function))
            return found

        def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ANN401 - numba's own types
            try:
                super().save_overload(sig, data)
            except Exception:  # noqa: BLE001 - the code is compiled, and is only not kept
                self.disable()

    return KernelCache(function)
