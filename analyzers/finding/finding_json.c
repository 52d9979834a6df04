/* SPDX-License-Identifier: Apache-2.0 */
/* A finding's evidence as JSON: whole pieces only, so that the text is always valid. */
#include "analyzers/finding/finding.h"

#include "analyzers/finding/finding_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Control characters and invalid UTF-8 become '?'. */
static void finding_json_string(struct finding_text *text, const char *name, const char *value, size_t bytes_max)
{
	finding_text_add(text, "\"%s\":\"", name);
	for (size_t at = 0; at < bytes_max && value[at];) {
		size_t length = finding_text_character(value + at);

		if (value[at] == '"' || value[at] == '\\')
			finding_text_add(text, "\\%c", value[at]);
		else
			finding_text_add(text, "%.*s", length ? (int)length : 1, length ? value + at : "?");
		at += length ? length : 1;
	}
	finding_text_add(text, "\"");
}

static void finding_json_number(struct finding_text *text, const char *name, double value)
{
	char digits[40];

	if (!isfinite(value)) {
		finding_text_add(text, "\"%s\":null", name);
		return;
	}
	snprintf(digits, sizeof(digits), value == floor(value) && fabs(value) < 1e15 ? "%.0f" : "%.9g", value);
	/* The decimal point of any locale. */
	for (char *at = digits; *at; at++) {
		if (!strchr("0123456789+-e", *at))
			*at = '.';
	}
	finding_text_add(text, "\"%s\":%s", name, digits);
}

static void finding_json_piece(struct finding_text *text, const struct finding_evidence *evidence)
{
	finding_text_add(text, "{");
	finding_json_string(text, "name", evidence->name, sizeof(evidence->name));
	finding_text_add(text, ",");
	finding_json_string(text, "unit", evidence->unit, sizeof(evidence->unit));
	finding_text_add(text, ",");
	finding_json_number(text, "value", evidence->value);
	finding_text_add(text, ",");
	finding_json_number(text, "peers", evidence->peers);
	finding_text_add(text, ",");
	finding_json_string(text, "detail", evidence->detail, sizeof(evidence->detail));
	finding_text_add(text, "}");
}

size_t finding_evidence_json(const struct finding *finding, char *ret, size_t size)
{
	struct finding_text text;

	if (!size)
		return 0;
	ret[0] = 0;
	if (size < 3)
		return 0;
	finding_text_begin(&text, ret, size - 1);
	finding_text_add(&text, "[");
	for (size_t i = 0; i < finding->evidences && i < FINDING_EVIDENCE_MAX; i++) {
		size_t whole = text.used;

		if (whole > 1)
			finding_text_add(&text, ",");
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
