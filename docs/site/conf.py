# SPDX-License-Identifier: MIT
# Sphinx's settings for the site that scripts/docs builds.
import os

project = "sennit"
author = "the sennit authors"
version = release = os.environ["SENNIT_VERSION"]
extensions = ["myst_parser"]
# So that links such as page.md#heading mean what they mean elsewhere.
myst_heading_anchors = 3
# Whatever says no language is commands, or text.
highlight_language = "none"
smartquotes = False
suppress_warnings = ["epub.unknown_project_files"]

html_theme = "furo"
html_title = f"sennit {version}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#5fd3a8", "color-brand-content": "#5fd3a8"},
}
