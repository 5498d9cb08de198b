"""Thread block clusters: distributed shared memory, multicast, cluster barriers."""
