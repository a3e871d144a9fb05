"""Text that speaks to a language model instead of its reader: kept as text, and flagged.

The patterns want both an address and an order, because manuals are full of innocent halves of
them: "ignore the previous value", "system: Linux", "act as a barrier", "you are now ready to
build". A flag changes no word of the passage; what quotes it can say that it is not to be obeyed.
"""

from __future__ import annotations

import re
import unicodedata

SUSPICIOUS = "suspicious"

_WHAT = r"(?:instructions|prompts?|directions|guidelines|directives)"
_BEFORE = r"(?:previous|prior|preceding|above|earlier|foregoing|existing|original|initial|system)"
_DROP = r"(?:ignore|disregard|forget|override|bypass|discard|skip)"
_MODEL = (
    r"(?:AI(?: (?:assistant|agent|model|system))?|LLM|(?:large )?language model|assistant|chatbot"
    r"|(?:Chat)?GPT|Claude|Gemini|Copilot)"
)

_PATTERNS = {
    "drops instructions": rf"\b{_DROP}\s+(?:(?:all|any|every|of|the|your|these|those|my|and)\s+)*"
    rf"{_BEFORE}\s+(?:(?:system|user|safety|developer)\s+)*{_WHAT}\b"
    rf"|\b{_DROP}\s+(?:(?:all|any|of)\s+)*(?:your|the system'?s?|the developer'?s?)\s+(?:\w+\s+)?{_WHAT}\b"
    rf"|\b{_DROP}\s+(?:everything|all|anything)\s+(?:(?:that|you|was|were|been|have|has)\s+)*"
    r"(?:told|said|instructed|written)?\s*(?:above|before|previously|so far)\b(?=[^\n]{0,60}\b(?:you|instead|now|must|output|print|reply|answer)\b)",
    "speaks to a model": rf"\b(?:dear|attention|hey|note to|instructions? (?:for|to)|message (?:for|to)|"
    rf"important (?:for|to)|to)\s+(?:all\s+|any\s+|the\s+|every\s+)*{_MODEL}s?\b"
    r"(?:\s+(?:reading|processing|summari[sz]ing|parsing|that)\b|\s*[:,!])"
    rf"|\bif you are (?:an?\s+|the\s+)?{_MODEL}\b"
    rf"|\bas an? {_MODEL},? you (?:must|should|will|are|have to|need to)\b",
    "gives a model a role": rf"\byou are (?:now|no longer|from now on)\s+(?:an?\s+|the\s+|in\s+)?"
    rf"(?:\w+\s+){{0,3}}?(?:{_MODEL}|DAN|jailbroken|unrestricted|developer mode|root user)\b"
    r"|\b(?:pretend|act)\s+(?:(?:to be|as if|as though|that|like|as)\s+)(?:you (?:are|were)|an? (?:unrestricted|jailbroken|uncensored|evil))\b"
    r"|\benter (?:developer|god|DAN|jailbreak) mode\b",
    "forges a turn of a conversation": r"<\|(?:im_start|start_header_id)\|>[ \t]{0,4}(?:system|user|assistant|developer)\b"
    r"|<\|(?:system|user|assistant|developer)\|>|\[INST\][^\n]{0,4}<<SYS>>|<start_of_turn>[ \t]{0,4}(?:user|model)\b"
    r"|^[ \t]{0,8}(?:###[ \t]{0,4})?(?:system|developer) (?:prompt|message|instruction)s?[ \t]{0,4}:[ \t]{0,4}\S"
    r"|^[ \t]{0,8}</?(?:system[-_ ]?(?:prompt|message|instructions?))>[ \t]{0,8}$"
    r"|\b(?:new|updated|revised|real|actual)\s+(?:system\s+)(?:instructions?|prompts?)\s*:",
    "wants something hidden": r"\b(?:do not|don'?t|never|without)\s+(?:tell(?:ing)?|mention(?:ing)?|reveal(?:ing)?|"
    r"inform(?:ing)?|disclos(?:e|ing)|notify(?:ing)?|alert(?:ing)?)\s+(?:this\s+)?(?:to\s+)?(?:the\s+|your\s+)?"
    r"(?:users?|humans?|operators?|developers?)\b(?=[^\n]{0,80}\b(?:this|instruction|prompt|message|request|about)\b)"
    r"|\b(?:reveal|print|repeat|output|show|leak|send|display)\s+(?:me\s+)?(?:(?:all|the|of|full|entire|your|complete|exact|hidden)\s+)*"
    r"(?:your|system|hidden)\s+(?:system\s+)?(?:prompt|instructions)\b"
    r"|\b(?:send|post|upload|exfiltrate|transmit|leak|email)\s+(?:(?:all|the|any|your|user'?s?|their|of|environment|secret)\s+)*"
    r"(?:api[ _-]?keys?|credentials|passwords|secrets|environment variables|tokens)\s+"
    r"(?:to|via)\s+(?:https?:|www\.|me\b|us\b|this\b|the following\b|\S+@|\S+\.[a-z]{2,})",
    "games the judge": r"(?<!not )(?<!never )\b(?:hard-?code|fake|forge|spoof|falsify)\s+(?:the\s+|all\s+|your\s+)?(?:expected\s+|correct\s+)?"
    r"(?:outputs?|results?|timings?|measurements?|benchmarks?|speed-?ups?)\b(?=[^\n]{0,80}\b(?:pass|judge|test|checker|grader|evaluator)\b)"
    r"|\b(?:you|answer|reply|respond|output)\b[^\n.]{0,60}\b(?:only|nothing but|exactly)\b[^\n.]{0,40}"
    r"\b(?:and (?:nothing|ignore)|regardless of|no matter what)\b[^\n.]{0,40}\b(?:question|asked|task|prompt|user)\b",
}
_COMPILED = {
    name: re.compile(pattern, re.IGNORECASE | re.MULTILINE) for name, pattern in _PATTERNS.items()
}
# Letters that show nothing can carry an order that only a model reads (Unicode's tag characters).
_TAGS = re.compile("[\U000e0020-\U000e007f]{4,}")
# Characters without width break up words for a pattern, not for a model.
_NO_WIDTH = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")


def suspicions(text: str) -> tuple[str, ...]:
    """Return the names of the patterns by which `text` seems to instruct a language model."""
    found = [] if _TAGS.search(text) is None else ["hides letters"]
    plain = unicodedata.normalize("NFKC", _NO_WIDTH.sub("", text))
    found += [name for name, pattern in _COMPILED.items() if pattern.search(plain)]
    return tuple(found)
