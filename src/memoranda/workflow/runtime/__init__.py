"""Running a compiled workflow."""
