"""Register reallocation between warpgroups (`setmaxnreg`)."""
