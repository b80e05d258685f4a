"""What the page of a migration has beside the common style."""

from __future__ import annotations

from trainer_ops.pages.sides import GROUPS
from trainer_ops.pages.style import CSS

__all__ = ["MIGRATION_CSS"]

_OWN = """
main{max-width:1240px}
h3{font-size:14px;margin:18px 0 8px;color:var(--soft);font-weight:600}
.pill.small{font-size:13px;padding:1px 9px;vertical-align:2px}
.job>h2{font-size:19px;margin-bottom:2px}
.todo{margin:0;padding:0 0 0 20px}
.todo li{margin:3px 0}
.sev{white-space:nowrap;font-weight:600}
.sev.good{color:var(--good)}.sev.bad{color:var(--bad)}.sev.queue{color:var(--queue)}.sev.held{color:var(--held)}
.sides{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:0 18px}
.sides figure+figure{margin-top:16px}
.sides figcaption{font-size:13px}
.yaml{background:var(--code);border:1px solid var(--rule);border-radius:6px;padding:6px 0;overflow-x:auto}
.yaml>div{display:grid;grid-template-columns:34px minmax(0,1fr) auto;border-left:3px solid transparent;min-height:19px;
line-height:19px}
.yaml b{color:var(--soft);font:11px/19px ui-monospace,monospace;text-align:right;padding-right:10px;user-select:none}
.yaml b::before{content:attr(data-n)}
.yaml code{font-size:12px;line-height:19px;white-space:pre-wrap;overflow-wrap:anywhere}
.yaml .to{font-size:11px;color:var(--soft);padding:0 8px;user-select:none;white-space:nowrap}
.yaml .to a{color:var(--soft);text-decoration:none}
.yaml .to a:hover{text-decoration:underline}
.yaml .mark.bad{color:var(--bad)}.yaml .mark.queue{color:var(--queue)}.yaml .mark.held{color:var(--held)}
.yaml .changed{border-left-color:var(--again);background:color-mix(in srgb,var(--again) 8%,transparent)}
.yaml .dropped{border-left-color:var(--gone);background:color-mix(in srgb,var(--gone) 8%,transparent)}
.yaml .dropped code{color:var(--soft)}
.yaml .refused{border-left-color:var(--bad);background:color-mix(in srgb,var(--bad) 8%,transparent)}
.yaml .new{border-left-color:var(--good);background:color-mix(in srgb,var(--good) 8%,transparent)}
.yaml>div:target,.yaml>div:hover{background:color-mix(in srgb,var(--curve) 22%,transparent)}
.key{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:8px 0 0;padding:0;font-size:13px;color:var(--soft)}
.key i.changed{background:var(--again)}.key i.dropped{background:var(--gone)}.key i.refused{background:var(--bad)}
.key i.new{background:var(--good)}
.at{display:block;font-size:13px;font-weight:400;color:var(--soft)}
td code,li code{font-size:12px}
details pre{margin-top:8px}
@media screen and (max-width:760px){.sides{grid-template-columns:minmax(0,1fr);gap:16px}
table,tbody,tr,th,td{display:block}thead{display:none}tr{border-top:1px solid var(--rule);padding:8px 0}
th,td{border:0;padding:1px 0}td.wide{display:none}td:empty{display:none}
.yaml>div{grid-template-columns:28px minmax(0,1fr) auto}.yaml .to{padding:0 4px}}
@media print{.yaml{overflow:visible}.yaml code{font-size:9px}table{font-size:11px}.job{break-inside:auto}
.yaml>div{break-inside:avoid;print-color-adjust:exact;
-webkit-print-color-adjust:exact}h2,h3{break-after:avoid}}
"""
# The lines of a group light up together wherever the pointer, or the keyboard, is on one of them.
_LIT = "".join(
    f".sides:has(.g{n}:hover) .g{n},.sides:has(.g{n}:target) .g{n}"
    "{background:color-mix(in srgb,var(--curve) 22%,transparent)}\n"
    for n in range(1, GROUPS + 1)
)
MIGRATION_CSS = CSS + _OWN + _LIT
