"""The page's style sheet and script. No file of its own, as the page must carry everything in itself."""

from __future__ import annotations

CARDS_BELOW = {"wide": "44rem", "widest": "68rem"}  # the width of its place below which a table becomes cards

STYLE = """
:root{color-scheme:light dark;--bg:#f6f8fa;--card:#fff;--ink:#17202a;--soft:#56636f;--line:#d8dfe6;
--accent:#1f6fb2;
--bar:#cfe3f5;--bad:#b3400f;--edge:#e8f4ee;--fog:#eef1fa;--cloud:#e8f2fb;--link:#7c8a98;
--p0:#2a7fc9;--p1:#e69f00;--p2:#14a37f;--p3:#c678b0}
@media (prefers-color-scheme:dark){:root{--bg:#0f1419;--card:#171d24;--ink:#e4e9ee;--soft:#9aa7b3;
--line:#2d3742;
--accent:#6db3ec;--bar:#1d3c57;--bad:#ff9a6b;--edge:#15251f;--fog:#1b2031;--cloud:#152433;--link:#8c9aa8}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--bg);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1440px;margin:0 auto;padding:0 clamp(.6rem,2vw,1.6rem) 3rem}
nav{position:sticky;top:0;z-index:5;background:var(--bg);border-bottom:1px solid var(--line);
font-size:.9rem;
display:flex;gap:1.1rem;overflow-x:auto;padding:.5rem clamp(.6rem,2vw,1.6rem);white-space:nowrap}
a{color:var(--accent)}nav a{text-decoration:none}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:3px}
h1{font-size:clamp(1.6rem,4vw,2.4rem);line-height:1.15;margin:1.6rem 0 .3rem;overflow-wrap:anywhere}
h2{font-size:1.35rem;margin:0 0 .6rem}h3{font-size:1.1rem;margin:1.8rem 0 .4rem}
.lead{font-size:1.05rem;color:var(--soft);margin:.2rem 0 1rem;max-width:75ch}
.verdict{font-weight:600;max-width:75ch}
.note{color:var(--soft);font-size:.9rem;margin:.3rem 0 .6rem;max-width:90ch}
section,details.run{background:var(--card);border:1px solid var(--line);border-radius:12px;
padding:clamp(.8rem,2vw,1.4rem);margin:1.2rem 0;scroll-margin-top:3.2rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(190px,45%),1fr));gap:.7rem;
margin:0 0 1rem}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:.7rem .9rem}
.tile dt{color:var(--soft);font-size:.85rem}
.tile dd{margin:0;font-size:1.3rem;font-weight:650;line-height:1.25;overflow-wrap:anywhere}
.tile small{display:block;font-size:.8rem;font-weight:400;color:var(--soft);line-height:1.35}
.scroll{overflow-x:auto;margin:.4rem 0 1rem;border-radius:6px;container-type:inline-size}
table{border-collapse:collapse;width:100%;font-size:.86rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);font-size:.85rem;padding:.2rem 0;position:sticky;left:0}
th,td{padding:.36rem .36rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap;
position:relative}
tbody th,thead th:first-child{text-align:left;font-weight:600;position:sticky;left:0;
background:var(--card);z-index:1}
tbody th{white-space:normal;min-width:8.5rem}
thead th{vertical-align:bottom;white-space:normal;padding:.2rem .3rem}
thead button{font:inherit;font-size:.82rem;font-weight:600;color:var(--soft);background:none;border:0;
padding:.1rem .3rem;
cursor:pointer;text-align:inherit;line-height:1.2}
thead th[aria-sort=ascending] button::after{content:" \\25B2"}
thead th[aria-sort=descending] button::after{content:" \\25BC"}
td>span:not(.bar){position:relative}th.text,td.text{text-align:left}
td.text{white-space:normal}td.text:last-child{min-width:12rem}
.bar{position:absolute;left:0;top:15%;height:70%;background:var(--bar);border-radius:3px}
.bad{color:var(--bad);font-weight:650}.bad>span::before{content:"\\25B2 ";font-size:.7em}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr));gap:1rem}
.pair>div,.plot{min-width:0}
.plot{width:100%}
details>summary{cursor:pointer;font-weight:600;padding:.2rem 0;overflow-wrap:anywhere}
details.run>summary{font-size:1.2rem}
pre{background:var(--bg);border:1px solid var(--line);border-radius:8px;padding:.7rem .9rem;overflow:auto;
max-height:28rem;
font-size:.82rem;line-height:1.4}
.bars{display:grid;grid-template-columns:auto 1fr auto;gap:.4rem .8rem;align-items:center;margin:.6rem 0;
max-width:900px}
.bars div{display:flex;height:1.5rem;background:var(--bg);border-radius:4px;overflow:hidden}
.piece{display:block;height:100%;min-width:1px}.measured{background:var(--link)}
.piece0{background:var(--p0)}
.piece1{background:repeating-linear-gradient(45deg,var(--p1) 0 6px,transparent 6px 8px)}
.piece2{background:repeating-linear-gradient(-45deg,var(--p2) 0 6px,transparent 6px 8px)}
.piece3{background:repeating-linear-gradient(90deg,var(--p3) 0 5px,transparent 5px 7px)}
.key>span::before{content:"";display:inline-block;width:.9em;height:.9em;margin-right:.5em;
border-radius:2px;
vertical-align:-.08em}
.key0>span::before{background:var(--p0)}
.key1>span::before{background:repeating-linear-gradient(45deg,var(--p1) 0 4px,transparent 4px 6px)}
.key2>span::before{background:repeating-linear-gradient(-45deg,var(--p2) 0 4px,transparent 4px 6px)}
.key3>span::before{background:repeating-linear-gradient(90deg,var(--p3) 0 3px,transparent 3px 5px)}
.reasons{color:var(--soft);font-size:.9rem;padding-left:1.2rem}
.graph{width:100%;min-width:680px;height:auto;display:block;font-family:inherit}
.graph.key{width:18px;min-width:0;height:18px;display:inline-block;vertical-align:-4px;margin-right:.4rem}
.signs{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;padding:0;margin:.2rem 0;
font-size:.85rem}
.band.edge{fill:var(--edge)}.band.fog{fill:var(--fog)}.band.cloud{fill:var(--cloud)}
.graph text{fill:var(--ink);font-size:12px}.graph .tier{font-size:14px;font-weight:700;fill:var(--soft)}
.site{fill:var(--card);stroke:var(--line);stroke-width:1.2}.graph .sitename{font-size:14px;font-weight:700}
.graph .device{font-weight:600}.graph .detail,.graph .network{fill:var(--soft);font-size:11.5px}
.graph .linklabel{font-size:11.5px;stroke-width:5px;paint-order:stroke;stroke-linejoin:round}
.linklabel.edge{stroke:var(--edge)}.linklabel.fog{stroke:var(--fog)}.linklabel.cloud{stroke:var(--cloud)}
.link{fill:none;stroke:var(--link);stroke-opacity:.75}.link:hover{stroke:var(--accent);stroke-opacity:1}
.sign.worker{fill:#2a7fc9}.sign.server{fill:#e69f00}.sign.store{fill:#14a37f}
.sign.idle{fill:none;stroke:var(--soft);stroke-width:1.8}
.happenings{list-style:none;padding:0 0 0 .8rem;margin:.4rem 0;border-left:3px solid var(--line)}
.happenings li{padding:.12rem 0 .12rem .4rem;position:relative;display:grid;
grid-template-columns:5.2rem 1fr}
.happenings li::before{content:"\\25CF";position:absolute;left:-1.28rem;font-size:.7rem;top:.35rem;
color:var(--soft)}
.happenings .fault::before{content:"\\2716";color:var(--bad)}.happenings .lost::before{content:"\\25BC";
color:var(--bad)}
.happenings .returned::before{content:"\\25B2";color:#14a37f}
.happenings time{font-variant-numeric:tabular-nums;color:var(--soft)}
footer{color:var(--soft);font-size:.85rem;margin-top:2rem}
@media print{:root{--bg:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;--bar:#ddd;--edge:#f4f8f6;
--fog:#f5f6fa;
--cloud:#f3f7fb}nav{display:none}section,details.run{border:0;padding:0}.plot,.graph,tr{break-inside:avoid}
h2,h3{break-after:avoid}.scroll{overflow:visible}table{font-size:.62rem}th,td{padding:.15rem .25rem;
white-space:normal}
.graph{min-width:0}.pair{grid-template-columns:1fr}pre{max-height:none;white-space:pre-wrap}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
@media screen{@container (max-width:78rem){table.widest{font-size:.75rem}
.widest th,.widest td{padding:.36rem .25rem}.widest tbody th{min-width:6.5rem}}}
"""

