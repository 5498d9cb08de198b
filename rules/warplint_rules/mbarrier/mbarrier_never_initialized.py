r"""A barrier word is waited on, arrived on or named in a copy, and no code initialises it.

## Why
Shared memory is not cleared at launch. An arrival on a word that is no barrier is a launch failure or is lost, and
a wait hangs or passes at once, depending on the bits that happen to lie there.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__global__ void __launch_bounds__(64) ring(float* out, const float* in, int n) {
  __shared__ float tile[32];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) init(&full, 32);
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x < 32) {
      wait(&empty, (i & 1) ^ 1);
      tile[threadIdx.x] = in[i * 32 + threadIdx.x];
      arrive(&full);
    } else {
      wait(&full, i & 1);
      out[i * 32 + threadIdx.x - 32] = tile[threadIdx.x - 32];
      arrive(&empty);
    }
  }
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__global__ void __launch_bounds__(64) ring(float* out, const float* in, int n) {
  __shared__ float tile[32];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    init(&full, 32);
    init(&empty, 32);
  }
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x < 32) {
      wait(&empty, (i & 1) ^ 1);
      tile[threadIdx.x] = in[i * 32 + threadIdx.x];
      arrive(&full);
    } else {
      wait(&full, i & 1);
      out[i * 32 + threadIdx.x - 32] = tile[threadIdx.x - 32];
      arrive(&empty);
    }
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.program.ir import Symbol
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._executed import established, party
from warplint_rules._say import Reporter, location, spelled, under, who
from warplint_rules._words import WAITS, Site, Word, barriers, capital, names

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, executes=True, spoils="everything")
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """One finding for all words that are used at the same sites. Needs every init's address."""
    known = barriers(roles)
    if known.opaque or known.blind:
        return
    if not known.inits and not known.dead and roles.kernel.fragment:
        return  # an excerpt that starts behind the setup
    initialised = {word for site in (*known.inits, *known.dead) for word, _ in site.words or ()}
    symbols = {site.symbol for site in (*known.inits, *known.dead)}
    by_word: dict[Word, list[Site]] = {}
    by_symbol: dict[Symbol, list[Site]] = {}
    for use in known.uses:
        if use.symbol is None or known.unknown_init(use.symbol):
            continue
        if use.words is None:
            # Some element of an array none of whose elements is initialised; a pool holds other things as well.
            if use.symbol not in symbols and use.symbol.kind == "shared":
                by_symbol.setdefault(use.symbol, []).append(use)
            continue
        for word, _ in use.words:
            if word not in initialised:
                by_word.setdefault(word, []).append(use)
    groups: dict[tuple[int, ...], list[Word]] = {}
    for word, uses in by_word.items():
        groups.setdefault(tuple(sorted({id(use.event.op) for use in uses})), []).append(word)
    for words in groups.values():
        if words[0].symbol not in by_symbol:
            yield _finding(roles, names(words), len(words), by_word[words[0]])
    for symbol, uses in by_symbol.items():
        more = [use for word, found in by_word.items() if word.symbol is symbol for use in found]
        uses = sorted((*uses, *more), key=lambda use: use.event.order)
        yield _finding(roles, f"the barriers of `{symbol.name}`", 2, uses)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Words of an array at indices that only an execution tells: used, and no thread has initialised them."""
    roles = execution.roles
    known = barriers(roles)
    if known.opaque or known.blind or (roles.kernel.fragment and not known.inits):
        return
    by_span = {site.event.op.span: site for site in known.uses if site.symbol is not None}
    said: set[str] = set()
    for outcome in filter(established, execution.outcomes):
        for fault in outcome.faults:
            site = by_span.get(fault.span)
            if fault.kind != "uninitialised" or site is None or site.symbol is None or fault.detail in said:
                continue
            if known.unknown_init(site.symbol):
                continue
            said.add(fault.detail)
            yield SAY.at(
                roles,
                site.event,
                f"Barrier `{fault.detail}` is used here by {party(execution, fault.who)}"
                f"{under(roles, site.event.guards)} and never initialised.",
                why="The word holds whatever shared memory held: the wait hangs or passes at once, and an arrival on "
                "it is lost or ends the kernel with a launch failure.",
                remedy="Initialise every word of the array with its arrival count, before the CTA barrier that "
                "precedes the roles.",
                related=[
                    location(roles, init.event.op.span, "another word of it is initialised here")
                    for init in known.inits
                    if init.symbol is site.symbol
                ][-2:],
            )


def _finding(roles: Roles, what: str, count: int, uses: list[Site]) -> Finding:
    first = next((use for use in uses if use.event.name in WAITS), uses[0]).event
    nearby = [site for site in barriers(roles).inits if site.event.order < first.order]
    return SAY.at(
        roles,
        first,
        f"{capital(what)} {'is' if count == 1 else 'are'} used here by {who(roles, first.reach)}"
        f"{under(roles, first.guards)} and never initialised.",
        why="The word holds whatever shared memory held: the wait hangs or passes at once, and an arrival on it is "
        "lost or ends the kernel with a launch failure.",
        remedy="Add an `mbarrier.init` with its arrival count beside the other inits, before the CTA barrier that "
        "precedes the roles.",
        related=[
            *(location(roles, site.event.op.span, "the last init of another barrier") for site in nearby[-1:]),
            *(
                location(roles, use.event.op.span, f"also used here: {spelled(use.event)}")
                for use in uses
                if use.event.op is not first.op
            ),
        ],
    )
