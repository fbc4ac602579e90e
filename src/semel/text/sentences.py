"""Put texts of unknown origin together as sentences, each with exactly one mark at its end."""

from __future__ import annotations

END_MARKS = (".", "!", "?", "…")


def end_sentence(text: str) -> str:
    """Return the text with a mark at its end: its own, or a full stop."""
    text = text.strip()
    return text if text.endswith(END_MARKS) else f"{text}."


def join_sentences(*texts: str) -> str:
    """Join texts with a mark between them. Empty ones are left out; the end of the last one stays as it is."""
    *sentences, last = [text.strip() for text in texts if text.strip()] or [""]
    return " ".join([*map(end_sentence, sentences), last])
