"""A store in memory whose answers are lost and whose writes come late, for models of an archive."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import ObjectNotFound, StoreError, StoreUnavailable
from tidelog.store.objects import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Late(NamedTuple):
    """A request that the store carries out later; ``data`` None: a deletion."""

    name: str
    data: bytes | None


class ObjectModel:
    """As ``ObjectStore``; ``chance`` is that of a fault in a request that changes something."""

    def __init__(self, rng: Random, chance: float = 0.0) -> None:
        self.name = "memory://"
        self.rng = rng
        self.chance = chance
        self.objects: dict[str, bytes] = {}
        self.times: dict[str, int] = {}
        """When objects were written, in ms; 0 for others."""
        self.late: list[Late] = []
        self.requests = 0

    def tick(self) -> None:
        """Carry out one of the late requests, perhaps."""
        if self.late and self.rng.random() < 0.3:
            self._carry_out(self.late.pop(self.rng.randrange(len(self.late))))

    def settle(self) -> None:
        """Carry out all of them."""
        while self.late:
            self._carry_out(self.late.pop())

    def _carry_out(self, late: Late) -> None:
        if late.data is None:
            self.objects.pop(late.name, None)
        else:
            self.objects.setdefault(late.name, late.data)

    def get(self, name: str) -> bytes:
        """Return a whole object."""
        self.requests += 1
        if name not in self.objects:
            raise ObjectNotFound(name)
        return self.objects[name]

    def head(self, name: str) -> ObjectInfo | None:
        """Return what is known of an object."""
        self.requests += 1
        if name not in self.objects:
            return None
        modified_ms = self.times.get(name, 0)
        return ObjectInfo(name, len(self.objects[name]), f"tag of {name}", modified_ms)

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges."""
        data = self.get(name)
        if any(end > len(data) for _, end in ranges):
            raise StoreError(f"{name} is shorter")
        return [data[start:end] for start, end in ranges]

    def create(self, name: str, data: bytes) -> bool:
        """Create an object; the outcome may stay unknown."""
        for _ in range(5):
            self.requests += 1
            if self.rng.random() >= self.chance:
                self.objects.setdefault(name, data)
                return self.objects[name] == data
            kind = self.rng.randrange(3)
            if kind == 0:
                self.objects.setdefault(name, data)
            elif kind == 1:
                self.late.append(Late(name, data))
            self.tick()
            if name in self.objects:
                return self.objects[name] == data
        raise StoreUnavailable(f"whether {name} was created is unknown")

    def put(self, name: str, parts: Iterable[bytes], size_bytes: int) -> ObjectInfo:
        """Write an object."""
        self.requests += 1
        data = b"".join(parts)
        if len(data) != size_bytes:
            raise StoreError(f"{name} has another size")
        if self.rng.random() < self.chance:
            self.late.append(Late(name, data))
            raise StoreUnavailable(name)
        self.objects[name] = data
        return ObjectInfo(name, len(data), f"tag of {name}", 0)

    def delete(self, name: str) -> None:
        """Delete an object, at once or later."""
        self.requests += 1
        if self.rng.random() < self.chance:
            self.late.append(Late(name, None))
            raise StoreUnavailable(name)
        self.objects.pop(name, None)

    def directories(self, prefix: str = "") -> list[str]:
        """Return the names of the directories in a directory."""
        start = f"{prefix}/" if prefix else ""
        below = [name.removeprefix(start) for name in self.objects if name.startswith(start)]
        return sorted({name.partition("/")[0] for name in below if "/" in name})

    def list(self, prefix: str = "", after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield objects in order of names."""
        self.requests += 1
        start = f"{prefix}/" if prefix else ""
        for name in sorted(self.objects):
            if name.startswith(start) and (after is None or name > after):
                size = len(self.objects[name])
                yield ObjectInfo(name, size, f"tag of {name}", self.times.get(name, 0))


class Timed(ObjectModel):
    """A store whose clock stands still until a test moves it."""

    now_ms = 0

    def create(self, name: str, data: bytes) -> bool:
        """Create an object."""
        self.times.setdefault(name, self.now_ms)
        return super().create(name, data)

    def put(self, name: str, parts: Iterable[bytes], size_bytes: int) -> ObjectInfo:
        """Write an object."""
        self.times.setdefault(name, self.now_ms)
        return super().put(name, parts, size_bytes)


class Stopping(ObjectModel):
    """A store before whose request of a number the process ends."""

    def __init__(self, left: int) -> None:
        super().__init__(Random(left))
        self.left = left

    def stop(self) -> None:
        """End the process if it is time."""
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def create(self, name: str, data: bytes) -> bool:
        """Create an object."""
        self.stop()
        made = super().create(name, data)
        self.stop()
        return made

    def put(self, name: str, parts: Iterable[bytes], size_bytes: int) -> ObjectInfo:
        """Write an object."""
        self.stop()
        made = super().put(name, parts, size_bytes)
        self.stop()
        return made

    def delete(self, name: str) -> None:
        """Delete an object."""
        self.stop()
        super().delete(name)
        self.stop()
