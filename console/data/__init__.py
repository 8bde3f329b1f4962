"""The data that screens and commands show, from run folders, machines and Spark. No Textual here."""
