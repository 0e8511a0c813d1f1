"""Bodies of requests and answers: one definition for the server, the client and the OpenAPI document."""
