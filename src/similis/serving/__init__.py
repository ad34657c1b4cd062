"""A model over HTTP: search by image, by id and by vector, enrol and forget, in one process.

Comes in: the folder of a saved model or of a run, and requests. Goes out: JSON, thumbnails, one page.
"""
