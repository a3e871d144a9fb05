"""Endpoints that speak OpenAI's chat protocol, by the names that people know them under.

Each is `synth.models.openai.OpenAI` with the address and the names of keys that belong to it. The
servers on one's own machine need no key, and answer where their makers let them listen.
"""

from __future__ import annotations

from typing import Any

from synth.models.openai import OpenAI

GOOGLE = "https://generativelanguage.googleapis.com/v1beta/openai/"
OPENROUTER = "https://openrouter.ai/api/v1"
OWN = {
    "llamacpp": "http://127.0.0.1:8080/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "sglang": "http://127.0.0.1:30000/v1",
    "vllm": "http://127.0.0.1:8000/v1",
}


def google(name: str, **settings: Any) -> OpenAI:
    """Return a model of Google's, by its endpoint that speaks OpenAI's protocol."""
    return _at(GOOGLE, ("GEMINI_API_KEY", "GOOGLE_API_KEY"), name, settings)


def openrouter(name: str, **settings: Any) -> OpenAI:
    """Return a model behind OpenRouter, which also says what each answer cost."""
    return _at(OPENROUTER, ("OPENROUTER_API_KEY",), name, settings)


def llamacpp(name: str, **settings: Any) -> OpenAI:
    """Return the model that llama.cpp's server has loaded."""
    return _at(OWN["llamacpp"], ("LLAMA_API_KEY",), name, settings)


def ollama(name: str, **settings: Any) -> OpenAI:
    """Return a model of Ollama."""
    return _at(OWN["ollama"], ("OLLAMA_API_KEY",), name, settings)


def sglang(name: str, **settings: Any) -> OpenAI:
    """Return a model that SGLang serves."""
    return _at(OWN["sglang"], ("SGLANG_API_KEY",), name, settings)


def vllm(name: str, **settings: Any) -> OpenAI:
    """Return a model that vLLM serves."""
    return _at(OWN["vllm"], ("VLLM_API_KEY",), name, settings)


def _at(url: str, keys: tuple[str, ...], name: str, settings: dict[str, Any]) -> OpenAI:
    # A key of one's own choice (`key:`) wins. KB_API_KEY comes last, so that an environment with
    # keys of several providers sends each its own.
    given = {**settings}
    given["base_url"] = given.get("base_url") or url
    given["keys"] = given.get("keys") or (*keys, "KB_API_KEY")
    return OpenAI(name, **given)
