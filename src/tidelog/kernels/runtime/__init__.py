"""How kernels are compiled, cached between processes, and chosen over plain code."""
