"""Helpers: inlining, assembly, parameters, objects, lambdas, what is not defined."""

from __future__ import annotations

from warplint.program import ir

ARRIVE = """__device__ void arrive(unsigned a, unsigned c) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0], %1;" :: "r"(a), "r"(c)); }
__device__ unsigned u32(const void* q) { return (unsigned)__cvta_generic_to_shared(q); }
"""
ELECT = """__device__ unsigned elect() {
  unsigned pred = 0;
  asm volatile("{ .reg .pred %%px; elect.sync _|%%px, %1; @%%px mov.s32 %0, 1; }" : "+r"(pred) : "r"(0xFFFFFFFF));
  return pred;
}
"""
TRY = """__device__ bool try_wait(unsigned a, unsigned ph) {
  unsigned ok;
  asm volatile("{ .reg .pred q; mbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2; selp.b32 %0, 1, 0, q; }"
    : "=r"(ok) : "r"(a), "r"(ph));
  return ok != 0;
}
"""


def bare(lines):
    """Operations without their modifiers."""
    return [line.split(" {")[0] for line in lines]


def test_operation_through_nested_helpers_keeps_its_place(low):
    text = ARRIVE + (
        "__device__ void release(unsigned long long* b) { arrive(u32(b), 2); }\n"
        "__global__ void k() { __shared__ unsigned long long bar[4];\n"
        "  release(bar + 1); }"
    )
    assert bare(low(text))[-1] == "  %0 = mbarrier.arrive barrier=&bar+8 count=2"


def test_spans_and_chain_of_an_inlined_operation():
    from tests.program.build import module

    text = ARRIVE + (
        "__device__ void release(unsigned long long* b) { arrive(u32(b), 2); }\n"
        "__global__ void k() { __shared__ unsigned long long bar[4];\n"
        "  release(bar + 1); }"
    )
    kernel = module(text).kernels[0]
    last = kernel.body.body[-1]
    assert isinstance(last, ir.Do)
    op = last.op
    source = kernel.source
    assert source.text(op.span).startswith("release(bar + 1)")
    assert [source.text(span) for span in op.chain] == ["release(bar + 1)", "arrive(u32(b), 2)"]
    assert op.inner is not None
    assert source.text(op.inner).startswith("asm volatile")
    assert op.spelling == "release"
    assert not op.by_name


def test_stored_predicate(low):
    text = ELECT + "__global__ void k(int* p) { int leader[1]; leader[0] = elect(); if (leader[0] != 0) p[0] = 1; }"
    assert bare(low(text)) == [
        "  %0 = elect.sync mask=4294967295",
        "  leader = %0",
        "  if (leader != 0)",
        "    store p : 4 = 1",
    ]


def test_elect_in_a_condition_runs_only_where_the_left_side_holds(low):
    text = ELECT + "__global__ void k(int* p, int n) { if (n == 3 && (elect() != (uint)0)) { p[0] = 1; } }"
    assert bare(low(text)) == [
        "  if (n == 3)",
        "    %0 = elect.sync mask=4294967295",
        "    if %0",
        "      store p : 4 = 1",
    ]


def test_elect_in_a_condition_with_else(low):
    text = ELECT + "__global__ void k(int* p, int n) { if (n == 3 && elect()) p[0] = 1; else p[0] = 2; }"
    assert bare(low(text)) == [
        "  if (n == 3)",
        "    %0 = elect.sync mask=4294967295",
        "  if ((n == 3) && %0)",
        "    store p : 4 = 1",
        "  else",
        "    store p : 4 = 2",
    ]


def test_elect_on_the_right_of_or(low):
    text = ELECT + "__global__ void k(int* p, int n) { bool b = n == 3 || elect(); if (b) p[0] = 1; }"
    assert bare(low(text))[:3] == ["  if !(n == 3)", "    %0 = elect.sync mask=4294967295", "  b = ((n == 3) || %0)"]


def test_operation_in_a_conditional_expression(low):
    text = ELECT + "__global__ void k(int n) { int b = n == 3 ? elect() : 0; }"
    assert bare(low(text)) == [
        "  if (n == 3)",
        "    %0 = elect.sync mask=4294967295",
        "  b = i32(((n == 3) ? %0 : 0))",
    ]


def test_wait_loop(low):
    text = TRY + (
        "__global__ void k(int n) { __shared__ long long b; while "
        "(!try_wait((unsigned)__cvta_generic_to_shared(&b), n & 1)); }"
    )
    assert bare(low(text))[1:] == [
        "  loop",
        "   prelude",
        "    %0 = mbarrier.try_wait barrier=&b+0 parity=u32((n & 1))",
        "   while !%0",
    ]


