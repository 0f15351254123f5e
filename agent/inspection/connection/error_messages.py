"""Error messages of connections: TLS, a port that is not Kafka's, silence."""

import ssl

from agent.inspection.connection.errors import BrokerError, RefusedError, UnreachableError

_HOST_MISMATCH, _ADDRESS_MISMATCH, _EXPIRED = 62, 64, 10
"""OpenSSL's X509_V_ERR codes."""
_TLS_ALERT = b"\x15\x03"
_CERTIFICATE_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED")


def connect_error(address: str, error: Exception, *, tls: bool) -> BrokerError:
    """Return the error of a connection that failed to open."""
    if isinstance(error, ssl.SSLError):
        return tls_error(address, error)
    if tls and isinstance(error, ConnectionResetError | ConnectionAbortedError | EOFError):
        return RefusedError(f"{address}: ended the TLS handshake: does it speak TLS there?", "tls")
    if isinstance(error, TimeoutError):
        text = "no response in time" + (" to the TLS handshake" if tls else "")
        return UnreachableError(f"{address}: {text}", "unreachable")
    refused = isinstance(error, ConnectionRefusedError)
    text = "connection refused" if refused else getattr(error, "strerror", None) or repr(error)
    return UnreachableError(f"{address}: cannot be reached: {text}", "unreachable")


def tls_error(address: str, error: ssl.SSLError) -> BrokerError:
    """Return the error of failed TLS; a refused client certificate fails only the first read."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return RefusedError(f"{address}: {_certificate_text(error)}", "tls")
    reason = error.reason or str(error)
    if "ALERT" in reason and any(word in reason for word in _CERTIFICATE_ALERTS):
        text = f"the broker refuses our certificate, or wants one ({reason})"
    elif isinstance(error, ssl.SSLEOFError) or "WRONG_VERSION" in reason or "RECORD" in reason:
        text = f"does not speak TLS there ({reason}); is the security protocol right?"
    else:
        text = f"TLS failed: {reason}"
    return RefusedError(f"{address}: {text}", "tls")


def _certificate_text(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in (_HOST_MISMATCH, _ADDRESS_MISMATCH):
        return f"its certificate is for another host: {error.verify_message}"
    if error.verify_code == _EXPIRED:
        return "its certificate has expired"
    return f"its certificate is not from an authority that we trust: {error.verify_message}"


def protocol_error(address: str, head: bytes, size: int) -> RefusedError:
    """Return the error of a response that does not begin like a frame of Kafka."""
    if head.startswith(_TLS_ALERT):
        text = "wants TLS; found security protocol PLAINTEXT or SASL_PLAINTEXT"
    elif head == b"HTTP":
        text = "responds like an HTTP server, so it is not Kafka"
    else:
        text = f"does not respond like Kafka: {head!r} would be a length of {size} bytes"
    return RefusedError(f"{address}: {text}", "not_kafka")


def length_error(address: str, asked: str, size: int, limit: int) -> RefusedError:
    """Return the error of a response that is longer than there may be room for."""
    text = f"{address}: {asked}: a response of {size} bytes, of which {limit} are the limit"
    return RefusedError(text, "too_large")


def room_error(address: str, asked: str) -> UnreachableError:
    """Return the error of a response that waited too long for those of other brokers."""
    text = f"{address}: {asked}: not read, as other brokers' responses take all the room"
    return UnreachableError(text, "too_large")


def silence_error(address: str, timeout_s: float) -> UnreachableError:
    """Return the error of a connection that was accepted and stayed silent."""
    text = f"accepted the connection and has not responded in {timeout_s:g} s: is it Kafka?"
    return UnreachableError(f"{address}: {text}", "silent")


def close_error(address: str, asked: str, *, first: bool, tls: bool, sasl: bool) -> BrokerError:
    """Return the error of a connection that was closed instead of a response."""
    if not first:
        return UnreachableError(f"{address}: closed the connection at {asked}", "closed")
    text = f"{address}: closed the connection at {asked}: "
    if tls:
        hint = "does it want a client certificate?"
    elif sasl:
        hint = "is it Kafka, and does it want TLS or no SASL?"
    else:
        hint = "is it Kafka, and does it want TLS or SASL?"
    return RefusedError(text + hint, "tls" if tls else "not_kafka")
