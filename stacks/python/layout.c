/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/python/layout.h"

#include "daemon/base/util.h"

#define OFFSET_MAX (1u << 20) /* of any field; _PyRuntime, the largest structure, has 460 KiB */
#define CODE_FIELDS_MAX 1024u /* bytes of a code object before its instructions */
#define UNIT_BYTES 2	      /* of an instruction */
#define COOKIE "xdebugpy"
#define OFFSET_WORDS 96	 /* of the interpreter's table that are read */
#define OFFSET_VERSION 1 /* word of its version */
#define OFFSET_FREE_THREADED 2
#define MEMBER_BYTES 40 /* of a PyMemberDef: name, type, offset, flags, text */
#define MEMBERS_MAX 64

static int64_t instruction_bytes(uint64_t word, uint64_t code)
{
	return (int32_t)word;
}

static int64_t instruction_units(uint64_t word, uint64_t code)
{
	return (int64_t)(int32_t)word * UNIT_BYTES;
}

static int64_t instruction_pointer(uint64_t word, uint64_t code)
{
	return (int64_t)(word - code);
}

/* Objects are alike in all versions. */
#define PYSTACK_VERSION(number, instruction_of, line_of, ...) \
	{.minor = (number), \
		.instruction = (instruction_of), \
		.line = (line_of), \
		.object_type = 8, \
		.object_size = 16, \
		.type_name = 24, \
		.type_members = 240, \
		.text_length = 16, \
		.text_state = 32, \
		.bytes_size = 16, \
		.bytes_data = 32, \
		__VA_ARGS__},
static const struct pylayout pylayouts[] = {
#include "stacks/python/versions.def"
};
#undef PYSTACK_VERSION

/* Fields that the interpreter publishes: where in struct pylayout, and their words by version. */
#define TABLE_VERSION_FIRST 13
#define TABLE_VERSIONS 2
#define PYSTACK_OFFSET(field, in_3_13, in_3_14) {offsetof(struct pylayout, field), {(in_3_13), (in_3_14)}},
static const struct {
	size_t field;
	unsigned word[TABLE_VERSIONS];
} pylayout_published[] = {
#include "stacks/python/versions.def"
};
#undef PYSTACK_OFFSET

const struct pylayout *pylayout_row(unsigned minor)
{
	for (size_t i = 0; i < ARRAY_SIZE(pylayouts); i++)
		if (pylayouts[i].minor == minor)
			return &pylayouts[i];
	return NULL;
}

/* Takes the offsets that the interpreter publishes. */
static int pylayout_take_table(
	struct pymem *memory, const struct pyimage *image, struct pylayout *layout, enum pystack_refusal *ret_why)
{
	unsigned column = layout->minor - TABLE_VERSION_FIRST;
	uint64_t word[OFFSET_WORDS];
	int r = pymem_read(memory, image->runtime, word, sizeof(word));

	if (r < 0)
		return r;
	*ret_why = PYSTACK_LAYOUT;
	if (memcmp(word, COOKIE, sizeof(word[0])) != 0 || word[OFFSET_VERSION] != image->version)
		return -ENOTSUP;
	if (word[OFFSET_FREE_THREADED]) {
		*ret_why = PYSTACK_FREE_THREADED;
		return -ENOTSUP;
	}
	for (size_t i = 0; i < ARRAY_SIZE(pylayout_published); i++) {
		uint64_t offset = word[pylayout_published[i].word[column]];

		if (offset >= OFFSET_MAX)
			return -ENOTSUP;
		memcpy((char *)layout + pylayout_published[i].field, &offset, sizeof(offset));
	}
	layout->text_compact = layout->text_ascii + 2 * sizeof(uint64_t);
	return 0;
}

/* Whether the text at this address is `text`. */
static bool pylayout_is_text(struct pymem *memory, uint64_t address, const char *text)
{
	char name[32];
	size_t size = strlen(text) + 1;

	return size <= sizeof(name) && pymem_read(memory, address, name, size) == 0 && memcmp(name, text, size) == 0;
}

static bool pylayout_is_type(struct pymem *memory, const struct pylayout *layout, uint64_t type, const char *name)
{
	uint64_t at;

	return pymem_u64(memory, type + layout->type_name, &at) == 0 && pylayout_is_text(memory, at, name);
}

