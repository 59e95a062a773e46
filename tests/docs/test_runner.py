"""What runs the code blocks of pages notices a block that does not do what the page shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGE = """
```sh
mkdir "a b"; cd "a b"     # what follows runs in it

# A comment.
name='two
lines'
cat > file <<END
$name
END
```

```console
$ echo "$name" | wc -l
2
$ cat file; \\
  false                   # exit code 1
two
...
$ basename "$PWD"
a b
```

```python
numbers = [1, 2]
```

And then, with the names of the block above:

```python
print(sum(numbers), "records", flush=True)
```

```text
3 rec...
```

A picture, which is not compared with anything:

```text
a ──▶ b
```

<!-- not run: it takes too long -->
```sh
sleep 10000
```

<!-- run with: a_module_that_nobody_has -->
```python
import a_module_that_nobody_has
```

<!-- run with: json -->
```python
import json
```
"""


@pytest.fixture
def run_text(run_page: Callable[..., Any], tmp_path: Path) -> Callable[[str], Any]:
    """Run a page that is given as text."""

    def run(text: str) -> Any:
        page = tmp_path / "page.md"
        page.write_text(text, "utf-8")
        return run_page(page)

    return run


def test_a_page_runs_as_a_reader_would_run_it(run_text: Callable[[str], Any]) -> None:
    """Commands share a shell, Python blocks their names; outputs are those that the page shows."""
    ran = run_text(PAGE)

    assert ran.ran == 5


@pytest.mark.parametrize(
    ("shown", "other"),
    [
        ("wc -l\n2", "wc -l\n3"),
        ("# exit code 1", "# as it should"),
        ("two\n...", "two"),
        ("3 rec...", "4 rec..."),
        ("[1, 2]", "[1, 3]"),
        ("print(", "print(unknown, "),
        ("cd ", "cd not-"),
        ("basename", "basenam"),
    ],
)
def test_a_page_that_shows_something_else_fails(
    shown: str, other: str, run_text: Callable[[str], Any]
) -> None:
    """Another output, another exit code, an error in a block: each fails."""
    assert PAGE.count(shown) == 1

    with pytest.raises((AssertionError, NameError)):
        run_text(PAGE.replace(shown, other))


def test_a_block_of_an_unknown_language_fails(run_text: Callable[[str], Any]) -> None:
    """Code that nothing runs is noticed."""
    with pytest.raises(AssertionError, match="bash"):
        run_text("```bash\ntrue\n```\n")
