"""Curves of reported metrics as screens and exports show them; no Textual."""
