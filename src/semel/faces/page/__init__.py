"""The web page: `dist/`, which `scripts/build_page.py` builds from `web/` and `semel.faces.http` serves."""
