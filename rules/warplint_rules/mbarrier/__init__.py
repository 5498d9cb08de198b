"""The mbarrier hand-off protocol: initialisation, arrivals, phases and waits."""
