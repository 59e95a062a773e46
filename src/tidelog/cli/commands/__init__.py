"""The commands of ``tidelog``, one module each."""
