/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the daemon as JSON: a row a message, with its fields as keys, in their order. */
#include <ctype.h>
#include "ctl/out.h"

/*
 * Words of a row, each [KEY=]FIELD, with what is shown as null behind it: "?" an empty text or 0, "-" a number below 0,
 * ":FLAG" any value while that field is false or 0; "#": a number as a text, in hexadecimal.
 */
static const struct {
	const ProtobufCMessageDescriptor *of;
	const char *fields;
} out_messages[] = {
	{&ranktrace__set_report__descriptor, "level on report"},
	{&ranktrace__collector__descriptor, "name summary levels probes_attached level_probes attaching libraries "
					    "events drops notes notes_left_out"},
	{&ranktrace__store__descriptor, "path segments size_bytes oldest_ns newest_ns rows rows_dropped rows_pending "
					"segments_removed segments_corrupt reason? drops"},
	{&ranktrace__store_drop__descriptor, "table reason rows"},
	{&ranktrace__self__descriptor,
		"cpu_user_ns cpu_system_ns cpu_workers_ns rss_bytes rss_peak_bytes ranks children launchers"},
	{&ranktrace__operations__descriptor,
		"rows groups communicators lost not_waited late impossible communicators_forgotten=forgotten "
		"allocations allocations_live allocations_not_followed"},
	{&ranktrace__device_clock__descriptor,
		"rank pid job card? device- offset_ns offset_min_ns:offset_min_known "
		"offset_max_ns:offset_max_known drift_ppm drift_min_ppm drift_max_ppm steps "
		"drift_changes bounds ago_ns"},
	{&ranktrace__findings__descriptor,
		"enabled suspected open closed dropped frames ranks_left_out raises samples"},
	{&ranktrace__dump_level__descriptor, "written_ns files rows bytes"},
	{&ranktrace__dumps__descriptor, "enabled path files bytes levels running cpu_ns l0_minutes reason?"},
	{&ranktrace__limit__descriptor, "name unit used max? exceeded"},
	{&ranktrace__rank_cost__descriptor, "rank- pid uid job? level hits_per_s share share_min share_max"},
	{&ranktrace__guard__descriptor, "budget_share budget_cpus budget_bytes calibrated reason? hit_warm_ns "
					"hit_cold_ns cpus:cpus_known costs"},
	{&ranktrace__gauge_group__descriptor, "name interval_s slow cpus"},
	{&ranktrace__gauge_source__descriptor, "name cpus groups"},
	{&ranktrace__feature__descriptor, "name present"},
	{&ranktrace__level__descriptor, "level on"},
	{&ranktrace__status_body__descriptor, "version pid uptime_ns host features levels collectors ring_drops "
					      "records_limited records_refused store self "
					      "operations device_clocks findings dumps guard gauges limits"},
	{&ranktrace__rank__descriptor,
		"rank- world_size- local_rank- job? source? pid parent_pid uid:uid_known role card? card_uuid? "
		"card_pci? card_serial? host container? pod? command since_ns from_start state? remark? "
		"limited refused state_bytes"},
	{&ranktrace__check_item__descriptor, "topic verdict sentence advice"},
	{&ranktrace__ops_point__descriptor, "seq? op count:count_known bytes:bytes_known dtype? ago_ns"},
	{&ranktrace__ops_member__descriptor,
		"rank pid member entered completed completion_known in_call_ns:in_call seq_from missing "
		"differs behind ended_ago_ns:ended address#"},
	{&ranktrace__ops_communicator__descriptor,
		"communicator? family name? kind? job? members? here state sentence seq? waited_ns "
		"reason? ranks"},
	{&ranktrace__ops_call__descriptor, "rank pid thread_id family op for_ns"},
	{&ranktrace__ops_stack__descriptor, "job? sentence ago_ns ended"},
	{&ranktrace__ops_body__descriptor, "on ranks communicators calls_in_flight=calls left_out stacks"},
	{&ranktrace__stack_frame__descriptor, "kind function? file? line? address?"},
	{&ranktrace__stack_thread__descriptor,
		"thread_id name main state wait? has_gil native_reason? python_reason? omitted frames"},
	{&ranktrace__stack_process__descriptor,
		"rank job? pid role parent_pid? command python? python_reason? reason? took_ns threads "
		"threads_left_out"},
	{&ranktrace__stack_body__descriptor, "processes left_out"},
	{&ranktrace__profile_rank__descriptor, "rank job? pid samples refused lost reason?"},
	{&ranktrace__profile_body__descriptor, "profile frequency_hz ranks"},
};

