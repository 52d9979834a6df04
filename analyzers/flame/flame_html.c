/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page: one file without anything from outside. Style and script are page.css and page.js; texts from a store are
 * escaped here, or are data of the script.
 */
#include "analyzers/flame/flame.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "analyzers/base/text.h"
#include "analyzers/flame/flame_words.h"
#include "analyzers/tool/tool.h"

#define HTML_ROWS 12 /* of the table of functions that differ */

/* Made of page.css and page.js. */
extern const char flame_page_css[], flame_page_js[];

/* printf, cleaned and escaped as a whole. */
__attribute__((format(printf, 2, 3))) static void flame_html_format(FILE *out, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	text_put_html(out, text_clean(text));
}

static void flame_html_begin(const struct flame_view *view, const char *title, FILE *out)
{
	const struct flame_source *source = view->source;
	char from[TOOL_TEXT_BYTES], ranks[FLAME_WORDS_BYTES];

	/* The policy forbids loading anything. */
	fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
	      "content=\"width=device-width, initial-scale=1\"><meta name=\"referrer\" content=\"no-referrer\">"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
	      "script-src 'unsafe-inline'\">\n<title>",
		out);
	flame_html_format(out, "%s", title);
	fprintf(out, "</title>\n<style>\n%s</style></head><body>\n<div class=\"top\"><b>%s</b><span>", flame_page_css,
		view->diff     ? "Comparison of profiles"
		: view->memory ? "Memory"
			       : "Profile");
	flame_html_format(out, "%s", tool_time((uint64_t)source->start_ns, from));
	if (!view->memory)
		flame_html_format(out, ", %.0f s, %" PRIu64 " Hz", (double)(source->end_ns - source->start_ns) / 1e9,
			source->frequency_hz);
	fputs("</span><span>", out);
	flame_html_format(out, "%s", flame_words_ranks(source, ranks));
	fputs("</span>", out);
	if (source->ranks && *source->rank[0].job) {
		fputs("<span>", out);
		flame_html_format(out, "job %s on %s", source->rank[0].job, source->rank[0].host);
		fputs("</span>", out);
	}
	fputs("</div>\n", out);
}

static void flame_html_head(const struct flame_view *view, const char *title, FILE *out)
{
	char text[FLAME_WORDS_BYTES];

	fprintf(out, "<header class=\"head%s\"><h1>",
		!view->diff				      ? " plain"
		: view->diff->rows && view->diff->row[0].sure ? ""
							      : " none");
	flame_html_format(out, "%s", title);
	fputs("</h1><p class=\"small mute\">", out);
	flame_html_format(out, "%s", flame_words_counts(view, text));
	fputs("</p>", out);
	if (view->diff) {
		fputs("<p class=\"small mute\">", out);
		flame_html_format(out, "%s", flame_words_work(view->diff, text));
		fputs("</p>", out);
	}
	fputs("</header>\n", out);
}

/* Data of the script. */

static const char *flame_html_kind(const struct stack_frame *frame)
{
	if (stack_frame_is_python(frame))
		return stack_frame_is_library(frame) ? "1" : "0";
	return strcmp(frame->kind, "kernel") == 0 ? "3" : "2";
}

struct flame_html_rows {
	FILE *out;
	const char *parted;
};

static int flame_html_row(void *arg, const struct profile_folded *row)
{
	struct flame_html_rows *rows = arg;

	if (row->weight_ns < 1000)
		return 0;
	fprintf(rows->out, "%s[%" PRId64 ",", rows->parted, row->rank);
	flame_json_text(rows->out, row->stage);
	fputc(',', rows->out);
	flame_json_text(rows->out, row->thread);
	fprintf(rows->out, ",%d,%d,%" PRIu64 ",%" PRIu64, row->steps_here, row->off_cpu, row->samples,
		row->weight_ns / 1000);
	for (size_t i = 0; i < row->frames; i++)
		fprintf(rows->out, ",%" PRIu32, row->frame[i]);
	fputc(']', rows->out);
	rows->parted = ",\n";
	return 0;
}

static void flame_html_data_rank(FILE *out, const struct flame_rank *rank, const char *parted)
{
	fprintf(out, "%s{\"id\":%" PRId64 ",\"rank\":%" PRId64 ",\"sampled_ms\":%.3f}", parted, rank->id, rank->rank,
		rank->duration_ns > 0 ? (double)rank->duration_ns / 1e6 : 1);
}

