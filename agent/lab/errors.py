"""What the lab raises."""


class LabError(RuntimeError):
    """The lab could not do it: no Java, no artifacts, or a process that did not do as told."""
