/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/fleet/fleet_store.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define FLEET_API_PATH "/api/v1/query"
#define FLEET_API_CONNECT_MS 5000L
#define FLEET_API_SAID 200 /* of a foreign sentence, in ours */

struct fleet_api {
	CURL *curl;
	struct curl_slist *headers;
	char *url; /* of queries */
	size_t used, bytes_max; /* of the answer */
	long ms_max;
	int r; /* that ended the reading of an answer */
	struct fleet_stream stream;
	char detail[CURL_ERROR_SIZE];
};

static size_t fleet_api_on_bytes(char *data, size_t size, size_t count, void *arg)
{
	struct fleet_api *api = arg;
	size_t bytes = size * count;

	api->used += bytes;
	api->r = api->used > api->bytes_max ? -EFBIG : fleet_stream_feed(&api->stream, data, bytes);
	return api->r < 0 ? 0 : bytes;
}

/* One line without controls: a line break would begin another header. */
static int fleet_api_token(const char *path, char token[FLEET_API_TOKEN_MAX], char *error, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd >= 0 ? read(fd, token, FLEET_API_TOKEN_MAX - 1) : -1;
	int r = n < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	if (r < 0) {
		snprintf(error, size, "cannot read the token in %s: %s", path, strerror(-r));
		return r;
	}
	while (n > 0 && strchr("\r\n \t", token[n - 1]))
		n--;
	token[n] = 0;
	for (ssize_t i = 0; i < n; i++)
		if ((unsigned char)token[i] <= ' ' || (unsigned char)token[i] >= 0x7f)
			r = -EINVAL;
	if (n == 0 || n == FLEET_API_TOKEN_MAX - 1 || r < 0) {
		snprintf(error, size, "%s holds no token: one line of printable characters, less than %d", path, FLEET_API_TOKEN_MAX - 1);
		return -EINVAL;
	}
	return 0;
}

static int fleet_api_headers(struct fleet_api *api, const struct fleet_api_options *options, char *error, size_t size)
{
	char token[FLEET_API_TOKEN_MAX], header[FLEET_API_TOKEN_MAX + 32];
	int r;

	if (!options->token_file)
		return 0;
	r = fleet_api_token(options->token_file, token, error, size);
	if (r < 0)
		return r;
	snprintf(header, sizeof(header), "Authorization: Bearer %s", token);
	api->headers = curl_slist_append(NULL, header);
	return api->headers ? 0 : -ENOMEM;
}

static int fleet_api_set_url(struct fleet_api *api, const char *url, char *error, size_t size)
{
	size_t length = strlen(url);

	if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0) {
		snprintf(error, size, "the store's URL begins with http:// or https://, not as '%.60s'", url);
		return -EINVAL;
	}
	while (length && url[length - 1] == '/')
		length--;
	return asprintf(&api->url, "%.*s" FLEET_API_PATH, (int)length, url) < 0 ? -ENOMEM : 0;
}

static int fleet_api_set(struct fleet_api *api, const struct fleet_api_options *options)
{
	const struct {
		CURLoption option;
		const char *text;
	} texts[] = {{CURLOPT_URL, api->url}, {CURLOPT_SSLCERT, options->certificate}, {CURLOPT_SSLKEY, options->key},
		{CURLOPT_CAINFO, options->authority}};
	bool bad = false;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		bad |= texts[i].text && curl_easy_setopt(api->curl, texts[i].option, texts[i].text) != CURLE_OK;
	bad |= curl_easy_setopt(api->curl, CURLOPT_HTTPHEADER, api->headers) != CURLE_OK;
	bad |= curl_easy_setopt(api->curl, CURLOPT_WRITEFUNCTION, fleet_api_on_bytes) != CURLE_OK;
	bad |= curl_easy_setopt(api->curl, CURLOPT_WRITEDATA, api) != CURLE_OK;
	bad |= curl_easy_setopt(api->curl, CURLOPT_ERRORBUFFER, api->detail) != CURLE_OK;
	bad |= curl_easy_setopt(api->curl, CURLOPT_NOSIGNAL, 1L) != CURLE_OK;
	bad |= curl_easy_setopt(api->curl, CURLOPT_CONNECTTIMEOUT_MS, FLEET_API_CONNECT_MS) != CURLE_OK;
	bad |= curl_easy_setopt(api->curl, CURLOPT_TIMEOUT_MS, api->ms_max) != CURLE_OK;
	return bad ? -ENOMEM : 0;
}

