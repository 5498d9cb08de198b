"""warplint: reads generated CUDA and HIP kernels and says whether their threads and hand-offs are right.

Importing this package costs nothing: every room is imported where it is used.
"""

__version__ = "0.1.0"
