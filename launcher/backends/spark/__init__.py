"""Agents as the tasks of a Spark barrier stage. The only folder that imports pyspark."""
