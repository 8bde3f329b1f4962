"""The launch screen and its dialogs."""