/* Of a comparison, the rank comes first. */
static void flame_html_data_ranks(const struct flame_view *view, FILE *out)
{
	const struct flame_source *source = view->source, *peers = view->past ? view->past : source;
	const char *parted = "";

	fputs("\"ranks\":[", out);
	for (size_t i = 0; i < source->ranks; i++)
		if (!view->diff || source->rank[i].id == view->diff->rank) {
			flame_html_data_rank(out, &source->rank[i], parted);
			parted = ",";
		}
	for (size_t i = 0; view->diff && i < peers->ranks; i++)
		if (peers->rank[i].id != view->diff->rank)
			flame_html_data_rank(out, &peers->rank[i], ",");
	fputs("],\n", out);
}

static int flame_html_data(const struct flame_view *view, FILE *out)
{
	struct flame_html_rows rows = {out, ""};
	const struct stack_frame *frame;
	int r;

	fprintf(out, "<script type=\"application/json\" id=\"data\">{\"mode\":\"%s\",", view->diff ? "diff" : "flame");
	if (view->diff)
		fprintf(out, "\"step_ms\":%.6f,\"unit\":\"%s\",\"peers_name\":\"%s\",", view->diff->step_ns / 1e6,
			view->diff->seconds ? "of each second" : "a step", view->past ? "before" : "its peers");
	if (view->memory)
		fputs("\"bytes\":true,", out);
	flame_html_data_ranks(view, out);
	fputs("\"frames\":[", out);
	for (uint32_t i = 0; (frame = profile_frame(view->profile, i)); i++) {
		char name[512];

		fputs(i ? ",\n[" : "[", out);
		flame_json_text(
			out, *frame->function ? frame->function : stack_frame_text(frame, false, name, sizeof(name)));
		fputc(',', out);
		flame_json_text(out, frame->file);
		fprintf(out, ",%" PRIu32 ",%s]", frame->line, flame_html_kind(frame));
	}
	fputs("],\n\"rows\":[", out);
	r = profile_fold(view->profile,
		&(struct profile_folding){
			.cpu = view->cpu, .by_rank = true, .by_thread = true, .by_stage = true, .by_cpu = true},
		flame_html_row, &rows);
	fputs("]}</script>\n", out);
	return r;
}

static void flame_html_bar(FILE *out)
{
	fputs("<noscript><p class=\"box\">The graph needs JavaScript; it loads nothing from elsewhere.</p></noscript>\n"
	      "<div class=\"box\"><div class=\"bar\">"
	      "<label>Search <input id=\"search\" type=\"search\" placeholder=\"function or file\" "
	      "autocomplete=\"off\" "
	      "spellcheck=\"false\"></label><span id=\"matches\" class=\"mute\" aria-live=\"polite\"></span>"
	      "<label>Rank <select id=\"rank\"></select></label><label>Time <select id=\"cpu\"></select></label>"
	      "<label>Threads <select id=\"threads\"></select></label><label>Stage <select "
	      "id=\"stage\"></select></label>"
	      "<button id=\"reset\" type=\"button\">Zoom out</button></div>\n",
		out);
}

static void flame_html_graph(FILE *out, int side, const char *title)
{
	fputs("<section class=\"graph\"><h2>", out);
	flame_html_format(out, "%s", title);
	fprintf(out,
		"<span id=\"sum%d\"></span></h2><div class=\"scroll\"><canvas data-side=\"%d\" tabindex=\"0\" "
		"role=\"img\" aria-label=\"",
		side, side);
	flame_html_format(
		out, "Flame graph, %s; arrow keys move, Enter zooms, what is chosen is described below", title);
	fputs("\"></canvas></div></section>\n", out);
}

static void flame_html_keys(const struct flame_view *view, FILE *out)
{
	fputs("<div id=\"detail\" class=\"detail\" aria-live=\"polite\"></div>\n<div class=\"key\">", out);
	if (view->diff)
		fputs("<span><i style=\"background:#d55e00\"></i>takes longer than the others</span><span><i "
		      "style=\"background:#0072b2\"></i>shorter</span><span><i style=\"background:#e4e9ee\"></i>the "
		      "same</span>",
			out);
	else
		fputs("<span><i style=\"background:var(--own)\"></i>Python</span><span><i "
		      "style=\"background:var(--library)\"></i>"
		      "Python, library</span><span><i style=\"background:var(--native)\"></i>native</span><span><i "
		      "style=\"background:var(--kernel)\"></i>kernel</span>",
			out);
	fputs("<span><i style=\"background:var(--found)\"></i>found</span></div>\n<p class=\"small mute keys\">A click "
	      "or "
	      "<kbd>Enter</kbd> zooms in, <kbd>Esc</kbd> out; arrow keys move; <kbd>/</kbd> searches, <kbd>n</kbd> "
	      "goes to "
	      "the next place found.</p></div>\n",
		out);
}

