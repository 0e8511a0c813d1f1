"""The REST API by resource. Each route makes one call on the caller's memory handle."""
