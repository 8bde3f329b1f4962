"""The engine's end of the wire: connections to agents, authenticated, framed, with back-pressure."""
