"""`warplint ops`: what was recognised, by whom it is executed, and what was not."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from warplint.cli import warplint

KERNEL = """\
__device__ void meet(int id) { asm volatile("bar.sync %0, 64;" :: "r"(id)); }
extern "C" __global__ void __launch_bounds__(128) k(float* out) {
  __shared__ unsigned long long bar;
  __shared__ float tile[128];
  asm volatile("frobnicate.sync [%0];" :: "r"(1));
  if (threadIdx.x < 64) meet(1);
  enqueue(&bar, 3);
  enqueue(tile, 4);
  for (int i = 0; i < 4; i++) __syncwarp();
  rendezvous();
  out[threadIdx.x] = sine_like(2.0f);
  __syncthreads();
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(KERNEL)
    return tmp_path


def ops(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(warplint, ["ops", *arguments], standalone_mode=False)
    assert result.exception is None, result.exception
    assert result.return_value == code
    return result.stdout


def test_text() -> None:
    assert (
        ops("k.cu")
        == """\
k  k.cu:2
      6  bar.sync.named  meet  [64 of 128 threads: warps 0-1]  id 1, threads 64
      9  bar.warp.sync   __syncwarp  [all 128 threads]
     12  bar.sync.cta    __syncthreads  [all 128 threads]
  3 operations recognised, 2 of them by a dialect table
  4 places not recognised:
    2 x call `enqueue`  (is given bar, tile)  lines 7, 8
    1 x asm `frobnicate.sync`  line 5
    1 x call `rendezvous`  line 10
"""
    )


def test_only_the_unknown() -> None:
    assert "bar.sync" not in ops("--unknown", "k.cu") and "`enqueue`" in ops("--unknown", "k.cu")


def test_json_is_the_same_every_time() -> None:
    first = ops("--json", "k.cu")
    assert first == ops("--json", "k.cu")
    data = json.loads(first)
    assert data["schema"] == "warplint-ops/1"
    (kernel,) = data["kernels"]
    assert [(row["op"], row["line"], row["count"], row["by"]) for row in kernel["operations"]] == [
        ("bar.sync.named", 6, 64, "instruction"),
        ("bar.warp.sync", 9, 128, "table"),
        ("bar.sync.cta", 12, 128, "table"),
    ]
    assert [(row["kind"], row["what"], row["count"], row["lines"], row["given"]) for row in kernel["unrecognised"]] == [
        ("call", "enqueue", 2, [7, 8], ["bar", "tile"]),
        ("asm", "frobnicate.sync", 1, [5], []),
        ("call", "rendezvous", 1, [10], []),
    ]


def test_a_header_makes_a_name_known(folder) -> None:
    (folder / "inc").mkdir()
    (folder / "inc" / "r.h").write_text("__device__ void rendezvous() { __syncthreads(); }\n")
    (folder / "k.cu").write_text("#include <r.h>\n" + KERNEL)
    assert "rendezvous" in ops("--unknown", "k.cu")
    assert "rendezvous" not in ops("--unknown", "k.cu", "-I", "inc")


def test_a_file_that_is_not_there(folder) -> None:
    ops("missing.cu", code=2)
    (folder / "plain.cu").write_text("int f() { return 1; }\n")
    assert ops("plain.cu") == ""


def test_kernels_by_name(folder) -> None:
    assert ops("k.cu", "-k", "other") == ""
    assert ops("k.cu", "-k", "k") != ""
