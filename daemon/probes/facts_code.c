/* SPDX-License-Identifier: Apache-2.0 */
/* Facts as bytes, fields in the order of facts.h, little endian; and back, with every field checked. */
#include "daemon/probes/facts.h"
#include "daemon/probes/prologue.h"
#include "daemon/worker/wire.h"

#define MAGIC 0x53544346u	    /* "FCTS" */
#define MEMBER_OFFSET_MAX (1 << 24) /* no structure of a library is larger */

static void put_site(struct wire_writer *writer, const struct fact_site *site)
{
	wire_put(writer, site->row, 4);
	wire_put(writer, site->is_usdt, 1);
	wire_put(writer, site->emulated, 1);
	wire_put(writer, site->entry_delta, 4);
	wire_put(writer, site->function_offset, 8);
	wire_put(writer, site->semaphore_offset, 8);
	wire_put(writer, (uint32_t)site->returns, 4);
	for (int32_t i = 0; i < site->returns; i++)
		wire_put(writer, site->return_offset[i], 8);
	wire_put(writer, site->operands, 1);
	for (unsigned i = 0; i < site->operands; i++) {
		wire_put(writer, site->operand[i].size_bytes, 1);
		wire_put(writer, site->operand[i].is_signed, 1);
		wire_put(writer, site->operand[i].where, 1);
		wire_put(writer, site->operand[i].reg, 1);
		wire_put(writer, (uint64_t)site->operand[i].offset, 8);
	}
}

int facts_encode(const struct facts *facts, uint8_t **ret, size_t *ret_size_bytes)
{
	struct wire_writer writer = {0};

	wire_put(&writer, MAGIC, 4);
	wire_put(&writer, facts->machine, 1);
	wire_put(&writer, facts->left_out, 4);
	wire_put(&writer, facts->rows, 4);
	wire_put(&writer, facts->sites, 4);
	for (size_t i = 0; i < facts->rows; i++) {
		wire_put(&writer, facts->row[i].found, 1);
		wire_put(&writer, facts->row[i].accessor, 1);
		wire_put(&writer, (uint32_t)facts->row[i].error, 4);
		for (unsigned k = 0; k < PROBE_ACCESSORS_MAX; k++)
			wire_put(&writer, (uint32_t)facts->row[i].member[k], 4);
		wire_put(&writer, facts->row[i].matches, 4);
	}
	for (size_t i = 0; i < facts->sites; i++)
		put_site(&writer, &facts->site[i]);
	if (writer.failed) {
		wire_free(&writer);
		return -ENOMEM;
	}
	*ret = writer.data;
	*ret_size_bytes = writer.size_bytes;
	return 0;
}

static void take_row(struct wire_reader *bytes, const struct probe *probe, struct fact_row *ret)
{
	ret->found = wire_take_up_to(bytes, 1, 1);
	ret->accessor = (uint8_t)wire_take_up_to(bytes, 1, probe->accessors);
	ret->error = wire_take_result(bytes, 0);
	for (unsigned k = 0; k < PROBE_ACCESSORS_MAX; k++) {
		ret->member[k] = (int32_t)wire_take(bytes, 4);
		bytes->is_bad |= ret->member[k] > MEMBER_OFFSET_MAX || ret->member[k] < -MEMBER_OFFSET_MAX;
	}
	ret->matches = (uint32_t)wire_take_up_to(bytes, 4, ELF_MATCHES_MAX);
	bytes->is_bad |= ret->found && ret->accessor;
	bytes->is_bad |= !ret->accessor && ret->error;
}

