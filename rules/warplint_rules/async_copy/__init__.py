"""Asynchronous copies, the async proxy, and what completes them."""

OPERATIONS = (
    "cp.",
    "wgmma.",
    "tcgen05.",
    "mbarrier.",
    "st.async",
    "red.async",
    "multicast.",
    "fence.proxy",
    "clusterlaunchcontrol.",
)
"""What the rules are about: they are imported for kernels that have one of these."""
