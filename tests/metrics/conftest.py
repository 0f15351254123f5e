"""How much hypothesis tries: HYPOTHESIS_PROFILE=thorough looks 20 times as long."""

import os

from hypothesis import HealthCheck, settings

# a deadline would measure the machine, not the code
settings.register_profile("quick", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=2_000)
# mutmut runs all tests again and again in one process, each time as new objects; a mutant lives or
# dies by the same examples every time
settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.differing_executors],
)
_default = "mutants" if "MUTANT_UNDER_TEST" in os.environ else "quick"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", _default))
