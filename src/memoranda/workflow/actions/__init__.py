"""What the tasks of a workflow do: the actions that ship, and the one form that all actions have."""
