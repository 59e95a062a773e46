"""The jobs of ``tidelog spark``, one module each: ``add_job`` and ``run``."""
