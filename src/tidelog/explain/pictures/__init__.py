"""Pictures of logs: what is in the files, to scale, as text and as SVG."""
