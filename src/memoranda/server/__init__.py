"""HTTP requests in, effects through the gate, JSON out. Needs the extra `server`; imported when it is asked for."""
