"""The wire between the engine and its agents, both ends: authenticated, framed, with back-pressure."""
