"""The table of calls of models."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Integer, String, Table

from kb.database import Base

CALLS = Table(
    "model_calls",
    Base.metadata,
    Column("run", String, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("key", String, nullable=False),  # of the exchange; "" for an answer that broke off
    Column("role", String, nullable=False),
    Column("model", String, nullable=False),
    Column("tokens_in", Integer, nullable=False),
    Column("tokens_out", Integer, nullable=False),
    Column("cached", Integer, nullable=False, default=0),
    Column("cost", Float),  # null where nobody knows the price
    Column("seconds", Float, nullable=False),
    Column("paid", Boolean, nullable=False),  # False: answered from the record
    Column("at", Float, nullable=False),
)
