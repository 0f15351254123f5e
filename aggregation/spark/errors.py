"""Errors of the Spark side, by who must act. Their text is one clear sentence."""


class SparkSetupError(Exception):
    """The operator must act before anything can run: no Spark, no fitting Java, wrong folder."""


class SparkJobError(Exception):
    """It ran and found a fault: unreadable file, failed query, nothing to report."""
