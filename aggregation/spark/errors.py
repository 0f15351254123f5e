"""Errors of the Spark commands, by the person that must act. Each text is one clear sentence."""


class SparkSetupError(Exception):
    """The operator must act before anything can run: no Spark, no fitting Java, wrong folder."""


class SparkJobError(Exception):
    """A job ran and found a fault: an unreadable file, a failed query, nothing to report."""
