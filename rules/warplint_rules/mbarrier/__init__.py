"""The mbarrier hand-off protocol: initialisation, arrivals, phases and waits."""

OPERATIONS = ("mbarrier.", "tcgen05.commit", "cp.async", "multicast.", "st.async", "red.async", "clusterlaunchcontrol.")
"""What the rules are about: they are imported for kernels that have one of these."""
EVERYWHERE = frozenset({"protocol_deadlock", "arrive_before_group_joined"})
"""Any blocked execution: kernels without mbarriers hang at barriers, too; flags in shared memory hand over as well."""
