"""The cache: equal reports, a key that covers what a report depends on, and no way to load anything else from it."""

import hashlib
import os
import pickle
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.gate.kernels import BAD, GOOD
from warplint import cache as module
from warplint.cache import Cache
from warplint.engine import Settings, lint_bytes
from warplint.finding import FileReport

DATA = BAD.encode()
ARTIFACTS = Path(__file__).parents[2] / "fixtures" / "artifacts"


@pytest.fixture
def cache(tmp_path):
    return Cache(str(tmp_path / "cache"))


def stored(cache, data=DATA, settings=None, **changes):
    settings = settings or Settings()
    report = replace(lint_bytes("k.cu", data, settings), **changes)
    key = cache.key("k.cu", data, settings)
    cache.store(key, report)
    return key, report


def entry(cache, key):
    return Path(cache.folder, key[:2], key[2:])


@pytest.mark.parametrize("settings", [Settings(), Settings(tree=True, tables=True)])
def test_what_is_read_is_what_was_stored(cache, settings):
    path = ARTIFACTS / "small_reduce.cu"
    key, report = stored(cache, path.read_bytes(), settings)
    assert report.kernels
    assert cache.load(key, path.read_bytes()) == report


def test_the_key_covers_name_bytes_settings_and_the_analyzer(cache, tmp_path, monkeypatch):
    key = cache.key("k.cu", DATA, Settings())
    assert key == Cache(str(tmp_path / "elsewhere")).key("k.cu", DATA, Settings())
    others = [
        cache.key("l.cu", DATA, Settings()),
        cache.key("k.cu", DATA + b" ", Settings()),
        cache.key("k.cu", DATA, Settings(block=(128, 1, 1))),
        cache.key("k.c", b"u" + DATA, Settings()),
    ]
    monkeypatch.setattr(module, "__version__", "9.9.9")
    others.append(Cache(str(tmp_path / "x")).key("k.cu", DATA, Settings()))
    assert len({key, *others}) == 6


