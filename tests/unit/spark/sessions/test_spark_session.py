"""The settings of a Spark session that reads and writes logs."""

from __future__ import annotations

import os
import stat

import pytest

import tidelog.spark
from tidelog.spark.sessions.spark_session import (
    CHECKPOINT_FILES,
    COLLECTOR,
    MAX_SOCKET_FOLDER,
    SOCKET_FOLDER,
    SOCKETS,
    UNCHECKED,
    WITHOUT_CHECKSUM_FILES,
    conf_for,
    local_conf,
    session_conf,
)


def test_settings_for_a_cluster_name_nothing_of_this_machine() -> None:
    """Settings for any cluster contain neither a path nor an interpreter of this machine."""
    conf = session_conf()

    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert not any("/" in value for value in conf.values())
    assert tidelog.spark.session_conf() == conf


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_a_session_on_a_cluster_gets_the_settings_for_any_cluster(master: str) -> None:
    """Settings for one machine, above all its folders, are set for a local master only."""
    assert session_conf() == conf_for(master)


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,512]"])
def test_a_local_session_keeps_checkpoints_without_checksum_files(master: str) -> None:
    """Spark asks for checkpoint files without checksum files; a local session complies."""
    conf = conf_for(master)

    assert conf[CHECKPOINT_FILES] == WITHOUT_CHECKSUM_FILES
    assert conf.keys() == local_conf().keys()


@pytest.mark.skipif(os.name != "posix", reason="unix domain sockets")
def test_workers_talk_over_sockets_in_a_private_folder() -> None:
    """Sockets are in a folder that only this user may enter, with a path that is short enough."""
    conf = local_conf()

    assert conf[SOCKETS] == "true"
    folder = conf[SOCKET_FOLDER]
    assert len(os.fsencode(folder)) <= MAX_SOCKET_FOLDER
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_a_collector_that_the_environment_selects_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Java fails with two collectors, so ours is left out if the environment selects one."""
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)

    assert COLLECTOR in local_conf()["spark.driver.extraJavaOptions"]

    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+UseZGC")

    assert local_conf()["spark.driver.extraJavaOptions"] == UNCHECKED


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    """Names load lazily, but an unknown one fails as in any module."""
    with pytest.raises(AttributeError, match="tables"):
        _ = tidelog.spark.tables
