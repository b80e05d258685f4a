"""Times: seconds since the epoch inside, RFC 3339 in UTC at every border."""

from __future__ import annotations

from datetime import datetime, timezone

__all__ = ["duration", "parse_time", "rfc3339"]


def parse_time(text: str | None) -> float | None:
    """Seconds since the epoch of an RFC 3339 time; None for None, "" and what is not a time."""
    if not text:
        return None
    try:
        # Python 3.10's fromisoformat knows neither "Z" nor nine digits of a second.
        head, dot, fraction = text.replace("Z", "+00:00").partition(".")
        if dot:
            digits = len(fraction) - len(fraction.lstrip("0123456789"))
            fraction, zone = fraction[:digits], fraction[digits:]
            head = f"{head}.{fraction[:6]:0<6}{zone}"
        moment = datetime.fromisoformat(head)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.timestamp()


def rfc3339(seconds: float, *, micro: bool = False) -> str:
    """``2026-11-30T12:14:10Z``, or with six digits of a second when ``micro``."""
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float) -> str:
    """A length of time as a person reads it: ``0:42``, ``1:02:03``."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