def test_predicate_argument_of_a_pred_helper(low):
    helper = (
        '__device__ void arrive_pred(unsigned a, unsigned p) { asm volatile("{ .reg .pred q; setp.ne.b32 q, '
        '%1, 0; @q mbarrier.arrive.shared.b64 _, [%0]; }" :: "r"(a), "r"(p)); }\n'
    )
    body = (
        "__global__ void k(int n) { __shared__ long long b; unsigned s = __cvta_generic_to_shared(&b); "
        "arrive_pred(s, n == 4); arrive_pred(s, 1); arrive_pred(s, 0); }"
    )
    found = low(helper + body)
    assert found[-2].startswith("  %0 = mbarrier.arrive barrier=s count=1") and found[-2].endswith("if (n == 4)")
    assert found[-1].startswith("  %1 = mbarrier.arrive") and " if " not in found[-1]
    assert len(found) == 4  # the call with predicate 0 does nothing


def test_shuffle_is_an_operation_and_a_value(body):
    assert bare(body("int w = __shfl_sync(0xffffffff, threadIdx.x >> 5, 0);")) == [
        "  %0 = shfl.sync mask=4294967295 value=(@tid.x >> 5) lane=0",
        "  w = %0",
    ]


def test_special_registers_through_assembly(body):
    before = '__device__ int lane() { int x; asm("mov.u32 %0, %%laneid;" : "=r"(x)); return x; }'
    assert body("p[0] = lane() == 0;", before)[-1] == "  store p : 4 = (i32(@laneid) == 0)"


def test_thread_rank_of_the_block(body):
    before = (
        "__device__ int rank() { namespace cg = cooperative_groups; return cg::this_thread_block().thread_rank(); }"
    )
    assert body("if (rank() == 0) p[0] = 1;", before)[0] == "  if (i32(@linear_tid) == 0)"


def test_output_parameters_by_reference_and_pointer(body):
    before = (
        '__device__ void two(unsigned& a, unsigned* b) { asm volatile("mov.u32 %0, %%laneid;" : "=r"(a)); '
        'asm volatile("mov.u32 %0, %%warpid;" : "=r"(*b)); }'
    )
    assert body("unsigned a[2]; unsigned c; two(a[1], &c); p[0] = a[1] + c;", before) == [
        "  a[1] = @laneid",
        "  c = @warpid",
        "  store p : 4 = i32(u32((a[1] + c)))",
    ]


def test_arguments_read_before_a_later_write_keep_their_value(body):
    before = (
        '__device__ void f(unsigned& d, unsigned a) { asm volatile("mov.u32 %0, %%laneid;" : "=r"(d)); asm '
        'volatile("bar.sync %0, 64;" :: "r"(a)); }'
    )
    found = body("unsigned x = 3; f(x, x + 1);", before)
    assert found[0] == "  x = 3"
    assert found[1] == "  a = u32((x + 1))"
    assert found[2] == "  x = @laneid"
    assert found[3].startswith("  %0 = bar.sync.named id=a threads=64")


def test_many_outputs_are_one_write(body):
    outs = ", ".join(f"float& d{i}" for i in range(16))
    names = ", ".join(f'"=f"(d{i})' for i in range(16))
    before = (
        f'__device__ void ld16({outs}, unsigned t) {{ asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 '
        f'{{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}}, [%16];" : {names} : '
        f'"r"(t)); }}'
    )
    args = ", ".join(f"r[{i}]" for i in range(16))
    found = bare(body(f"float r[16]; ld16({args}, n);", before))
    assert found == [
        "  %0 = tcgen05.ld address=u32(n)",
        "  r[?<one of many elements>] = ?<a result of inline assembly>",
    ]


def test_scheduler_object(low):
    text = (
        "struct Sched { int t, n; __device__ bool valid() const { return t < n; } __device__ void "
        "next_tile() { t += gridDim.x; } };\n"
        "__global__ void k(int n) { Sched sc{(int)blockIdx.x, n}; while (sc.valid()) { __syncthreads(); "
        "if (threadIdx.x < 64) sc.next_tile(); } }"
    )
    assert bare(low(text)) == [
        "  sc.t = i32(@ctaid.x)",
        "  sc.n = n",
        "  loop",
        "   while (sc.t < sc.n)",
        "    %0 = bar.sync.cta",
        "    if (@tid.x < 64)",
        "      sc.t = i32(u32((u32(sc.t) + @nctaid.x)))",
    ]


