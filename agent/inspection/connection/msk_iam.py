"""Tokens for Amazon MSK: it accepts AWS identities by the mechanism OAUTHBEARER.

The token is made by Amazon's own signer (extra `msk`), imported when it is needed.
"""

import re
from collections.abc import Mapping

from agent.errors import ConfigError
from agent.extras import require_extra
from agent.inspection.connection.errors import RefusedError

MECHANISM = "AWS_MSK_IAM"
"""The mechanism's name in Java's configuration; on the wire it is OAUTHBEARER."""
_REGION = re.compile(r"\.(?:kafka|kafka-serverless)\.([a-z0-9-]+)\.amazonaws\.com")
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def find_region(bootstrap: str, environment: Mapping[str, str]) -> str:
    """Return the region that a broker's name has, else the environment's.

    Raises:
        ConfigError: neither names a region.

    """
    match = _REGION.search(bootstrap)
    if match is not None:
        return match[1]
    for name in _REGION_VARIABLES:
        if region := environment.get(name):
            return region
    raise ConfigError(
        f"sasl.mechanism: {MECHANISM}: found no region in the brokers' names; wanted AWS_REGION"
    )


def make_token(region: str, options: Mapping[str, str]) -> str:
    """Return a token of the default credentials, of a profile or of a role, as JAAS names it.

    Raises:
        ConfigError: the extra `msk` is not installed.
        RefusedError: the signer finds no credentials.

    """
    with require_extra("msk", f"sasl.mechanism: {MECHANISM}"):
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer  # noqa: PLC0415 - an extra
    profile, role = options.get("awsProfileName"), options.get("awsRoleArn")
    try:
        if role is not None:
            session = options.get("awsRoleSessionName", "rebalance-agent")
            token, _ = Signer.generate_auth_token_from_role_arn(region, role, session)
        elif profile is not None:
            token, _ = Signer.generate_auth_token_from_profile(region, profile)
        else:
            token, _ = Signer.generate_auth_token(region)
    except AttributeError as error:  # so the signer fails without credentials
        raise RefusedError(
            f"{MECHANISM}: no token: found no AWS credentials", "password"
        ) from error
    except Exception as error:  # the signer's and boto's own errors have no common class
        raise RefusedError(f"{MECHANISM}: no token: {error}", "password") from error
    return str(token)