static void flame_html_cell(FILE *out, const char *class, const char *text)
{
	fprintf(out, "<td class=\"%s\">", class);
	flame_html_format(out, "%s", text);
	fputs("</td>", out);
}

static void flame_html_diff_table(const struct flame_view *view, FILE *out)
{
	const struct profile_diff *diff = view->diff;
	char text[FLAME_WORDS_BYTES];

	fprintf(out,
		"<section class=\"box\"><h2>What takes longer</h2><div class=\"wide\"><table><tr><th>Function</th><th "
		"class=\"opt\">Called by</th><th class=\"n\">Rank %" PRId64
		"</th><th class=\"n\">%s</th><th class=\"n\">More</th><th class=\"n opt\">Itself</th></tr>\n",
		view->source->ranks ? diff->rank : 0, view->past ? "Before" : "Peers");
	for (size_t i = 0; i < diff->rows && i < HTML_ROWS; i++) {
		const struct profile_row *row = &diff->row[i];
		char place[STACK_PLACE_BYTES];

		fputs(row->sure ? "<tr class=\"sure\">" : "<tr>", out);
		flame_html_cell(out, "", stack_frame_text(row->frame, false, place, sizeof(place)));
		flame_html_cell(
			out, "opt", row->caller ? stack_frame_text(row->caller, false, place, sizeof(place)) : "");
		flame_html_cell(out, "n", flame_words_duration(row->total_ns, text));
		flame_html_cell(out, "n", flame_words_duration(row->peers_total_ns, text));
		flame_html_cell(out, "n", flame_words_duration(row->total_ns - row->peers_total_ns, text));
		flame_html_cell(out, "n opt", flame_words_duration(row->self_ns, text));
		fputs("</tr>\n", out);
	}
	fprintf(out,
		"</table></div><p class=\"small mute\">Own work %s; waits for other ranks and for the device are not "
		"compared. Rows in bold are above the noise of steps and of peers.</p></section>\n",
		diff->seconds ? "of each second" : "a step");
}

static void flame_html_functions(const struct flame_view *view, FILE *out)
{
	fprintf(out, "<section class=\"box\"><h2>Functions by their own %s</h2>", view->memory ? "bytes" : "time");
	fputs("<div "
	      "class=\"wide\"><table><thead><tr><th>Function</th>"
	      "<th>Line</th><th class=\"n\">Itself</th><th class=\"n opt\">%</th><th class=\"n\">With what it "
	      "calls</th><th "
	      "class=\"n opt\">%</th><th class=\"opt\">Code</th></tr></thead><tbody "
	      "id=\"functions\"></tbody></table></div></section>\n",
		out);
}

int flame_write_html(const struct flame_view *view, FILE *out)
{
	char title[FLAME_WORDS_BYTES], left[64];
	int r;

	flame_words_title(view, title);
	flame_html_begin(view, title, out);
	flame_html_head(view, title, out);
	if (view->diff)
		flame_html_diff_table(view, out);
	flame_html_bar(out);
	fprintf(out, "<div class=\"graphs%s\">", view->diff ? " two" : "");
	if (view->diff)
		snprintf(left, sizeof(left), "Rank %" PRId64, view->diff->rank);
	else
		snprintf(left, sizeof(left), view->memory ? "Bytes by function" : "Time by function");
	flame_html_graph(out, 0, left);
	if (view->diff)
		flame_html_graph(out, 1,
			view->past		 ? "Before"
			: view->diff->peers == 1 ? "Its peer"
						 : "Mean of its peers");
	fputs("</div>\n", out);
	flame_html_keys(view, out);
	if (!view->diff)
		flame_html_functions(view, out);
	r = flame_html_data(view, out);
	fprintf(out, "<footer>Made by ranktrace " RANKTRACE_VERSION ".</footer>\n<script>\n%s</script></body></html>\n",
		flame_page_js);
	return r;
}
