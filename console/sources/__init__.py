"""Where the console's figures come from: run folders, read in threads. Nothing here imports Textual."""