def test_write_in_a_method_is_placed_at_the_call():
    from tests.program.build import module

    text = "struct S { int t;\n __device__ void next() { t += 1; } };\n__global__ void k() { S s{0};\n  s.next(); }"
    kernel = module(text).kernels[0]
    assert kernel.source.line_of(kernel.body.body[-1].span.start) == 4


def test_objects_by_pointer_and_copy(body):
    before = "struct S { int a; int b[2]; };\n__device__ void set(S* s, int v) { s->a = v; s->b[1] = v + 1; }"
    assert body("S s; set(&s, n); S t = s; p[0] = t.b[1];", before) == [
        "  s.a = n",
        "  s.b[1] = (n + 1)",
        "  t.a = s.a",
        "  t.b[0] = s.b[0]",
        "  t.b[1] = s.b[1]",
        "  store p : 4 = t.b[1]",
    ]


def test_default_member_values(body):
    assert body("S s; p[0] = s.stage;", "struct S { int stage = 2; int phase = 0; };") == [
        "  s.stage = 2",
        "  s.phase = 0",
        "  store p : 4 = s.stage",
    ]


def test_lambda(body):
    assert bare(body("auto f = [&](int v) { __syncwarp(); return v + n; }; p[0] = f(2);")) == [
        "  v = 2",
        "  inline lambda #1",
        "    %0 = bar.warp.sync mask=4294967295",
        "    lambda result = (v + n)",
        "  store p : 4 = lambda result",
    ]


def test_recursion_is_opaque(body):
    before = "__device__ void f(int n) { __syncthreads(); if (n) f(n - 1); }"
    assert any("`f` calls itself and is not followed" in line for line in body("f(n);", before))


def test_early_return_in_a_helper(body):
    before = "__device__ void f(int v) { if (v == 0) return; __syncthreads(); }"
    assert bare(body("f(n);", before)) == [
        "  v = n",
        "  inline f #1",
        "    if (v == 0)",
        "      leave #1",
        "    %0 = bar.sync.cta",
    ]


def test_branching_value_helper_is_an_expression(body):
    before = "__device__ int clip(int v) { if (v < 0) return 0; if (v > 9) { v = 9; } return v; }"
    assert body("p[0] = clip(n);", before) == ["  store p : 4 = ((n < 0) ? 0 : ((n > 9) ? 9 : n))"]


def test_undefined_helper_with_a_shared_pointer_is_opaque(body):
    assert body("__shared__ long long b; foo(&b);")[-1] == (
        "  opaque: `foo` takes a shared-memory pointer and is not defined in this file !b"
    )


def test_undefined_helper_without_pointer_is_a_value(body):
    assert body("p[0] = foo(n + 1);") == ["  store p : 4 = foo((n + 1))"]


def test_undefined_helper_may_take_a_reference(body):
    assert body("int x = 1; int y = foo(x); p[0] = x;") == [
        "  x = 1",
        "  x = ?<may be written by `foo`>",
        "  y = foo(x)",
        "  store p : 4 = x",
    ]


def test_undefined_helper_with_nothing_to_write_may_synchronise(body):
    opaque = "  opaque: `foo` is not defined in this file and may synchronise"
    assert body("foo();") == [opaque]
    assert body("foo(n + 1);") == [opaque]
    assert body("p[0] = foo();") == ["  store p : 4 = foo()"]
    assert body("foo(p);") == []


def test_harmless_calls_leave_nothing(body):
    assert body('assert(n > 0); printf("%d", n); __builtin_assume(n > 0); n; static_assert(1);') == []


def test_trap_and_exit(body):
    assert body("if (n < 0) __trap(); if (n == 0) return;") == ["  if (n < 0)", "    trap", "  if (n == 0)", "    exit"]


def test_unknown_instruction_is_opaque(body):
    assert "is not understood" in body('asm volatile("frobnicate.sync %0;" :: "r"(n));')[0]


def test_stepping_an_object_by_its_own_operator(body):
    before = (
        "template <int N> struct State { int index = 0; int phase = 0;\n"
        "  __device__ void operator++() { ++index; if (index == N) { index = 0; phase ^= 1; } } };\n"
    )
    assert body("State<3> s; ++s; p[0] = s.index;", before) == [
        "  s.index = 0",
        "  s.phase = 0",
        "  inline operator++ #1",
        "    s.index = (s.index + 1)",
        "    if (s.index == 3)",
        "      s.index = 0",
        "      s.phase = (s.phase ^ 1)",
        "  store p : 4 = s.index",
    ]


