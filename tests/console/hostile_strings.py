"""Texts that would do harm if a page took them for more than text."""

from itertools import product

CALL = "window.alive=1"
# What each of these would do: run CALL, load something, move the page, or change how it looks.
MARKUP = (
    f"<script>{CALL}</script>",
    f"<img src=x onerror={CALL}>",
    f"<svg onload={CALL}>",
    f"<svg><script>{CALL}</script></svg>",
    f'<iframe srcdoc="<script>parent.{CALL}</script>"></iframe>',
    f"<input autofocus onfocus={CALL}>",
    f"<details open ontoggle={CALL}>",
    f"<video><source onerror={CALL}></video>",
    f"<audio src=x onerror={CALL}>",
    f"<body onpageshow={CALL}>",
    f"<marquee onstart={CALL}>",
    f"<object data=javascript:{CALL}></object>",
    f"<embed src=javascript:{CALL}>",
    f"<a href=javascript:{CALL} autofocus>here</a>",
    f"<form action=javascript:{CALL}><button>go",
    f'<math><a xlink:href="javascript:{CALL}">here',
    f'<style onload="{CALL}">*{{display:none}}</style>',
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/a.css>",
    "<dialog open><h1>Sign in</h1></dialog>",
    f"<template><script>{CALL}</script></template>",
)
BEFORE = ("", '">', "'>", "-->", "</textarea>", "</title>")
LINKS = (
    f"javascript:{CALL}",
    f"JaVaScRiPt:{CALL}",
    f"javascript://%0a{CALL}",
    f"&#106;avascript:{CALL}",
    f"data:text/html,<script>{CALL}</script>",
    f"vbscript:{CALL}",
    "//evil.example/",
    "https://evil.example/console/sign-in",
    "/console/sign-in?next=//evil.example",
    "\\\\evil.example\\share",
    "blob:null/x",
)
CODE = (
    f"${{{CALL}}}",
    f"`${{{CALL}}}`",
    f"{{{{constructor.constructor('{CALL}')()}}}}",
    f"');{CALL};//",
    f'";{CALL};//',
    f"*/{CALL}/*",
    "]]><!--",
    "<!doctype html>",
    "&lt;script&gt; &amp;amp; &#60;b&#62;",
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "dangerouslySetInnerHTML",
    "null",
    "undefined",
    "NaN",
    "-1e999",
    "%s%n%x %00",
    "'; DROP TABLE agent; --",
    "../../../etc/passwd",
    "}</style>*{display:none}",
    "url(javascript:0)",
    "\\u003cscript\\u003e",
)
BIDI = tuple(
    f"invoice{mark}fdp.exe"
    for mark in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
INVISIBLE = tuple(
    f"ad{mark}min"
    for mark in "\u00ad\u200b\u200c\u200d\u2028\u2029\u2060\u2061\u2062\u2063\u2064\ufeff\U000e0041\U000e007f"
)
ODD = (
    "Z" + "\u0300\u0489" * 30,
    "\ufdfd" * 5,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\ufffd\uffff",
    "W" * 180,
    "\x1b[31mred\x07\x08",
    "one\r\n\r\n<b>two</b>",
)
STRINGS = (
    *(before + text for before, text in product(BEFORE, MARKUP)),
    *LINKS,
    *CODE,
    *BIDI,
    *INVISIBLE,
    *ODD,
)

LINE_CHARACTERS = 180  # what a page shows of a line in a list, and less than every field takes


def in_lines() -> list[str]:
    """Return the strings packed into lines that every one-line field takes."""
    lines = [""]
    for text in STRINGS:
        if lines[-1] and len(lines[-1]) + len(text) >= LINE_CHARACTERS:
            lines.append("")
        lines[-1] += f" {text}" if lines[-1] else text
    return lines
