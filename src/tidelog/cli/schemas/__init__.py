"""The JSON that commands print, declared as JSON schemas: data, loaded by ``tidelog schema``."""
