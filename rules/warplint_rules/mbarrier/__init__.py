"""The mbarrier hand-off protocol: initialisation, arrivals, phases and waits."""

OPERATIONS = ("mbarrier.", "tcgen05.commit", "cp.async", "multicast.", "st.async", "red.async", "clusterlaunchcontrol.")
"""What the rules are about: they are imported for kernels that have one of these."""
EVERYWHERE = frozenset({"protocol_deadlock"})
"""Any blocked execution: kernels without mbarriers hang at barriers, too."""