/* Whether the type's table of members has this one at this offset. */
static bool pylayout_has_member(
	struct pymem *memory, const struct pylayout *layout, uint64_t type, const char *name, uint64_t offset)
{
	uint64_t members;

	if (pymem_u64(memory, type + layout->type_members, &members) < 0)
		return false;
	for (unsigned i = 0; i < MEMBERS_MAX; i++) {
		uint64_t member[MEMBER_BYTES / sizeof(uint64_t)];

		if (pymem_read(memory, members + i * MEMBER_BYTES, member, sizeof(member)) < 0 || !member[0])
			return false;
		if (pylayout_is_text(memory, member[0], name))
			return member[2] == offset;
	}
	return false;
}

/* Compares with what the interpreter's types say of their own fields. */
static bool pylayout_matches_types(struct pymem *memory, const struct pyimage *image, const struct pylayout *layout)
{
	const struct {
		uint64_t type;
		const char *name;
		uint64_t offset;
		bool present;
	} members[] = {
		{image->code_type, "co_filename", layout->code_file, true},
		{image->code_type, "co_name", layout->code_name, true},
		{image->code_type, "co_firstlineno", layout->code_first_line, true},
		{image->code_type, "co_qualname", layout->code_qualname, layout->code_qualname},
		{image->code_type, "co_code", layout->code_bytes, layout->code_bytes},
		{image->code_type, layout->minor < 10 ? "co_lnotab" : "co_linetable", layout->code_lines, true},
		{image->frame_type, "f_back", layout->frame_previous, !layout->frame_owner},
		{image->frame_type, "f_code", layout->frame_code, !layout->frame_owner},
	};

	if (!pylayout_is_type(memory, layout, image->code_type, "code") ||
		!pylayout_is_type(memory, layout, image->text_type, "str") ||
		!pylayout_is_type(memory, layout, image->bytes_type, "bytes") ||
		!pylayout_is_type(memory, layout, image->frame_type, "frame"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (members[i].present &&
			!pylayout_has_member(memory, layout, members[i].type, members[i].name, members[i].offset))
			return false;
	return true;
}

/* Whether a thread state of the first interpreter leads back to it. */
static int pylayout_matches_states(
	struct pymem *memory, const struct pyimage *image, const struct pylayout *layout, enum pystack_refusal *ret_why)
{
	uint64_t interp, thread, back = 0, previous = 0;
	int r = pymem_u64(memory, image->runtime + layout->runtime_interps, &interp);

	if (r < 0)
		return r;
	*ret_why = PYSTACK_NOT_READY;
	if (!interp)
		return -ENOTSUP;
	r = pymem_u64(memory, interp + layout->interp_threads, &thread);
	if (r == 0 && !thread)
		return -ENOTSUP;
	*ret_why = PYSTACK_LAYOUT;
	if (r == 0)
		r = pymem_u64(memory, thread + layout->thread_interp, &back);
	if (r == 0)
		r = pymem_u64(memory, thread + layout->thread_prev, &previous);
	if (r < 0)
		return r == -EFAULT ? -ENOTSUP : r;
	return back == interp && !previous ? 0 : -ENOTSUP;
}

int pylayout_find(
	struct pymem *memory, const struct pyimage *image, struct pylayout *ret, enum pystack_refusal *ret_why)
{
	const struct pylayout *row = pylayout_row(image->minor);
	struct pylayout layout;
	int r;

	*ret_why = PYSTACK_VERSION;
	if (image->major != 3 || !row)
		return -ENOTSUP;
	layout = *row;
	if (layout.minor >= TABLE_VERSION_FIRST) {
		r = pylayout_take_table(memory, image, &layout, ret_why);
		if (r < 0)
			return r;
	}
	if (layout.code_adaptive)
		layout.code_traceable = layout.code_adaptive - PYLAYOUT_TRACEABLE_BACK;
	*ret_why = PYSTACK_LAYOUT;
	if (layout.code_adaptive > CODE_FIELDS_MAX || !pylayout_matches_types(memory, image, &layout))
		return -ENOTSUP;
	r = pylayout_matches_states(memory, image, &layout, ret_why);
	if (r < 0)
		return r;
	*ret = layout;
	return 0;
}
