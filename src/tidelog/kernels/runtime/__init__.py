"""How kernels are compiled, kept between runs, and chosen over plain code."""
