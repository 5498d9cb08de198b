"""Reports are written whole or not at all."""

import os
import stat

import pytest

from warplint_reports import write


def test_replaces_and_leaves_nothing_behind(tmp_path):
    target = tmp_path / "deep" / "report.json"
    write.write_atomically(str(target), "one\n")
    write.write_atomically(str(target), "two é\n")
    assert target.read_text(encoding="utf-8") == "two é\n"
    assert os.listdir(target.parent) == ["report.json"]


def test_old_content_survives_a_failure(tmp_path, monkeypatch):
    target = tmp_path / "report.json"
    target.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write.os, "replace", fail)
    with pytest.raises(OSError):
        write.write_atomically(str(target), "new")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.json"]


def test_permissions(tmp_path):
    target = tmp_path / "report.json"
    write.write_atomically(str(target), "x")
    (tmp_path / "plain").write_text("x")
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    target.chmod(0o640)
    write.write_atomically(str(target), "y")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_through_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "report.json")
    write.write_atomically(str(tmp_path / "link.json"), "x")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real" / "report.json").read_text() == "x"


def test_a_device_is_written_to():
    write.write_atomically("/dev/null", "x")
    assert not os.path.isfile("/dev/null")


def test_characters_that_utf8_lacks(tmp_path):
    write.write_atomically(str(tmp_path / "x"), "\ud800")
    assert (tmp_path / "x").read_bytes() == b"\\ud800"
