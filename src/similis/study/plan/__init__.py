"""The plan of a tournament: its schema and file, equal terms, the runs it asks for and what they cost."""
