"""How Python calls it: handles over the gate, and the one place that puts the parts together."""
