"""Starting Spark: its settings, its Java and its Python interpreter."""