static void take_operand(struct wire_reader *bytes, enum elf_machine machine, struct usdt_operand *ret)
{
	static const uint8_t slot_max[] = {[ELF_MACHINE_X86_64] = 19, [ELF_MACHINE_AARCH64] = 31};

	ret->size_bytes = (uint8_t)wire_take_up_to(bytes, 1, 8);
	ret->is_signed = wire_take_up_to(bytes, 1, 1);
	ret->where = (unsigned)wire_take_up_to(bytes, 1, USDT_UNKNOWN);
	ret->reg = (uint8_t)wire_take_up_to(bytes, 1, slot_max[machine]);
	ret->offset = (int64_t)wire_take(bytes, 8);
	bytes->is_bad |= ret->where != USDT_UNKNOWN && (!ret->size_bytes || ret->size_bytes & (ret->size_bytes - 1));
}

static void take_site(struct wire_reader *bytes, uint64_t file_bytes, const struct probe *probe,
	const struct facts *facts, struct fact_site *ret)
{
	uint64_t last;

	ret->row = (uint32_t)wire_take_up_to(bytes, 4, facts->rows ? facts->rows - 1 : 0);
	bytes->is_bad |= facts->rows == 0;
	ret->is_usdt = wire_take_up_to(bytes, 1, 1);
	ret->emulated = wire_take_up_to(bytes, 1, 1);
	ret->entry_delta = (uint32_t)wire_take_up_to(bytes, 4, PROLOGUE_BYTES_MAX);
	ret->function_offset = wire_take_up_to(bytes, 8, file_bytes);
	ret->semaphore_offset = wire_take_up_to(bytes, 8, file_bytes);
	ret->returns = wire_take_result(bytes, RETURNS_MAX);
	last = ret->function_offset;
	for (int32_t i = 0; i < ret->returns && !bytes->is_bad; i++) {
		ret->return_offset[i] = wire_take_up_to(bytes, 8, file_bytes);
		bytes->is_bad |= ret->return_offset[i] < last ||
				 ret->return_offset[i] - ret->function_offset >= RETURNS_FUNCTION_BYTES_MAX;
		last = ret->return_offset[i] + 1;
	}
	ret->operands = (uint32_t)wire_take_up_to(bytes, 1, USDT_OPERANDS_MAX);
	for (unsigned i = 0; i < ret->operands && !bytes->is_bad; i++)
		take_operand(bytes, facts->machine, &ret->operand[i]);
	if (bytes->is_bad)
		return;
	bytes->is_bad = !facts->row[ret->row].found || !probe[ret->row].usdt_provider[0] == ret->is_usdt ||
			ret->function_offset == 0 || ret->function_offset + ret->entry_delta >= file_bytes ||
			(ret->is_usdt && (ret->entry_delta || ret->returns));
}

int facts_decode(const uint8_t *data, size_t size_bytes, uint64_t file_bytes, const struct probe *probe, size_t count,
	struct facts *ret)
{
	_cleanup_(facts_free) struct facts facts = {0};
	struct wire_reader bytes = {data, size_bytes, size_bytes > FACTS_BYTES_MAX};

	bytes.is_bad |= wire_take(&bytes, 4) != MAGIC;
	facts.machine = (enum elf_machine)wire_take_up_to(&bytes, 1, ELF_MACHINE_AARCH64);
	facts.left_out = (uint32_t)wire_take(&bytes, 4);
	facts.rows = (size_t)wire_take_up_to(&bytes, 4, count);
	facts.sites = (size_t)wire_take_up_to(&bytes, 4, FACTS_SITES_MAX);
	if (bytes.is_bad || facts.rows != count)
		return -EBADMSG;
	facts.row = calloc(count + 1, sizeof(*facts.row));
	facts.site = calloc(facts.sites + 1, sizeof(*facts.site));
	if (!facts.row || !facts.site)
		return -ENOMEM;
	for (size_t i = 0; i < facts.rows && !bytes.is_bad; i++)
		take_row(&bytes, &probe[i], &facts.row[i]);
	for (size_t i = 0; i < facts.sites && !bytes.is_bad; i++)
		take_site(&bytes, file_bytes, probe, &facts, &facts.site[i]);
	if (bytes.is_bad || bytes.left)
		return -EBADMSG;
	*ret = facts;
	facts = (struct facts){0};
	return 0;
}
