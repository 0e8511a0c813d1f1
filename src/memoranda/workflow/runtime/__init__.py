"""Running a workflow: a plan in, what its tasks gave out."""
