"""How a page looks: calm, light or dark as the reader's system is, on a phone and on paper."""

from __future__ import annotations

__all__ = ["CSS"]

# Text has a contrast of at least 4.5 to what is behind it, bars of at least 3 to the page: a test computes both.
CSS = """
:root{color-scheme:light dark;--page:#f6f7f8;--card:#fff;--ink:#1f2328;--soft:#57606a;--rule:#d8dee4;--code:#f1f3f5;
--on-bar:#fff;--curve:#2b68b3;--queue:#86670f;--held:#68717b;--prepare:#6e56a8;--start:#4b6f92;--run:#2b68b3;
--again:#a9501a;--bad:#b3372f;--gone:#84507c;--good:#2a7549}
@media (prefers-color-scheme:dark){:root{--page:#14171b;--card:#1c2026;--ink:#e6e8eb;--soft:#a3adb8;--rule:#343b44;
--code:#14171b;--on-bar:#101317;--curve:#7fb2ee;--queue:#d1a93f;--held:#98a2ad;--prepare:#ab97e0;--start:#8fb0cf;
--run:#7fb2ee;--again:#e29a63;--bad:#ec8b82;--gone:#cc98c3;--good:#72c194}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
main{max-width:1000px;margin:0 auto;padding:28px 20px 40px}
h1{font-size:26px;line-height:1.25;margin:10px 0 2px}
h2{font-size:16px;margin:0 0 12px}
p{margin:0}
.sub,.note{color:var(--soft)}
.note{font-size:13px;margin-top:10px}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:18px 20px;margin-top:16px}
.pill{display:inline-block;padding:3px 12px;border-radius:99px;font-weight:600;
background:var(--start);color:var(--on-bar)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(132px,1fr));gap:12px 16px;margin:18px 0 0}
section .facts{margin:0}
.facts+p{margin-top:14px}
.facts div{border-left:3px solid var(--rule);padding-left:10px}
dt{color:var(--soft);font-size:13px}
dd{margin:0;font-size:18px;font-weight:600}
dd small{display:block;font-size:13px;font-weight:400;color:var(--soft)}
.diagnosis{border-left:4px solid var(--bad)}
.diagnosis.left{border-left-color:var(--queue)}
.diagnosis.off{border-left-color:var(--gone)}
.diagnosis .what{font-size:17px;font-weight:600}
.diagnosis .do{margin-top:10px}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.tag{background:var(--code);border:1px solid var(--rule);border-radius:5px;padding:1px 6px;white-space:nowrap}
pre{background:var(--code);border:1px solid var(--rule);border-radius:6px;padding:10px 12px;margin:12px 0 0;
white-space:pre-wrap;max-height:40em;overflow:auto}
svg{display:block}
.timeline{overflow:visible}
.bar{stroke:var(--card);stroke-width:1}
.on-bar{fill:var(--on-bar);font-size:13px;font-weight:600}
.tick{fill:var(--soft);font-size:12px}
.axis,.grid{stroke:var(--rule)}
.queue{fill:var(--queue)}.held{fill:var(--held)}.prepare{fill:var(--prepare)}.start{fill:var(--start)}
.run{fill:var(--run)}.again{fill:var(--again)}.bad{fill:var(--bad)}.gone{fill:var(--gone)}.good{fill:var(--good)}
.pill.queue,i.queue{background:var(--queue)}.pill.run,i.run{background:var(--run)}.pill.bad,i.bad{background:var(--bad)}
.pill.gone,i.gone{background:var(--gone)}.pill.good,i.good{background:var(--good)}i.held{background:var(--held)}
i.prepare{background:var(--prepare)}i.start{background:var(--start)}i.again{background:var(--again)}
i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:7px}
.totals{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:6px 0 14px;padding:0}
.totals b{font-weight:600}
table{border-collapse:collapse;width:100%}
caption{text-align:left;color:var(--soft);font-size:13px;padding-bottom:6px}
th,td{text-align:left;vertical-align:top;padding:6px 14px 6px 0;border-top:1px solid var(--rule)}
thead th{border-top:0;color:var(--soft);font-size:13px;font-weight:600;white-space:nowrap}
tbody th,td b{font-weight:600}
td:last-child,th:last-child{padding-right:0}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.narrow{width:1%}
.said td{border-top:0;padding-top:0;color:var(--soft)}
.word{white-space:nowrap}
.trouble{color:var(--bad);font-weight:600}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(240px,1fr));gap:18px 22px}
figure{margin:0}
figcaption{font-weight:600;margin-bottom:2px}
figcaption span{font-weight:400;color:var(--soft)}
.chart{width:100%;height:auto}
.chart .tick{font-size:11px}
.curve{fill:none;stroke:var(--curve);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.dot{fill:var(--curve)}
.point{fill:var(--curve);fill-opacity:0}
.point:hover{fill-opacity:.45}
.mark{stroke:var(--again);stroke-dasharray:3 3}
details{margin-top:10px}
summary{cursor:pointer;color:var(--soft)}
.events{list-style:none;margin:0;padding:0}
.events li{display:grid;grid-template-columns:74px 1fr;gap:0 12px;padding:6px 0;border-top:1px solid var(--rule)}
.events li:first-child{border-top:0}
.events time{color:var(--soft);text-align:right;font-variant-numeric:tabular-nums}
.events p{color:var(--soft)}
footer{color:var(--soft);font-size:13px;margin-top:18px}
a{color:var(--curve)}
@media (max-width:600px){main{padding:16px 12px 28px}section{padding:14px}h1{font-size:21px}th,td{padding-right:10px}
.facts{grid-template-columns:repeat(2,1fr)}.events li{grid-template-columns:58px 1fr}.wide{display:none}}
@media print{:root{color-scheme:light}body{background:#fff;font-size:12px}main{max-width:none;padding:0}
section{break-inside:avoid;padding:10px 12px}pre{max-height:none}.bar,.pill,i{print-color-adjust:exact;
-webkit-print-color-adjust:exact}details::details-content{content-visibility:visible;block-size:auto}}
"""
