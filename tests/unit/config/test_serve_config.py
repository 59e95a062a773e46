"""Settings of the listeners."""

from __future__ import annotations

import pytest

from tidelog.config.serve_config import Endpoint, ServeConfig
from tidelog.errors import InvalidConfig


@pytest.mark.parametrize(
    "address",
    ["PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://[::]:9092", "broker.example:0"],
)
def test_an_address_that_leads_nowhere_is_not_advertised(address: str) -> None:
    """Clients would be sent to their own machine, or to no port at all."""
    with pytest.raises(InvalidConfig, match=r"advertised\.listeners"):
        ServeConfig.parse({"advertised.listeners": address})
    listening = ServeConfig.parse({"listeners": address})

    assert listening.advertised == [None]


def test_an_address_to_connect_to_is_advertised() -> None:
    """A name, and addresses of both kinds."""
    for text, host in (("broker.example", "broker.example"), ("[fd00::1]", "fd00::1")):
        config = ServeConfig.parse({"advertised.listeners": f"PLAINTEXT://{text}:9092"})

        assert [Endpoint(host, 9092)] == config.advertised
