"""The HTTP server: REST API, authentication and admin pages. Needs the extra `server`."""
