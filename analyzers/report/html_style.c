/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page's style. Colours are told apart by people who see no red or no green: blue for peers and for what is well, orange for
 * the slow one, which is also drawn thicker; nothing is said by colour alone. Paper is always light.
 */
#include "analyzers/report/html.h"

static const char *const sheet[] = {
	":root{color-scheme:light dark;--bg:#fff;--fg:#16191d;--mute:#57606a;--line:#d5dae0;--panel:#f6f8fa;--bad:#b03a00;"
	"--badfill:#d55e00;--badsoft:#fdeadd;--cool:#0072b2;--band:#bcd9ee;--good:#00654a;--goodsoft:#dff3ec;--none:#6e7781;--cell:#e4e9ee;"
	"--h1:#fdd9b5;--h2:#fdae6b;--h3:#e6710c;--h4:#a33b00;--h12fg:#16191d;--h34fg:#fff;--hatch:#9aa4ae}\n"
	"@media (prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e8ebee;--mute:#a3adb8;--line:#363d46;--panel:#1c2127;--bad:#ffa168;"
	"--badfill:#f28b3c;--badsoft:#3a2415;--cool:#5fb7f2;--band:#23425a;--good:#56d0a6;--goodsoft:#12332a;--none:#9aa4ae;--cell:#2a3138;"
	"--h1:#5a3413;--h2:#8a4a12;--h3:#d9771f;--h4:#ffb877;--h12fg:#fff;--h34fg:#14171b;--hatch:#6b7580}}\n"
	"@media print{:root{color-scheme:light;--bg:#fff;--fg:#000;--mute:#444;--line:#bbb;--panel:#fff;--bad:#b03a00;--badfill:#d55e00;"
	"--badsoft:#fdeadd;--cool:#0072b2;--band:#bcd9ee;--good:#00654a;--goodsoft:#dff3ec;--none:#6e7781;--cell:#e4e9ee;--h1:#fdd9b5;"
	"--h2:#fdae6b;--h3:#e6710c;--h4:#a33b00;--h12fg:#000;--h34fg:#fff;--hatch:#9aa4ae}"
	"body{font-size:9.5pt;max-width:none;padding:0}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}"
	".box,.head,article,.node,tr{break-inside:avoid}.scroll{overflow:visible}a{text-decoration:none}@page{margin:12mm}}\n",
	"*{box-sizing:border-box}body{margin:0 auto;max-width:1560px;padding:clamp(.6rem,2vw,1.6rem);background:var(--bg);color:var(--fg);"
	"font:15px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif;overflow-wrap:anywhere}"
	"a{color:inherit}h1{font-size:clamp(1.3rem,1rem + 1.7vw,2.1rem);line-height:1.2;margin:.35rem 0 .2rem}"
	"h2{font-size:1.05rem;margin:0 0 .5rem}p{margin:.3rem 0}.mute{color:var(--mute)}.small{font-size:.86rem}"
	".top{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;color:var(--mute);font-size:.9rem;margin-bottom:.6rem}.top b{color:var(--fg)}\n",
	".head{border:1px solid var(--line);border-left:.55rem solid var(--badfill);background:var(--badsoft);border-radius:.4rem;"
	"padding:clamp(.7rem,1.5vw,1.2rem);margin-bottom:1rem}.head.healthy{border-left-color:var(--good);background:var(--goodsoft)}"
	".head.unseen{border-left-color:var(--none);background:var(--panel)}.badge{display:inline-block;font-weight:700;letter-spacing:.04em;"
	"color:var(--bad)}.healthy .badge{color:var(--good)}.unseen .badge{color:var(--mute)}"
	".facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,17rem),1fr));gap:.5rem 1.4rem;margin:.8rem 0 .2rem}"
	".facts div{min-width:0}.facts dt{color:var(--mute);font-size:.8rem;text-transform:uppercase;letter-spacing:.05em}"
	".facts dd{margin:0;font-size:1.05rem;font-weight:600}dl{margin:0}\n",
	".grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,36rem),1fr));gap:1rem;align-items:start}"
	".box{border:1px solid var(--line);border-radius:.4rem;background:var(--panel);padding:.8rem;min-width:0}.wide{grid-column:1/-1}"
	".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem}th,td{text-align:left;padding:.28rem .6rem .28rem 0;"
	"border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:break-word}th{color:var(--mute);font-weight:600;font-size:.82rem}"
	"td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}td.w{white-space:nowrap}tr:last-child td{border-bottom:0}"
	".open{color:var(--bad);font-weight:700}.no{display:inline-block;min-width:1.35rem;text-align:center;border-radius:.7rem;"
	"background:var(--badfill);color:var(--h34fg);font-size:.78rem;font-weight:700;padding:.02rem .3rem;text-decoration:none;white-space:nowrap;overflow-wrap:normal}"
	".no.r{background:var(--cell);color:var(--fg)}.strong{color:var(--bad);font-weight:700}\n",
	".chart{display:grid;grid-template-columns:4.6rem 1fr;grid-template-rows:auto;margin:.2rem 0 .4rem}.plot{position:relative;height:11rem;"
	"border-left:1px solid var(--line);border-bottom:1px solid var(--line)}.short .plot{height:8rem}.short .xs .odd{display:none}.plot svg{position:absolute;inset:0;"
	"width:100%;height:100%;display:block}.ys{position:relative;font-size:.76rem;color:var(--mute)}.ys span{position:absolute;right:.35rem;"
	"transform:translateY(-50%);white-space:nowrap}.ys .t{transform:none}.ys .b{transform:translateY(-100%)}"
	".xs{grid-column:2;position:relative;height:1.25rem;font-size:.76rem;color:var(--mute)}.xs span{position:absolute;transform:translateX(-50%);"
	"white-space:nowrap}.xs .f{transform:none}.xs .l{transform:translateX(-100%)}.lanes{grid-column:2;position:relative}.lanes a{position:absolute;"
	"height:1.15rem;border-radius:.2rem;background:var(--badfill);color:var(--h34fg);font-size:.72rem;line-height:1.15rem;padding:0 .25rem;"
	"font-weight:700;text-decoration:none;min-width:1.15rem;overflow:hidden;white-space:nowrap}.lanes a.r{background:var(--cell);color:var(--fg)}"
	"svg *{vector-effect:non-scaling-stroke}.own{fill:none;stroke:var(--badfill);stroke-width:2.6}.mid{fill:none;stroke:var(--cool);"
	"stroke-width:1.8}.peer{fill:none;stroke:var(--cool);stroke-width:1.6;stroke-dasharray:5 3}.bandp{fill:var(--band);stroke:none}"
	".when{fill:var(--badfill);opacity:.13}.void{fill:url(#hatch)}.gridl{stroke:var(--line);stroke-width:1}\n",
	".key{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;font-size:.8rem;color:var(--mute)}.key i{display:inline-block;width:1.5rem;height:.7rem;"
	"margin-right:.35rem;vertical-align:-.03rem}.k1{border-top:3px solid var(--badfill);height:.3rem!important}.k2{border-top:2px dashed "
	"var(--cool);height:.3rem!important}.k3{background:var(--band)}.k4{background:var(--badfill);opacity:.25}.k5{border-top:2px solid "
	"var(--cool);height:.3rem!important}.k6,.map i.u,.key i.u{background-color:transparent!important;background-image:repeating-linear-gradient(45deg,var(--hatch) 0 2px,transparent 2px 5px)}\n",
	".map{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,18.6rem),1fr));gap:.22rem .9rem}.node{display:flex;gap:.5rem;"
	"align-items:center;min-width:0}.node>span{flex:0 0 5.2rem;font-size:.78rem;color:var(--mute);overflow:hidden;text-overflow:ellipsis;"
	"white-space:nowrap}.node.bad>span{color:var(--bad);font-weight:700}.cells{display:flex;flex-wrap:wrap;gap:2px}.map i,.key i.c{"
	"display:inline-block;width:1.5rem;height:1.2rem;border-radius:2px;background-color:var(--cell);font:600 .58rem/1.2rem system-ui,sans-serif;"
	"text-align:center;overflow:hidden;white-space:nowrap}.map i.u{outline:1px solid var(--hatch);outline-offset:-1px}"
	".h1{background:var(--h1)!important;color:var(--h12fg)}.h2{background:var(--h2)!important;color:var(--h12fg)}"
	".h3{background:var(--h3)!important;color:var(--h34fg)}.h4{background:var(--h4)!important;color:var(--h34fg)}"
	".days{display:inline-flex;gap:2px;vertical-align:middle}.days b{width:.62rem;height:.95rem;border-radius:1px;border:1px solid var(--line)}"
	".days .s{background:var(--badfill);border-color:var(--badfill)}.days .d{background:var(--cell)}.days .x{border-style:dotted}\n",
	".articles{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,42rem),1fr));gap:0 1.6rem}article{border-top:1px solid "
	"var(--line);padding:.7rem 0;min-width:0}.ev{display:grid;"
	"grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:.4rem 1.4rem}ul{margin:.2rem 0;padding-left:1.2rem}"
	"footer{color:var(--mute);font-size:.8rem;margin-top:1rem}@media (max-width:40rem){.opt{display:none}.chart{grid-template-columns:3.6rem 1fr}"
	".xs .odd{display:none}.plot{height:8.5rem}body{font-size:14px}"
	".scroll{overflow:visible}table,tbody{display:block}tr{display:flex;flex-wrap:wrap;gap:0 .8rem;padding:.4rem 0;border-bottom:1px solid "
	"var(--line)}tr:first-child{display:none}tr:last-child{border-bottom:0}td,td.n,td.w{border:0;padding:0;min-width:0;overflow-wrap:anywhere;"
	"text-align:left;white-space:normal}td:empty{display:none}td[data-u]:after{content:\" \" attr(data-u);color:var(--mute);font-size:.8rem}"
	"td.m{flex:1 1 80%;font-weight:600}.node>span{flex-basis:4.2rem}.cells{max-width:14rem}}\n",
};

void html_style(FILE *out)
{
	fputs("<style>\n", out);
	for (size_t i = 0; i < sizeof(sheet) / sizeof(sheet[0]); i++)
		fputs(sheet[i], out);
	fputs("</style>\n", out);
}