# Where a table would not fit, a row becomes a card of captions and values; the heads, which sort, a line of buttons.
_CARDS = """
@media screen{@container (max-width:WIDTH){
table.KIND,.KIND tbody,.KIND caption{display:block}
.KIND thead tr{display:flex;flex-wrap:wrap}.KIND thead th{border:0;position:static}
.KIND tbody tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(10.5rem,1fr));gap:0 1.4rem;
padding:.5rem 0;border-bottom:1px solid var(--line)}
.KIND tbody th{grid-column:1/-1;position:static}.KIND tbody th,.KIND tbody td{border:0;padding:.1rem 0}
.KIND tbody td{display:flex;justify-content:space-between;gap:.6rem;font-size:.82rem}
.KIND tbody td::before{content:attr(data-head);color:var(--soft);position:relative;z-index:1}}}
"""
STYLE += "".join(_CARDS.replace("KIND", kind).replace("WIDTH", width) for kind, width in CARDS_BELOW.items())

SCRIPT = """
"use strict";
const dark = matchMedia("(prefers-color-scheme: dark)");
const plots = [...document.querySelectorAll(".plot")];
const config = {responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "",
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"]};

function colours(layout, isDark) {
  const [ink, grid, card] = isDark ? ["#dde3e9", "#2d3742", "#171d24"] : ["#26313b", "#e1e6eb", "#ffffff"];
  const set = {"font.color": ink, "modebar.bgcolor": "rgba(0,0,0,0)", "modebar.color": "#9aa5b1",
    "modebar.activecolor": ink, "hoverlabel.bgcolor": card, "hoverlabel.font.color": ink};
  for (const axis of Object.keys(layout).filter(key => /^[xy]axis/.test(key))) {
    set[axis + ".gridcolor"] = grid; set[axis + ".linecolor"] = grid; set[axis + ".tickcolor"] = grid;
  }
  return set;
}
function fit(figure) {  // narrow screens: the names of rows go small so that the picture keeps its room
  const narrow = innerWidth < 640;
  figure.layout.font = {family: "system-ui, Segoe UI, Roboto, sans-serif", size: narrow ? 10 : 12};
  if (!narrow) return figure;
  figure.layout.legend = {...figure.layout.legend, font: {size: 9}};
  if (figure.layout.meta) figure.layout.yaxis.ticktext = figure.layout.meta.short;
  return figure;
}
function draw(place) {
  if (place.dataset.drawn) return;
  place.dataset.drawn = "yes";
  const figure = fit(JSON.parse(place.nextElementSibling.textContent));
  place.textContent = "";
  Plotly.newPlot(place, figure.data, figure.layout, config)
    .then(() => Plotly.relayout(place, colours(figure.layout, dark.matches)));
}
const watcher = new IntersectionObserver(entries => {
  for (const entry of entries.filter(entry => entry.isIntersecting)) {
    watcher.unobserve(entry.target);
    draw(entry.target);
  }
}, {rootMargin: "600px"});
plots.forEach(place => watcher.observe(place));

function redress(isDark, size = {}) {
  for (const place of plots)
    if (place.dataset.drawn) Plotly.relayout(place, {...colours(place.layout, isDark), ...size});
}
dark.addEventListener("change", () => redress(dark.matches));
addEventListener("beforeprint", () => {  // paper is light, and as wide as an A4 page
  plots.filter(place => place.offsetParent).forEach(draw);
  redress(false, {width: 680});
});
addEventListener("afterprint", () => redress(dark.matches, {width: null, autosize: true}));

for (const button of document.querySelectorAll("thead button")) button.addEventListener("click", () => {
  const head = button.parentElement, body = head.closest("table").tBodies[0], column = head.cellIndex;
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentElement.children) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const sign = down ? -1 : 1, key = row => row.cells[column].dataset.order;
  const text = row => row.cells[column].textContent;
  [...body.rows].sort((a, b) => key(a) === undefined || key(b) === undefined
    ? (key(a) === undefined) - (key(b) === undefined) || sign * text(a).localeCompare(text(b))
    : sign * (key(a) - key(b))).forEach(row => body.append(row));
});
"""
