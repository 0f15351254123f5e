"""How much hypothesis tries: HYPOTHESIS_PROFILE=thorough looks 20 times as long."""

import os

from hypothesis import settings

# a deadline would measure the machine, not the code
settings.register_profile("quick", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
