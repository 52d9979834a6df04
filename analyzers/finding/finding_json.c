/* SPDX-License-Identifier: Apache-2.0 */
/* A finding's evidence as JSON: whole pieces only, so that the text is always valid. */
#include "analyzers/finding/finding.h"

#include "analyzers/base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Control characters and invalid UTF-8 become '?'. */
static void finding_json_string(struct text *text, const char *name, const char *value, size_t bytes_max)
{
	text_add(text, "\"%s\":\"", name);
	for (size_t at = 0; at < bytes_max && value[at];) {
		size_t length = text_printable(value + at);

		if (value[at] == '"' || value[at] == '\\')
			text_add(text, "\\%c", value[at]);
		else
			text_add(text, "%.*s", length ? (int)length : 1, length ? value + at : "?");
		at += length ? length : 1;
	}
	text_add(text, "\"");
}

static void finding_json_number(struct text *text, const char *name, double value)
{
	char digits[40];

	if (!isfinite(value)) {
		text_add(text, "\"%s\":null", name);
		return;
	}
	snprintf(digits, sizeof(digits), value == floor(value) && fabs(value) < 1e15 ? "%.0f" : "%.9g", value);
	/* The decimal point of any locale. */
	for (char *at = digits; *at; at++) {
		if (!strchr("0123456789+-e", *at))
			*at = '.';
	}
	text_add(text, "\"%s\":%s", name, digits);
}

static void finding_json_piece(struct text *text, const struct finding_evidence *evidence)
{
	text_add(text, "{");
	finding_json_string(text, "name", evidence->name, sizeof(evidence->name));
	text_add(text, ",");
	finding_json_string(text, "unit", evidence->unit, sizeof(evidence->unit));
	text_add(text, ",");
	finding_json_number(text, "value", evidence->value);
	text_add(text, ",");
	finding_json_number(text, "peers", evidence->peers);
	text_add(text, ",");
	finding_json_string(text, "detail", evidence->detail, sizeof(evidence->detail));
	text_add(text, "}");
}

size_t finding_evidence_json(const struct finding *finding, char *ret, size_t size)
{
	struct text text;

	if (!size)
		return 0;
	ret[0] = 0;
	if (size < 3)
		return 0;
	text_begin(&text, ret, size - 1);
	text_add(&text, "[");
	for (size_t i = 0; i < finding->evidences && i < FINDING_EVIDENCE_MAX; i++) {
		size_t whole = text.used;

		if (whole > 1)
			text_add(&text, ",");
		finding_json_piece(&text, &finding->evidence[i]);
		if (text.cut) {
			text.used = whole;
			break;
		}
	}
	ret[text.used] = ']';
	ret[text.used + 1] = 0;
	return text.used + 1;
}
