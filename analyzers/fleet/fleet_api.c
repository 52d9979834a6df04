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
#define FLEET_API_POLL_MS 1000 /* at most, where curl has no time of its own: answers and limits wake it */
#define FLEET_API_SAID 200     /* of a foreign sentence, in ours */

struct fleet_transfer {
	const struct fleet_api *api;
	CURL *curl;
	char *form;  /* NULL: nothing is asked */
	size_t used; /* bytes of the answer */
	int r;	     /* that ended the reading of an answer */
	struct fleet_stream stream;
	char detail[CURL_ERROR_SIZE];
};

struct fleet_api {
	CURLM *multi;
	struct curl_slist *headers;
	char *url; /* of queries */
	size_t bytes_max;
	long ms_max;
	struct fleet_transfer transfer[FLEET_API_PARALLEL];
};

static size_t fleet_api_on_bytes(char *data, size_t size, size_t count, void *arg)
{
	struct fleet_transfer *transfer = arg;
	size_t bytes = size * count;

	transfer->used += bytes;
	transfer->r =
		transfer->used > transfer->api->bytes_max ? -EFBIG : fleet_stream_feed(&transfer->stream, data, bytes);
	return transfer->r < 0 ? 0 : bytes;
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
		snprintf(error, size, "%s holds no token: one line of printable characters, less than %d", path,
			FLEET_API_TOKEN_MAX - 1);
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

static int fleet_transfer_open(
	struct fleet_api *api, const struct fleet_api_options *options, struct fleet_transfer *transfer)
{
	const struct {
		CURLoption option;
		const char *text;
	} texts[] = {{CURLOPT_URL, api->url}, {CURLOPT_SSLCERT, options->certificate}, {CURLOPT_SSLKEY, options->key},
		{CURLOPT_CAINFO, options->authority}};
	CURL *curl = curl_easy_init();
	bool bad = !curl;

	transfer->api = api;
	transfer->curl = curl;
	for (size_t i = 0; !bad && i < sizeof(texts) / sizeof(texts[0]); i++)
		bad |= texts[i].text && curl_easy_setopt(curl, texts[i].option, texts[i].text) != CURLE_OK;
	bad = bad || curl_easy_setopt(curl, CURLOPT_HTTPHEADER, api->headers) != CURLE_OK;
	bad = bad || curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, fleet_api_on_bytes) != CURLE_OK;
	bad = bad || curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer) != CURLE_OK;
	bad = bad || curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer->detail) != CURLE_OK;
	bad = bad || curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) != CURLE_OK;
	bad = bad || curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, FLEET_API_CONNECT_MS) != CURLE_OK;
	bad = bad || curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, api->ms_max) != CURLE_OK;
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
		api->multi = curl_multi_init();
	if (api->multi)
		r = fleet_api_set_url(api, options->url, error, size);
	if (r == 0)
		r = fleet_api_headers(api, options, error, size);
	for (size_t i = 0; r == 0 && i < FLEET_API_PARALLEL; i++)
		r = fleet_transfer_open(api, options, &api->transfer[i]);
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
	for (size_t i = 0; i < FLEET_API_PARALLEL; i++)
		curl_easy_cleanup(api->transfer[i].curl);
	curl_multi_cleanup(api->multi);
	curl_slist_free_all(api->headers);
	curl_global_cleanup();
	free(api->url);
	free(api);
	return NULL;
}

