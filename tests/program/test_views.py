"""Locals seen as another type: unions, bit-fields, punned pairs."""

from __future__ import annotations

import pytest

DESCRIPTOR = """
union Descriptor {
  unsigned long long desc_ = 0;
  struct {
    unsigned short start_ : 14, : 2;
    unsigned short leading_ : 14, : 2;
    unsigned short stride_ : 14, version_ : 2;
    unsigned char : 1, base_ : 3, mode_ : 1, : 3;
    unsigned char : 5, layout_ : 3;
  };
  struct { unsigned lo; unsigned hi; };
  __device__ operator unsigned long long() const { return desc_; }
};
"""


def test_pair_of_words(body):
    assert body("uint2 v = make_uint2(n, 7); unsigned long long u = *(unsigned long long*)&v;") == [
        "  v.x = u32(n)",
        "  v.y = 7",
        "  u = (u64(v.x) | (u64(v.y) << 32))".replace("u64(v.x)", "v.x").replace("u64(v.y)", "v.y"),
    ]


def test_words_of_a_long(body):
    assert body("unsigned long long u = n; p[0] = (*(uint2*)&u).x; p[1] = (*(uint2*)&u).y;")[1:] == [
        "  store p : 4 = i32(u32(u))",
        "  store (p + 4) : 4 = i32(u32((u >> 32)))",
    ]


def test_write_through_a_view(body):
    assert body("unsigned long long u = 5; ((unsigned*)&u)[1] = n;") == [
        "  u = 5",
        "  u = ((u & 4294967295) | ((u64(u32(n)) & 4294967295) << 32))".replace("u64(u32(n))", "u32(n)"),
    ]


@pytest.mark.parametrize(
    ("member", "low", "width"),
    [
        ("start_", 0, 14),
        ("leading_", 16, 14),
        ("stride_", 32, 14),
        ("version_", 46, 2),
        ("base_", 49, 3),
        ("layout_", 61, 3),
    ],
)
def test_bit_fields_have_their_place(body, member, low, width):
    found = body(f"Descriptor d{{}}; d.{member} = (1 << {width}) - 1; p[0] = d.{member};", DESCRIPTOR)
    mask = (1 << width) - 1
    value = f"(d & {~(mask << low) & (2**64 - 1)}) | {mask << low}"
    assert found[-2] == f"  d = ({value})"
    shifted = f"(d >> {low})" if low else "d"
    assert found[-1] == f"  store p : 4 = ({shifted} & {mask})"


def test_descriptor_keeps_its_address(body):
    text = (
        "__shared__ float tile[64]; Descriptor d{}; d.version_ = 1;"
        " d.start_ = (unsigned short)((unsigned)__cvta_generic_to_shared(&tile[8]) >> 4);"
        " unsigned long long v = (unsigned long long)d;"
    )
    found = body(text, DESCRIPTOR)
    assert "(u16((&tile+32 >> 4)) & 16383)" in found[-2]
    assert found[-1] == "  v = d"


def test_halves_of_a_union(body):
    assert body("Descriptor d; d.lo = n; d.hi = 3; p[0] = d.hi;", DESCRIPTOR)[1:] == [
        "  d = ((d & 18446744069414584320) | (u32(n) & 4294967295))",
        "  d = ((d & 4294967295) | 12884901888)",
        "  store p : 4 = i32(u32((d >> 32)))",
    ]


def test_unknown_position_invalidates(body):
    found = body("unsigned long long u = 5; ((unsigned*)&u)[n] = 1; p[0] = ((unsigned*)&u)[n];")
    assert found[1] == "  u = ?<`u` is written as another type>"
    assert found[2] == "  store p : 4 = i32(?<`u` read as another type>)"


def test_local_union_in_shared_memory(body):
    before = (
        '__device__ void init(unsigned long long* b) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: '
        '"r"((unsigned)__cvta_generic_to_shared(b))); }'
    )
    found = body(
        "__shared__ union { unsigned long long b; float scratch[4]; } u; init(&u.b); u.scratch[n] = 1.0f;", before
    )
    assert found[0].startswith("  shared u ") and found[0].endswith("bytes=16")
    assert found[1].startswith("  %0 = mbarrier.init barrier=&u+0")
    assert found[2].startswith("  store &u+(n * 4) : 4")


def test_records_of_a_function(body):
    assert body("struct S { int a, b; }; S s{n, 2}; p[0] = s.b;") == ["  s.a = n", "  s.b = 2", "  store p : 4 = s.b"]


def test_alias_of_a_function(body):
    assert body("using word = unsigned char; p[0] = sizeof(word);") == ["  store p : 4 = 1"]


def test_descriptor_arithmetic_in_an_effect_free_helper(body):
    before = DESCRIPTOR + (
        "__device__ unsigned long long moved(unsigned long long base, int offset) {\n"
        "  Descriptor desc; desc.desc_ = base; desc.lo += (unsigned)offset; return desc.desc_; }\n"
    )
    low = "((base & 18446744069414584320) | (u32((u32(base) + u32(n))) & 4294967295))"
    found = body("unsigned long long base = 5 + n; unsigned long long v = moved(base, n);", before)
    assert found[-1] == f"  v = {low}"


def test_aggregate_in_an_effect_free_helper_with_branches(body):
    before = (
        "struct Pair { int a; int b; };\n"
        "__device__ int pick(int v) { Pair q{v, 2}; int old = q.a; if (v > 3) { q.a = 7; } else { q.b = 9; }\n"
        "  return q.a + q.b + old; }\n"
    )
    assert body("p[0] = pick(n);", before) == ["  store p : 4 = ((n > 3) ? (9 + n) : ((n + 9) + n))"]
