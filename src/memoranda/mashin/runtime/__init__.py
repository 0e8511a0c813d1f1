"""Run a compiled machine: `flow` goes through its steps, `steps` carries out each, `effects` governs what they do."""
