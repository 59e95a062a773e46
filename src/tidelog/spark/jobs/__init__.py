"""Jobs on Spark over data directories, each one a function and a ``tidelog spark`` command."""