static long fleet_api_status(const struct fleet_transfer *transfer)
{
	long status = 0;

	(void)curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

/* What is said of an answer that is no vector. */
static int fleet_api_refused(const struct fleet_transfer *transfer, const json_t *root, char *error, size_t size)
{
	long status = fleet_api_status(transfer);
	const char *said = json_string_value(json_object_get(root, "error"));

	if (status == 401 || status == 403) {
		snprintf(error, size, "the store at %s refuses access (HTTP %ld): see [fleet] in ranktrace.conf(5)",
			transfer->api->url, status);
		return -EACCES;
	}
	if (said) {
		snprintf(error, size, "the store refuses a query (HTTP %ld): %.*s", status, FLEET_API_SAID, said);
		return -EINVAL;
	}
	if (status >= 500) {
		snprintf(error, size, "the store at %s is not ready (HTTP %ld)", transfer->api->url, status);
		return -EHOSTUNREACH;
	}
	snprintf(error, size, "what answers at %s is no Prometheus API (HTTP %ld)", transfer->api->url, status);
	return -EPROTO;
}

/* The transfer failed. */
static int fleet_api_failed(const struct fleet_transfer *transfer, CURLcode code, char *error, size_t size)
{
	if (transfer->r == -EFBIG) {
		snprintf(error, size, "the store's answer is larger than %zu bytes; --job asks for one job",
			transfer->api->bytes_max);
		return -EFBIG;
	}
	if (transfer->r == -EPROTO) /* no sample, but what a proxy says of the status, or a page */
		return fleet_api_refused(transfer, NULL, error, size);
	if (transfer->r < 0) /* of whoever reads the samples, who knows the sentence */
		return transfer->r;
	if (code == CURLE_OPERATION_TIMEDOUT) {
		snprintf(error, size, "no answer from %s within %ld ms", transfer->api->url, transfer->api->ms_max);
		return -ETIMEDOUT;
	}
	if (code == CURLE_OUT_OF_MEMORY) {
		snprintf(error, size, "out of memory");
		return -ENOMEM;
	}
	snprintf(error, size, "no store answers at %s: %s", transfer->api->url,
		transfer->detail[0] ? transfer->detail : curl_easy_strerror(code));
	return -EHOSTUNREACH;
}

static int fleet_api_answered(const struct fleet_transfer *transfer, char *error, size_t size)
{
	json_t *root = fleet_stream_end(&transfer->stream), *data = json_object_get(root, "data");
	const char *word = json_string_value(json_object_get(root, "status"));
	const char *type = json_string_value(json_object_get(data, "resultType"));
	int r = 0;

	if (fleet_api_status(transfer) != 200 || !word || strcmp(word, "success") != 0 || !type ||
		strcmp(type, "vector") != 0 || !json_is_array(json_object_get(data, "result")))
		r = fleet_api_refused(transfer, root, error, size);
	json_decref(root);
	return r;
}

static int fleet_transfer_begin(struct fleet_transfer *transfer, const struct fleet_request *request, double time_s)
{
	char *escaped = curl_easy_escape(transfer->curl, request->query, 0), at[48] = "";
	int r = -ENOMEM;

	if (time_s > 0)
		snprintf(at, sizeof(at), "&time=%.3f", time_s);
	transfer->used = 0;
	transfer->r = 0;
	transfer->detail[0] = 0;
	fleet_stream_begin(&transfer->stream, request->sample, request->arg);
	/* nocache: VictoriaMetrics else answers for half a minute before, and not for that time. Others ignore it. */
	if (!escaped || asprintf(&transfer->form, "query=%s%s&nocache=1", escaped, at) < 0)
		transfer->form = NULL;
	else if (curl_easy_setopt(transfer->curl, CURLOPT_POSTFIELDS, transfer->form) == CURLE_OK &&
		 curl_multi_add_handle(transfer->api->multi, transfer->curl) == CURLM_OK)
		r = 0;
	curl_free(escaped);
	return r;
}

static void fleet_transfer_end(struct fleet_transfer *transfer)
{
	(void)curl_multi_remove_handle(transfer->api->multi, transfer->curl);
	free(transfer->form);
	transfer->form = NULL;
}

/* How many have ended since the last call. */
static int fleet_api_collect(struct fleet_api *api, char *error, size_t size)
{
	const CURLMsg *message;
	int left, ended = 0, r = 0;

	while (r == 0 && (message = curl_multi_info_read(api->multi, &left))) {
		struct fleet_transfer *transfer = api->transfer;
		CURLcode code = message->data.result;

		while (transfer->curl != message->easy_handle)
			transfer++;
		r = code == CURLE_OK ? fleet_api_answered(transfer, error, size)
				     : fleet_api_failed(transfer, code, error, size);
		fleet_transfer_end(transfer);
		ended++;
	}
	return r < 0 ? r : ended;
}

int fleet_api_query(
	void *arg, const struct fleet_request *request, size_t count, double time_s, char *error, size_t size)
{
	struct fleet_api *api = arg;
	size_t next = 0;
	int running = 0, r = 0;

	while (r >= 0 && (running || next < count)) {
		for (size_t i = 0; r >= 0 && i < FLEET_API_PARALLEL && next < count; i++)
			if (!api->transfer[i].form)
				r = fleet_transfer_begin(&api->transfer[i], &request[next++], time_s);
		if (r >= 0)
			r = curl_multi_perform(api->multi, &running) == CURLM_OK ? fleet_api_collect(api, error, size)
										 : -ENOMEM;
		if (r == 0 && curl_multi_poll(api->multi, NULL, 0, FLEET_API_POLL_MS, NULL) != CURLM_OK)
			r = -ENOMEM;
	}
	for (size_t i = 0; i < FLEET_API_PARALLEL; i++)
		if (api->transfer[i].form)
			fleet_transfer_end(&api->transfer[i]);
	if (r == -ENOMEM)
		snprintf(error, size, "out of memory");
	return r < 0 ? r : 0;
}
