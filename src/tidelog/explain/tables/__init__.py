"""System tables: what data directories hold, as rows under declared columns."""
