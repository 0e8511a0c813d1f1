"""The admin pages by section. They call the same Python API as the routes."""