def test_methods_of_a_base_class(body):
    before = (
        "struct Base { int t; __device__ void step() { t += 2; } };\n"
        "struct Sched : Base { __device__ void next() { step(); } };\n"
    )
    assert body("Sched s{5}; s.next(); p[0] = s.t;", before) == [
        "  s.t = 5",
        "  s.t = (s.t + 2)",
        "  store p : 4 = s.t",
    ]


def test_static_method_of_a_template(body):
    before = "template <int N> struct Ring { __device__ static int last() { return N - 1; } };"
    assert body("p[0] = Ring<4>::last();", before) == ["  store p : 4 = 3"]


def test_constructor_with_initialisers(body):
    before = "struct S { int a; int b; __device__ S(int x) : a(x), b{2} { b += 1; } };"
    assert body("S s(n); p[0] = s.b;", before) == [
        "  s.a = n",
        "  s.b = 2",
        "  s.b = (s.b + 1)",
        "  store p : 4 = s.b",
    ]


def test_type_comparison_folds(low):
    text = (
        "template <typename T> __device__ int f(T x) { if constexpr (std::is_same_v<T, int>) return 1; "
        "else return 2; }\n"
        "__global__ void k(int* p, int n) { p[0] = f(n); p[1] = f(1ull); }"
    )
    assert low(text) == ["  store p : 4 = 1", "  store (p + 4) : 4 = 2"]


def test_harmless_function_with_an_output_invalidates(body):
    assert body("float s, c; sincosf(1.0f, &s, &c); p[0] = (int)s;")[0] == "  s = ?<may be written by `sincosf`>"


def test_undefined_helper_with_a_shared_object_is_opaque(body):
    opaque = "  opaque: `wait` takes a shared-memory pointer and is not defined in this file !bar"
    assert body("__shared__ semaphore bar[2]; wait(bar[n], 0);")[-1] == opaque
    assert not any("opaque" in line for line in body("__shared__ float s[2]; float f = other(s[n]);"))


def test_integer_arguments_leave_a_floating_overload_alone(body):
    before = "__device__ half min(half a, half b) { return __hlt(a, b) ? a : b; }"
    assert body("p[0] = min(64, n);", before) == ["  store p : 4 = (64 min n)"]


def test_named_store_is_an_ordinary_access(body):
    text = "__shared__ int s[4]; tvm_builtin_ptx_st_shared_b32((unsigned)__cvta_generic_to_shared(&s[1]), (uint)n);"
    found = body(text)
    assert found[-1].startswith("  store &s+4 : ")


def test_undefined_class_may_synchronise(body):
    opaque = "  opaque: `Pipeline::producer_acquire` is not defined in this file and may synchronise"
    assert body("Pipeline pipe; pipe.producer_acquire(n);")[-1] == opaque
    assert body("Fragment acc; acc.fill(0);")[-1] != opaque.replace("Pipeline::producer_acquire", "Fragment::fill")
    found = body("Pipeline pipe; acquire(pipe, n);")
    assert found[-1] == "  opaque: `acquire` is not defined in this file and may synchronise"


def test_comments_among_the_arguments_of_a_long_call(low):
    names = ", ".join(f"int c{i}" for i in range(40))
    values = ", ".join(f"n + {i} /* ) }} , */ // ( {{ ,\n" for i in range(40))
    text = (
        f"__device__ void f({names}, unsigned bar) {{\n"
        '  asm volatile("mbarrier.arrive.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(c39)); }\n'
        f"__global__ void k(int n) {{ __shared__ long long b; f({values}, (unsigned)__cvta_generic_to_shared(&b)); }}"
    )
    assert bare(low(text))[-1] == "  %0 = mbarrier.arrive barrier=&b+0 count=(n + 39)"


def test_a_comment_between_a_name_and_its_parenthesis_hides_nothing(body):
    assert bare(body("__syncthreads /* all */ ();")) == ["  %0 = bar.sync.cta"]
    assert bare(body("__syncthreads // all\n ();")) == ["  %0 = bar.sync.cta"]
    assert bare(body("int w = __shfl_sync /* x */ (0xffffffff, n, 0);"))[0].startswith("  %0 = shfl.sync")


def test_callee_in_parentheses(body):
    before = "__device__ void all() { __syncthreads(); }"
    assert bare(body("(all)();", before)) == ["  %0 = bar.sync.cta"]


def test_assembly_with_a_goto(body):
    assert bare(body('asm goto ("bar.sync 0;" ::::);'))[0].strip() != ""
