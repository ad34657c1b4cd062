"""Property tests of the data room say what is right, not how quick it is on a busy machine."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
