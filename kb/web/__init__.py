"""Runs, search trees and idea histories in a browser: served by `kb serve`, or written by `kb site`.

A view (`kb.web.views`) reads the record and returns a frozen dataclass. Three skins show it: a page
(templates and SVG), the same as JSON, and the page as a file of a static site. Nothing is written but
notes and the standing of lessons (`kb.web.writes`).
"""
