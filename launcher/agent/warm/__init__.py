"""Warm ranks: processes that have imported torch already, and begin as forks of one that only imports."""
