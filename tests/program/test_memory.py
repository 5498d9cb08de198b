"""Shared and global memory: addresses, layout, stores and reads."""

from __future__ import annotations


def bare(lines):
    return [line.split(" {")[0] for line in lines]


INIT = (
    '__device__ void init(unsigned long long* b, int c) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" '
    ':: "r"((unsigned)__cvta_generic_to_shared(b)), "r"(c)); }\n'
)


def test_pool_words(body):
    found = bare(
        body(
            "extern __shared__ __align__(64) unsigned char pool[]; init((&(((unsigned long long*)pool)[n + 3])), 1);",
            INIT,
        )
    )
    assert found == ["  shared pool u8 (None,) bytes=None", "  %0 = mbarrier.init barrier=&pool+((n + 3) * 8) count=1"]


def test_pointer_steps_are_bytes(body):
    assert bare(body("__shared__ unsigned long long bar[8]; unsigned long long* b = bar + 2; init(b + n, 1);", INIT))[
        1:
    ] == [
        "  b = &bar+16",
        "  %0 = mbarrier.init barrier=u32((b + (n * 8))) count=1",
    ]


def test_integer_addresses_are_addresses(body):
    helper = '__device__ void init32(unsigned a) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(a)); }'
    assert bare(
        body(
            (
                "__shared__ unsigned long long bar[8]; unsigned a = (unsigned)__cvta_generic_to_shared(bar); "
                "init32(a + 8 * n); init32((unsigned)__cvta_generic_to_shared(bar) + 24);"
            ),
            helper,
        )
    )[1:] == [
        "  a = &bar+0",
        "  %0 = mbarrier.init barrier=u32((a + u32((8 * n)))) count=1",
        "  %1 = mbarrier.init barrier=&bar+24 count=1",
    ]


def test_struct_in_static_shared_memory(low):
    text = INIT + (
        "struct Storage { float tile[3]; unsigned long long full[2]; unsigned long long empty[2]; };\n"
        "__global__ void k(int n) { __shared__ Storage smem; init(&smem.full[n], 1); init(&smem.empty[1], 1); }"
    )
    assert bare(low(text)) == [
        "  shared smem Storage () bytes=48",
        "  %0 = mbarrier.init barrier=&smem+(16 + (n * 8)) count=1",
        "  %1 = mbarrier.init barrier=&smem+40 count=1",
    ]


def test_struct_over_dynamic_shared_memory(low):
    text = INIT + (
        "struct Storage { alignas(128) char tile[100]; unsigned long long full[2]; };\n"
        "__global__ void k(int n) { extern __shared__ char raw[]; Storage& s = *reinterpret_cast<Storage*>(raw);"
        " Storage* t = reinterpret_cast<Storage*>(raw + 256); init(&s.full[1], 1); init(t->full, 1); }"
    )
    found = bare(low(text))
    assert found[1] == "  t = &raw+256"
    assert found[2] == "  %0 = mbarrier.init barrier=&raw+112 count=1"
    assert found[3] == "  %1 = mbarrier.init barrier=u32((t + 104)) count=1"


def test_all_extern_arrays_are_one_storage(body):
    found = body("extern __shared__ char a[]; extern __shared__ float b[]; b[2] = 1.0f; a[1] = 0;")
    assert found[0] == "  shared a i8 (None,) bytes=None"
    assert found[1].startswith("  store &a+8 : 4")
    assert found[2].startswith("  store &a+1 : 1")


def test_shared_variable_of_a_helper_is_one(body):
    before = "__device__ int f(int v) { __shared__ int s; s = v; __syncthreads(); return s; }"
    found = body("p[0] = f(1) + f(2);", before)
    assert [line for line in found if "shared" in line] == ["  shared s i32 () bytes=4"]


def test_shared_accesses_are_stores_and_loads(body):
    assert body("__shared__ float s[2][64]; s[n][threadIdx.x] = 1.0f; float v = s[1][2];")[1:] == [
        "  store &s+((n * 256) + (@tid.x * 4)) : 4 = ?u<a floating-point literal>",
        "  v = load(&s+264)",
    ]


def test_vector_width_of_a_store(body):
    assert body("__shared__ float s[64]; *reinterpret_cast<float4*>(&s[4 * n]) = make_float4(0, 0, 0, 0);")[
        -1
    ].startswith("  store &s+((4 * n) * 4) : 16 =")


