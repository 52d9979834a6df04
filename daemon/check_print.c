/* SPDX-License-Identifier: Apache-2.0 */
/* The preflight on paper (`ranktraced --check`, before any daemon runs) and on the control socket. See check.h. */
#include "daemon/check.h"
#include "daemon/context.h"
#include "daemon/request.h"

static const char *const verdict_names[CHECK_VERDICT_MAX] = {
	[CHECK_OK] = "ok",
	[CHECK_LIMITED] = "limited",
	[CHECK_MISSING] = "missing",
};

static const Ranktrace__Verdict wire_verdicts[CHECK_VERDICT_MAX] = {
	[CHECK_OK] = RANKTRACE__VERDICT__VERDICT_OK,
	[CHECK_LIMITED] = RANKTRACE__VERDICT__VERDICT_LIMITED,
	[CHECK_MISSING] = RANKTRACE__VERDICT__VERDICT_MISSING,
};

const char *check_verdict_name(enum check_verdict verdict)
{
	return verdict_names[verdict];
}

/* Sentences may quote file names, so anything may be in them: what is not printable ASCII becomes '?'. */
static void print_json_text(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', f);
		fputc(*text >= ' ' && *text < 0x7f ? *text : '?', f);
	}
	fputc('"', f);
}

static void print_json(FILE *f, const struct check_list *list)
{
	fputs("[\n", f);
	for (unsigned i = 0; i < list->count; i++) {
		const struct check_item *item = &list->item[i];

		fputs("  {\"topic\": ", f);
		print_json_text(f, item->topic);
		fprintf(f, ", \"verdict\": \"%s\", \"sentence\": ", verdict_names[item->verdict]);
		print_json_text(f, item->sentence);
		fputs(", \"advice\": ", f);
		print_json_text(f, item->advice);
		fputs(i + 1 < list->count ? "},\n" : "}\n", f);
	}
	fputs("]\n", f);
}

int check_print(FILE *f, const struct context *context, bool json)
{
	_cleanup_free_ struct check_list *list = calloc(1, sizeof(*list));
	int missing = 0;

	if (!list)
		return -ENOMEM;
	check_run(context, list);
	if (json)
		print_json(f, list);
	for (unsigned i = 0; i < list->count; i++) {
		const struct check_item *item = &list->item[i];

		missing += item->verdict == CHECK_MISSING;
		if (json)
			continue;
		fprintf(f, "%-8s %-20s %s\n", verdict_names[item->verdict], item->topic, item->sentence);
		if (item->advice[0])
			fprintf(f, "%-29s -> %s\n", "", item->advice);
	}
	return fflush(f) == 0 ? missing : -errno;
}

int request_preflight(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	_cleanup_free_ struct check_list *list = calloc(1, sizeof(*list));
	Ranktrace__CheckBody *body = request_message_new(&ranktrace__check_body__descriptor);

	(void)request;
	if (!body || !list) {
		free(body);
		return -ENOMEM;
	}
	response->body_case = RANKTRACE__RESPONSE__BODY_CHECK;
	response->check = body;
	check_run(context, list);
	body->items = calloc(list->count, sizeof(*body->items));
	for (unsigned i = 0; body->items && i < list->count; i++) {
		Ranktrace__CheckItem *item = request_message_new(&ranktrace__check_item__descriptor);

		if (!item)
			return -ENOMEM;
		body->items[body->n_items++] = item;
		item->topic = strdup(list->item[i].topic);
		item->verdict = wire_verdicts[list->item[i].verdict];
		item->sentence = strdup(list->item[i].sentence);
		item->advice = strdup(list->item[i].advice);
	}
	return body->items ? 0 : -ENOMEM;
}
