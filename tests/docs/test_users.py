"""Five users who know the docs only; each page of ``users`` is what one of them tries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

USERS: Final = Path(__file__).parent / "users"
GOLDEN: Final = Path(__file__).parents[1] / "golden" / "data"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("user", ["program", "operator", "analyst"])
def test_each_step_of_a_user_works_at_the_first_try(
    user: str, run_page: Callable[..., Any]
) -> None:
    """A program that wants a durable log, an operator of a broken broker, an analyst."""
    run_page(USERS / f"{user}.md", {"GOLDEN": str(GOLDEN)})


@pytest.mark.spark
def test_each_step_of_a_data_engineer_works_at_the_first_try(
    run_page: Callable[..., Any], spark: SparkSession
) -> None:
    """Somebody whose jobs read and write Kafka, and shall do without a broker."""
    try:
        run_page(USERS / "engineer.md", with_spark=True)
    finally:
        spark.sql("DROP TABLE IF EXISTS orders_log")