def test_reads_of_a_statement_are_found():
    from tests.program.build import module
    from warplint.program import reads
    from warplint.program.dump import text

    kernel = module("__global__ void k(int* p) { __shared__ int s[9]; int v = s[1] + s[p[2]]; }").kernels[0]
    assert [text(load.pointer) for load in reads(kernel.body.body[0])] == ["&s+4", "&s+(load((p + 8)) * 4)", "(p + 8)"]


def test_atomics_are_stores(body):
    assert body("__shared__ int s; atomicAdd(&s, 1); int t = atomicExch(p, 3);")[1:] == [
        "  store atomic &s+0 : 4 = ?<the result of `atomicAdd`>",
        "  store atomic p : 4 = 3",
        "  t = ?<what `atomicExch` found in memory>",
    ]


def test_plain_accesses_in_assembly(body):
    before = (
        '__device__ void st(unsigned a, int v) { asm volatile("st.shared.b32 [%0], %1;" :: "r"(a), "r"(v)); }\n'
        '__device__ void ld(int& d, unsigned a) { asm volatile("ld.shared.b32 %0, [%1];" : "=r"(d) : "r"(a)); }\n'
    )
    text = "__shared__ int s[4]; int d; unsigned a = __cvta_generic_to_shared(s); st(a + 4, n); ld(d, a);"
    assert body(text, before)[1:] == ["  a = &s+0", "  store u32((a + 4)) : 4 = n", "  d = load(a)"]


def test_a_pointer_to_a_local_writes_the_local(body):
    assert body("int x = 1; int* q = &x; *q = 5; p[0] = x;") == ["  x = 1", "  x = 5", "  store p : 4 = x"]


def test_a_moving_pointer_to_a_local_makes_it_unknown(body):
    found = body("int a[4]; int* q = a; for (int i = 0; i < 4; ++i) { *q++ = i; } p[0] = a[1];")
    assert any(line.strip().startswith("a[?<index>] = ?<`a` may be written through a pointer>") for line in found)


def test_punned_local_is_invalidated(body):
    found = body("float x[4]; ((double*)x)[1] = 2.0; p[0] = (int)x[2];")
    assert [line.split(" = ")[0] for line in found[:2]] == ["  x[2]", "  x[3]"]


def test_same_size_view_of_a_local(body):
    assert body("float x[4]; ((unsigned*)x)[1] = n; p[0] = ((unsigned*)x)[1];")[0] == "  x[1] = u32(n)"


def test_shared_variables_of_the_file(low):
    text = "extern __shared__ char pool[];\n__shared__ int flag;\n__global__ void k() { flag = 1; pool[4] = 2; }"
    assert low(text) == [
        "  shared pool i8 (None,) bytes=None",
        "  shared flag i32 () bytes=4",
        "  store &flag+0 : 4 = 1",
        "  store &pool+4 : 1 = 2",
    ]


def test_volatile_accesses(body):
    assert body("volatile int* f = p; while (f[0] == 0); *(volatile int*)p = 1; p[1] = 2;") == [
        "  f = p",
        "  loop",
        "   while (load.volatile(f) == 0)",
        "  store volatile p : 4 = 1",
        "  store (p + 4) : 4 = 2",
    ]
    assert body("__shared__ volatile int s[2]; p[0] = s[1];")[-1] == "  store p : 4 = load.volatile(&s+4)"


def test_load_of_another_cta_is_an_operation(body):
    before = (
        "__device__ float peer(const void* q, unsigned cta) {\n"
        '  float v; asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %1, %2; '
        'ld.shared::cluster.f32 %0, [a]; }"\n'
        '    : "=f"(v) : "r"((unsigned)__cvta_generic_to_shared(q)), "r"(cta)); return v; }\n'
    )
    found = body("__shared__ float s[4]; float v = peer(&s[2], 1);", before)
    assert found[1].startswith("  %0 = ld cta=1 src=&s+8 bytes=4")
    assert found[2] == "  v = %0"


def test_vector_copy_keeps_its_read(body):
    found = body("__shared__ float4 s[8]; float4* out = (float4*)p; out[n] = s[2]; float4 v = s[1]; s[0] = v;")
    assert found[1:] == [
        "  out = p",
        "  store (out + (n * 16)) : 16 = load(&s+32)",
        "  v.x = load(&s+16)",
        "  v.y = load(&s+20)",
        "  v.z = load(&s+24)",
        "  v.w = load(&s+28)",
        "  store &s+0 : 16 = aggregate(v.x, v.y, v.z, v.w)",
    ]


def test_read_by_a_call_that_is_not_followed(body):
    found = body("__shared__ float s[8]; consume(p, s[n] + 1.0f);")
    assert found[-1] == "  read &s+(n * 4) : None"