static json_int_t out_integer(ProtobufCType type, const void *value)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
		return *(const int32_t *)value;
	case PROTOBUF_C_TYPE_UINT32:
		return *(const uint32_t *)value;
	case PROTOBUF_C_TYPE_BOOL:
		return *(const protobuf_c_boolean *)value;
	default:
		return *(const json_int_t *)value;
	}
}

/* "VERDICT_OK": "ok" */
static json_t *out_enum(const ProtobufCEnumDescriptor *of, int number)
{
	const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(of, number);
	const char *name = value ? strchr(value->name, '_') : NULL;
	char word[32] = "unknown";

	for (size_t i = 0; name && i + 1 < sizeof(word) && (i == 0 || word[i - 1]); i++)
		word[i] = (char)tolower((unsigned char)name[i + 1]);
	return json_string(word);
}

/* null: what the policy leaves out, as in the words of a row. */
static json_t *out_value(const ProtobufCFieldDescriptor *field, const void *value, char policy)
{
	const char *text = field->type == PROTOBUF_C_TYPE_STRING ? *(char *const *)value : NULL;
	json_int_t n = 0;
	char hex[24];

	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return out_message(*(void *const *)value);
	if (field->type == PROTOBUF_C_TYPE_DOUBLE)
		return json_real(*(const double *)value);
	if (field->type == PROTOBUF_C_TYPE_ENUM)
		return out_enum(field->descriptor, *(const int *)value);
	if (field->type == PROTOBUF_C_TYPE_STRING)
		return policy == '?' ? out_json_optional(text) : json_string(text ? text : "");
	n = out_integer(field->type, value);
	if ((policy == '?' && n == 0) || (policy == '-' && n < 0))
		return json_null();
	snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)n);
	return policy == '#'			     ? json_string(hex)
	       : field->type == PROTOBUF_C_TYPE_BOOL ? json_boolean(n)
						     : json_integer(n);
}

static const ProtobufCFieldDescriptor *out_field(const ProtobufCMessage *message, const char *name)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

	if (!field)
		exit(ctl_fail(EXIT_REFUSED, "%s has no field %s", message->descriptor->name, name));
	return field;
}

static size_t out_item_bytes(ProtobufCType type)
{
	bool is_small =
		type == PROTOBUF_C_TYPE_UINT32 || type == PROTOBUF_C_TYPE_INT32 || type == PROTOBUF_C_TYPE_SINT32;

	return is_small ? sizeof(uint32_t) : sizeof(uint64_t);
}

static json_t *out_member(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, char policy)
{
	const char *at = (const char *)message + field->offset;
	json_t *all;

	if (field->label != PROTOBUF_C_LABEL_REPEATED)
		return out_value(field, at, policy);
	all = json_array();
	at = *(char *const *)at;
	for (size_t i = *(const size_t *)((const char *)message + field->quantifier_offset); i > 0; i--) {
		json_array_append_new(all, out_value(field, at, 0));
		at += out_item_bytes(field->type);
	}
	return all;
}

/* One word of a row. */
static void out_word(json_t *ret, const ProtobufCMessage *message, char *word)
{
	size_t length = strcspn(word, "?-:#");
	char policy = word[length], *equals = strchr(word, '=');
	const char *flag = policy == ':' ? word + length + 1 : NULL, *name = equals ? equals + 1 : word;
	const ProtobufCFieldDescriptor *field, *known;

	word[length] = 0;
	field = out_field(message, name);
	if (equals)
		*equals = 0;
	known = flag ? out_field(message, flag) : NULL;
	if (known && !out_integer(known->type, (const char *)message + known->offset))
		json_object_set_new(ret, word, json_null());
	else
		json_object_set_new(ret, word, out_member(message, field, policy));
}

json_t *out_message(const void *message)
{
	const ProtobufCMessage *base = message;
	json_t *ret = json_object();
	char *words = NULL, *rest;

	for (size_t i = 0; base && i < ARRAY_SIZE(out_messages); i++)
		if (out_messages[i].of == base->descriptor)
			words = strdup(out_messages[i].fields);
	rest = words;
	for (char *word; rest && (word = strsep(&rest, " "));)
		out_word(ret, base, word);
	free(words);
	if (base)
		return ret;
	json_decref(ret);
	return json_null();
}

json_t *out_message_list(size_t count, void *const *message)
{
	json_t *all = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(all, out_message(message[i]));
	return all;
}