def test_an_edited_rule_changes_the_stamp(tmp_path, monkeypatch):
    package = tmp_path / "my_rules"
    package.mkdir()
    (package / "__init__.py").write_text("A = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "PACKAGES", ("warplint", "my_rules"))
    cache = str(tmp_path / "cache")
    before = module.stamp(cache)
    assert module.stamp(cache) == module.stamp(str(tmp_path / "other")) == before
    (package / "__init__.py").write_text("A = 2\n")
    os.utime(package / "__init__.py", (1, 1))
    assert module.stamp(cache) != before
    (package / "__init__.py").write_text("A = 1\n")
    os.utime(package / "__init__.py", (2, 2))
    assert module.stamp(cache) == before, "installed once more, it is the same"


def test_a_damaged_stamp_is_not_believed(tmp_path):
    module._stamps.clear()
    before = module.stamp(str(tmp_path))
    (kept,) = (tmp_path / "stamps").iterdir()
    kept.write_bytes(b"half")
    module._stamps.clear()
    assert module.stamp(str(tmp_path)) == before


def test_a_header_that_changed_appears_or_goes_makes_an_entry_stale(cache, tmp_path):
    header, absent = tmp_path / "a.cuh", tmp_path / "b.cuh"
    header.write_text("int a;")
    read = ((str(header), module.digest_of(str(header))), (str(absent), ""))
    key, report = stored(cache, read=read)
    assert cache.load(key, DATA) == report
    absent.write_text("")
    assert cache.load(key, DATA) is None
    absent.unlink()
    assert cache.load(key, DATA) == report
    header.write_text("int b;")
    assert cache.load(key, DATA) is None


def test_problems_are_not_kept(cache):
    key = cache.key("k.cu", DATA, Settings())
    cache.store(key, FileReport("k.cu", problem="internal error"))
    assert not entry(cache, key).exists()


@pytest.mark.parametrize("at", [0, 5, 20, 60, -1])
def test_damaged_entries_are_not_read(cache, at):
    key, _ = stored(cache)
    path = entry(cache, key)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    assert cache.load(key, DATA) is None
    path.write_bytes(content[: len(content) // 2])
    assert cache.load(key, DATA) is None


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


@pytest.mark.parametrize("evil", [Evil(), {"a": Path("x")}, "no report", lint_bytes])
def test_an_entry_runs_no_code(cache, evil, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    key, _ = stored(cache)
    payload = zlib.compress(pickle.dumps(evil, protocol=5))
    entry(cache, key).write_bytes(module.FORMAT + hashlib.sha256(payload).digest() + payload)
    assert cache.load(key, DATA) is None
    assert not (tmp_path / "evil").exists()


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(str(tmp_path / "file" / "cache"))
    key, _ = stored(cache)
    assert cache.load(key, DATA) is None
    cache.prune()


def test_old_entries_and_leftovers_go(cache):
    old, _ = stored(cache)
    young, _ = stored(cache, GOOD.encode())
    leftover = entry(cache, old).with_suffix(".0123.tmp")
    leftover.write_bytes(b"half")
    past = time.time() - 40 * module.DAY
    for path in (entry(cache, old), leftover):
        os.utime(path, (past, past))
    cache.prune()
    assert not entry(cache, old).exists() and not leftover.exists() and entry(cache, young).exists()
    os.utime(entry(cache, young), (past, past))
    cache.prune()
    assert entry(cache, young).exists(), "once a day is enough"


def test_the_least_recently_used_go_first(cache, monkeypatch):
    keys = [stored(cache, f"{GOOD}// {number}\n".encode())[0] for number in range(4)]
    sizes = [entry(cache, key).stat().st_size for key in keys]
    for age, key in enumerate(keys):
        past = time.time() - (age + 1) * 3600
        os.utime(entry(cache, key), (past, past))
    monkeypatch.setattr(module, "MAX_BYTES", sizes[0] + sizes[1] + 100)
    cache.prune()
    assert [entry(cache, key).exists() for key in keys] == [True, True, False, False]


def script(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "warplint", "lint", *arguments], capture_output=True, timeout=100, check=False, **options
    )


@pytest.mark.parametrize("form", ["text", "json", "sarif", "html"])
def test_output_is_the_same_with_and_without(form, tmp_path):
    for name in ("small_reduce.cu", "gemm_step7_init_under_wg_guard_tvm027.cu"):
        (tmp_path / name).write_bytes((ARTIFACTS / name).read_bytes())
    (tmp_path / "bad.cu").write_text(BAD)
    folder = str(tmp_path / "cache")
    common = (".", "--format", form)
    fresh = script(*common, "--no-cache", "-j", "1", cwd=tmp_path)
    assert fresh.returncode == 1, fresh.stderr
    assert not os.path.exists(folder)
    runs = [script(*common, "--cache", folder, "-j", jobs, cwd=tmp_path) for jobs in ("2", "1")]
    assert len(list(Path(folder).rglob("*"))) > 3
    assert all((run.returncode, run.stdout, run.stderr) == (1, fresh.stdout, fresh.stderr) for run in runs)


def test_a_changed_header_is_noticed(tmp_path):
    (tmp_path / "k.cu").write_text('#include "a.cuh"\n' + BAD.replace("< 32", "< FIRST"))
    (tmp_path / "a.cuh").write_text("#define FIRST 32\n")
    common = ("k.cu", "--cache", str(tmp_path / "cache"))
    assert [script(*common, cwd=tmp_path).returncode for _ in range(2)] == [1, 1]
    (tmp_path / "a.cuh").write_text("#define FIRST 256\n")
    assert [script(*common, cwd=tmp_path).returncode for _ in range(2)] == [0, 0]
    (tmp_path / "a.cuh").write_text("#define FIRST 32\n")
    assert script(*common, cwd=tmp_path).returncode == 1
