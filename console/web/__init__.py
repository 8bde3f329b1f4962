"""The console in a browser: `rankdeck serve`."""