int fleet_api_open(const struct fleet_api_options *options, struct fleet_api **ret, char *error, size_t size)
{
	struct fleet_api *api = calloc(1, sizeof(*api));
	int r = -ENOMEM;

	snprintf(error, size, "out of memory");
	if (!api)
		return -ENOMEM;
	api->bytes_max = options->bytes_max;
	api->ms_max = options->ms_max;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
		api->curl = curl_easy_init();
	if (api->curl)
		r = fleet_api_set_url(api, options->url, error, size);
	if (r == 0)
		r = fleet_api_headers(api, options, error, size);
	if (r == 0)
		r = fleet_api_set(api, options);
	if (r < 0) {
		fleet_api_close(api);
		return r;
	}
	*ret = api;
	return 0;
}

struct fleet_api *fleet_api_close(struct fleet_api *api)
{
	if (!api)
		return NULL;
	curl_slist_free_all(api->headers);
	curl_easy_cleanup(api->curl);
	curl_global_cleanup();
	free(api->url);
	free(api);
	return NULL;
}

static long fleet_api_status(const struct fleet_api *api)
{
	long status = 0;

	(void)curl_easy_getinfo(api->curl, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

/* What is said of an answer that is no vector. */
static int fleet_api_refused(const struct fleet_api *api, const json_t *root, char *error, size_t size)
{
	long status = fleet_api_status(api);
	const char *said = json_string_value(json_object_get(root, "error"));

	if (status == 401 || status == 403) {
		snprintf(error, size, "the store at %s refuses access (HTTP %ld): see [fleet] in ranktrace.conf(5)", api->url, status);
		return -EACCES;
	}
	if (said) {
		snprintf(error, size, "the store refuses a query (HTTP %ld): %.*s", status, FLEET_API_SAID, said);
		return -EINVAL;
	}
	if (status >= 500) {
		snprintf(error, size, "the store at %s is not ready (HTTP %ld)", api->url, status);
		return -EHOSTUNREACH;
	}
	snprintf(error, size, "what answers at %s is no Prometheus API (HTTP %ld)", api->url, status);
	return -EPROTO;
}

/* The transfer failed. */
static int fleet_api_failed(const struct fleet_api *api, CURLcode code, char *error, size_t size)
{
	if (api->r == -EFBIG) {
		snprintf(error, size, "the store's answer is larger than %zu bytes; --job asks for one job", api->bytes_max);
		return -EFBIG;
	}
	if (api->r == -EPROTO) /* no sample, but what a proxy says of the status, or a page */
		return fleet_api_refused(api, NULL, error, size);
	if (api->r < 0) /* of whoever reads the samples, who knows the sentence */
		return api->r;
	if (code == CURLE_OPERATION_TIMEDOUT) {
		snprintf(error, size, "no answer from %s within %ld ms", api->url, api->ms_max);
		return -ETIMEDOUT;
	}
	if (code == CURLE_OUT_OF_MEMORY) {
		snprintf(error, size, "out of memory");
		return -ENOMEM;
	}
	snprintf(error, size, "no store answers at %s: %s", api->url, api->detail[0] ? api->detail : curl_easy_strerror(code));
	return -EHOSTUNREACH;
}

static int fleet_api_end(const struct fleet_api *api, char *error, size_t size)
{
	json_t *root = fleet_stream_end(&api->stream), *data = json_object_get(root, "data");
	const char *word = json_string_value(json_object_get(root, "status"));
	const char *type = json_string_value(json_object_get(data, "resultType"));
	int r = 0;

	if (fleet_api_status(api) != 200 || !word || strcmp(word, "success") != 0 || !type || strcmp(type, "vector") != 0 || !json_is_array(json_object_get(data, "result")))
		r = fleet_api_refused(api, root, error, size);
	json_decref(root);
	return r;
}

int fleet_api_query(void *arg, const char *query, double time_s, fleet_sample sample, void *sample_arg, char *error, size_t size)
{
	struct fleet_api *api = arg;
	char *escaped = curl_easy_escape(api->curl, query, 0), *form = NULL, at[48] = "";
	CURLcode code;

	if (time_s > 0)
		snprintf(at, sizeof(at), "&time=%.3f", time_s);
	/* nocache: VictoriaMetrics else answers for half a minute before, and not for that time. Others ignore it. */
	if (!escaped || asprintf(&form, "query=%s%s&nocache=1", escaped, at) < 0) {
		curl_free(escaped);
		snprintf(error, size, "out of memory");
		return -ENOMEM;
	}
	curl_free(escaped);
	api->used = 0;
	api->r = 0;
	api->detail[0] = 0;
	fleet_stream_begin(&api->stream, sample, sample_arg);
	code = curl_easy_setopt(api->curl, CURLOPT_POSTFIELDS, form);
	if (code == CURLE_OK)
		code = curl_easy_perform(api->curl);
	free(form);
	if (code != CURLE_OK)
		return fleet_api_failed(api, code, error, size);
	return fleet_api_end(api, error, size);
}
