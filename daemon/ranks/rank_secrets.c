/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and values of environment variables without what reads as a secret: the value of a name such as --api-key,
 * PASSWORD= or "token": , a password in a URL, and values whose form gives them away (keys of clouds and forges). A
 * guess: it errs towards masking. A secret under an innocent name remains.
 */
#include <ctype.h>
#include "daemon/base/procfs.h"
#include "daemon/ranks/ranks_internal.h"

#define MASK "***"
#define NAME_BYTES_MAX 64

/* A name with such a word anywhere. */
static const char *const secret_words[] = {"password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets",
	"credential", "credentials", "authorization", "apikey"};
/* A name whose last word is one: --hf-token, but not --token-dim. */
static const char *const secret_last_words[] = {"token", "key", "auth", "bearer", "cookie", "pass"};
/* A name that ends so: PGPASSWORD, authtoken. */
static const char *const secret_endings[] = {
	"password", "passwd", "secret", "token", "apikey", "accesskey", "secretkey", "privatekey"};
/* Values: their beginning, and how many characters of a token they have at least. */
static const struct {
	const char *prefix;
	size_t length_min;
} secret_values[] = {{"AKIA", 16}, {"ASIA", 16}, {"AIza", 30}, {"ghp_", 20}, {"gho_", 20}, {"ghs_", 20}, {"ghu_", 20},
	{"github_pat_", 20}, {"glpat-", 16}, {"hf_", 20}, {"sk-", 20}, {"xoxb-", 16}, {"xoxp-", 16}, {"eyJ", 40}};

struct masked {
	char *text;
	size_t size, used;
};

static void masked_put(struct masked *to, const char *text, size_t length)
{
	for (size_t i = 0; i < length && to->used + 1 < to->size; i++)
		to->text[to->used++] = text[i];
	to->text[to->used] = 0;
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool word_is_in(const char *word, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (streq(word, words[i]))
			return true;
	return false;
}

/* apiKey, API_KEY, api-key, model.api_key: words, in lower case. */
static bool is_secret_name(const char *name, size_t length)
{
	char lower[NAME_BYTES_MAX], word[NAME_BYTES_MAX] = "";
	size_t n = 0, start = length > NAME_BYTES_MAX - 1 ? length - (NAME_BYTES_MAX - 1) : 0;

	for (size_t i = start; i < length; i++) {
		char c = name[i], before = i > start ? name[i - 1] : '_';

		lower[i - start] = (char)tolower((unsigned char)c);
		if (!isalnum((unsigned char)c) || (isupper((unsigned char)c) && islower((unsigned char)before)))
			n = 0;
		if (!isalnum((unsigned char)c))
			continue;
		word[n++] = lower[i - start];
		word[n] = 0;
		/* The word may go on: "passwords" is found here too. */
		if (word_is_in(word, secret_words, ARRAY_SIZE(secret_words)))
			return true;
	}
	lower[length - start] = 0;
	if (n && word_is_in(word, secret_last_words, ARRAY_SIZE(secret_last_words)))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(secret_endings); i++) {
		size_t ending = strlen(secret_endings[i]);

		if (length - start >= ending && streq(lower + (length - start) - ending, secret_endings[i]))
			return true;
	}
	return false;
}

/* Characters of a value by itself: of keys, base64, JSON web tokens. */
static size_t token_length(const char *text, size_t length)
{
	size_t n = 0;

	while (n < length && (isalnum((unsigned char)text[n]) || (text[n] && strchr("_-.+/=~", text[n]))))
		n++;
	return n;
}

/* Length of the secret that begins here by its form, 0: none. */
static size_t secret_value(const char *text, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(secret_values); i++) {
		size_t prefix = strlen(secret_values[i].prefix), n;

		if (length < prefix || memcmp(text, secret_values[i].prefix, prefix) != 0)
			continue;
		n = token_length(text, length);
		if (n >= prefix + secret_values[i].length_min)
			return n;
	}
	return 0;
}

