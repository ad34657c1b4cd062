"""Maps between embedding spaces, and what another space would give on a collection."""
