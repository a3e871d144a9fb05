"""Figures of devices in documents."""