/* After "://": masks user:PASSWORD@ and a long TOKEN@. Returns what it has passed. */
static size_t mask_userinfo(struct masked *to, const char *text, size_t length)
{
	const char *colon;
	size_t n = 0, at = SIZE_MAX;

	for (; n < length && !isspace((unsigned char)text[n]) && text[n] && !strchr("/?#\"'", text[n]); n++)
		if (text[n] == '@')
			at = n;
	if (at == SIZE_MAX)
		return 0;
	colon = memchr(text, ':', at);
	if (colon)
		masked_put(to, text, (size_t)(colon - text) + 1);
	if (colon || at >= 20)
		masked_put(to, MASK, strlen(MASK));
	else
		masked_put(to, text, at);
	return at;
}

/* Length of a value that stands after a name and its separator. */
static size_t value_length(const char *text, size_t length)
{
	char quote = length && (*text == '"' || *text == '\'') ? *text : 0;
	size_t n = quote != 0;

	if (length - n > 7 && strncasecmp(text + n, "bearer ", 7) == 0)
		n += 7;
	else if (length - n > 6 && strncasecmp(text + n, "basic ", 6) == 0)
		n += 6;
	while (n < length &&
		(quote ? text[n] != quote : !isspace((unsigned char)text[n]) && !strchr(",;&|)}'\"", text[n])))
		n++;
	return n;
}

/* "--token VALUE" within one argument, as in sh -c; `name` is where the name began. */
static bool is_separator(const char *arg, size_t at, size_t name)
{
	return arg[at] == '=' || arg[at] == ':' || (arg[at] == ' ' && arg[name] == '-');
}

/* One argument, or one value. */
static void mask_text(struct masked *to, const char *arg, size_t length)
{
	size_t name = 0, i = 0; /* name: where the one began that ends at i */

	while (i < length) {
		bool begins = i == 0 || !is_name(arg[i - 1]);
		size_t secret = begins ? secret_value(arg + i, length - i) : 0, skip;

		if (begins && is_name(arg[i]))
			name = i;
		if (secret) {
			masked_put(to, MASK, strlen(MASK));
			name = i += secret;
			continue;
		}
		if (length - i > 3 && memcmp(arg + i, "://", 3) == 0) {
			masked_put(to, arg + i, 3);
			i += 3;
			i += mask_userinfo(to, arg + i, length - i);
			name = i;
			continue;
		}
		skip = i && arg[i] && strchr("'\"", arg[i]) && is_name(arg[i - 1]) && i + 1 < length
			       ? 1
			       : 0; /* {"key": 1} */
		if (i + skip < length && i > name && is_name(arg[i - 1]) && is_separator(arg, i + skip, name) &&
			is_secret_name(arg + name, i - name)) {
			skip++;
			while (i + skip < length && arg[i + skip] == ' ')
				skip++;
			masked_put(to, arg + i, skip);
			i += skip;
			skip = value_length(arg + i, length - i);
			if (skip)
				masked_put(to, MASK, strlen(MASK));
			name = i += skip;
			continue;
		}
		masked_put(to, &arg[i++], 1);
	}
}

void rank_secrets_mask(const char *text, size_t length, char *ret, size_t size)
{
	struct masked to = {ret, size, 0};

	ret[0] = 0;
	mask_text(&to, text, length);
}

/* --api-key, whose value is the next argument. */
static bool wants_secret(const char *arg, size_t length)
{
	size_t dashes = length && arg[0] == '-' ? 1 + (length > 1 && arg[1] == '-') : 0;

	for (size_t i = dashes; i < length; i++)
		if (!is_name(arg[i]))
			return false;
	return dashes && length > dashes && is_secret_name(arg + dashes, length - dashes);
}

void rank_command_join(const char *block, size_t size_bytes, char *ret, size_t size)
{
	struct masked to = {ret, size, 0};
	bool secret = false;

	/* The block's final NUL is not a separator. */
	while (size_bytes > 0 && block[size_bytes - 1] == 0)
		size_bytes--;
	ret[0] = 0;
	for (size_t at = 0, length; at < size_bytes; at += length + 1) {
		length = strnlen(block + at, size_bytes - at);
		if (at)
			masked_put(&to, " ", 1);
		if (secret && length && block[at] != '-')
			masked_put(&to, MASK, strlen(MASK));
		else
			mask_text(&to, block + at, length);
		secret = wants_secret(block + at, length);
	}
	procfs_printable(ret);
}
