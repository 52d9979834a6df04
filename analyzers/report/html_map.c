/* SPDX-License-Identifier: Apache-2.0 */
/* Map of cards by node: cost of each, and cards not watched. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/report/html.h"
#include "analyzers/report/words.h"

#define NODES_SHOWN 512 /* beyond it, only nodes with findings or gaps */
#define CARDS_A_NODE 32
#define NODES_FEW 16	  /* beyond it, cells are small on a small screen */
#define UNSEEN_SHARE 0.02 /* share of time; from it on a card counts as not watched */

static int report_html_map_by_place(const void *a, const void *b, void *arg)
{
	const struct report *report = arg;
	const struct report_card *x = &report->card[*(const uint32_t *)a], *y = &report->card[*(const uint32_t *)b];
	int order = x->node == y->node ? 0 : strverscmp(report->node[x->node].name, report->node[y->node].name);

	if (!order)
		order = (x->node > y->node) - (x->node < y->node);
	return order ? order : strverscmp(x->name, y->name);
}

static bool html_map_unseen(const struct report_card *card)
{
	return card->alive_slots && (double)card->unseen_slots >= UNSEEN_SHARE * (double)card->alive_slots;
}

/* 0: no cost; 1 to 4 relative to the costliest card. */
static unsigned html_map_heat(const struct report *report, const struct report_card *card)
{
	double most = report->worsts ? report->card[report->worst[0]].cost_card_hours : 0;
	double share = most > 0 ? card->cost_card_hours / most : 0;

	if (!card->findings)
		return 0;
	return share > 0.5 ? 4 : share > 0.2 ? 3 : share > 0.05 ? 2 : 1;
}

/* At most three characters. */
static void put_short(FILE *out, double hours)
{
	if (hours >= 9950)
		fprintf(out, "%.0fk", hours / 1000);
	else if (hours >= 999.5)
		fprintf(out, "%.1fk", hours / 1000);
	else if (hours < 0.05)
		fputs("&lt;.1", out);
	else
		fprintf(out, hours >= 9.95 ? "%.0f" : "%.1f", hours);
}

static void put_card(FILE *out, const struct report *report, const struct report_card *card)
{
	unsigned hot = html_map_heat(report, card);

	fputs("<i", out);
	if (hot)
		fprintf(out, " class=\"h%u\"", hot);
	else if (html_map_unseen(card))
		fputs(" class=\"u\"", out);
	html_put(out, " title=\"%s%s", words_card_kind(card), card->name);
	if (card->rank >= 0)
		html_put(out, ", rank %" PRId32, card->rank);
	if (card->findings)
		html_put(out, ": %s card-hours", words_hours(card->cost_card_hours, HTML_WORD));
	if (html_map_unseen(card))
		html_put(out, "; not watched for %s", words_length(card->unseen_slots * report->slot_ns, HTML_WORD));
	fputs("\">", out);
	if (hot)
		put_short(out, card->cost_card_hours);
	fputs("</i>", out);
}

static bool html_map_interesting(const struct report *report, const uint32_t *card, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (report->card[card[i]].findings || html_map_unseen(&report->card[card[i]]))
			return true;
	return false;
}

static void put_node(FILE *out, const struct report *report, const uint32_t *card, size_t n)
{
	const char *name = report->node[report->card[card[0]].node].name;
	bool bad = false;

	for (size_t i = 0; i < n; i++)
		bad |= report->card[card[i]].findings > 0;
	html_put(out, "<div class=\"node%s\"><span title=\"%s\">%s</span><div class=\"cells\">", bad ? " bad" : "",
		name, name);
	for (size_t i = 0; i < n && i < CARDS_A_NODE; i++)
		put_card(out, report, &report->card[card[i]]);
	fputs("</div></div>\n", out);
	if (n > CARDS_A_NODE)
		fprintf(out, "<div class=\"node\"><span></span>and %zu more cards</div>\n", n - CARDS_A_NODE);
}

static void html_map_legend(FILE *out)
{
	fputs("<p class=\"key\"><span><i class=\"c\"></i>nothing found</span><span><i class=\"c h1\"></i><i class=\"c "
	      "h2\"></i>"
	      "<i class=\"c h3\"></i><i class=\"c h4\"></i>slow; the number is card-hours lost, darker or brighter is "
	      "more</span>"
	      "<span><i class=\"c u\"></i>not watched for some of the time</span></p>\n",
		out);
}

void html_map(FILE *out, const struct report *report)
{
	uint32_t *card = calloc(report->cards + 1, sizeof(*card));
	size_t n = 0, shown = 0, left_out = 0, next;

	for (uint32_t i = 0; card && i < report->cards; i++)
		if (report->card[i].here || report->card[i].findings)
			card[n++] = i;
	if (!n) {
		free(card);
		return;
	}
	qsort_r(card, n, sizeof(*card), report_html_map_by_place, (void *)(uintptr_t)report);
	fprintf(out, "<section class=\"box wide\"><h2>Cards, by node</h2>\n<div class=\"map%s\">\n",
		report->nodes_here > NODES_FEW ? " many" : "");
	for (size_t i = 0; i < n; i = next) {
		for (next = i + 1; next < n && report->card[card[next]].node == report->card[card[i]].node;)
			next++;
		if ((report->nodes_here <= NODES_SHOWN || html_map_interesting(report, card + i, next - i)) &&
			shown < NODES_SHOWN) {
			put_node(out, report, card + i, next - i);
			shown++;
		} else {
			left_out++;
		}
	}
	fputs("</div>\n", out);
	if (left_out)
		fprintf(out, "<p class=\"mute\">and %zu more nodes</p>\n", left_out);
	html_map_legend(out);
	fputs("</section>\n", out);
	free(card);
}
