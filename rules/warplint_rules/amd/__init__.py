"""HIP and AMD hardware: wave width, lane masks, wait counters."""
