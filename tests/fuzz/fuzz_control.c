/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from a client: frame, message, meaning, as far as a request goes before a handler sees it; and as a response.
 */
#include "daemon/control/request.h"
#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_request(const struct frame *frame)
{
	Ranktrace__Request *request = ranktrace__request__unpack(NULL, frame->body_bytes, frame->body);
	char error[REQUEST_ERROR_BYTES] = "";
	int r;

	if (!request)
		return;
	r = request_valid(request, error);
	/* Refused means said why; accepted means that a handler may trust the counts. */
	if (r < 0 ? !*error : request->type == RANKTRACE__REQUEST_TYPE__REQUEST_NONE)
		abort();
	if (r == 0 && request->type == RANKTRACE__REQUEST_TYPE__REQUEST_SET &&
		(request->n_set == 0 || request->n_set > REQUEST_ITEMS_MAX))
		abort();
	ranktrace__request__free_unpacked(request, NULL);
}

static void as_response(const struct frame *frame)
{
	Ranktrace__Response *response = ranktrace__response__unpack(NULL, frame->body_bytes, frame->body);

	if (response)
		ranktrace__response__free_unpacked(response, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char error[FRAME_ERROR_BYTES];
	struct frame frame;

	if (frame_parse(data, size, FRAME_REQUEST, &frame, error) == FRAME_MESSAGE)
		as_request(&frame);
	if (frame_parse(data, size, FRAME_RESPONSE, &frame, error) == FRAME_MESSAGE)
		as_response(&frame);
	/* Most inputs have no good header: their bytes are a message of their own, not longer than the daemon takes
	 * one. */
	frame = (struct frame){
		.body = data, .body_bytes = size < FRAME_REQUEST_BYTES_MAX ? size : FRAME_REQUEST_BYTES_MAX};
	as_request(&frame);
	return 0;
}
