/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probe tables: what is read, what is refused and how the refusal reads, replacing by name, variants, the shipped
 * tables.
 */
#include <sys/stat.h>
#include "daemon/probes/table.h"

#include "tests/test.h"

#define ROW "[probe \"p\"]\nlevel = L0\nlibrary = libx.so*\nsymbol = f\nedge = span\n"

#define GROUP(edge) "[probe \"p\"]\nlevel = L1\nlibrary = libx.so*\nsymbol = f\nedge = " edge "\n"

static int parse(struct probe_table *table, const char *text, char *error, size_t error_size)
{
	return probe_table_parse(table, "dir/x.conf", text, strlen(text), error, error_size);
}

TEST(reads_every_key)
{
	struct probe_table table = {0};
	const struct probe *p;
	char error[512] = "";

	assert_int_equal(
		parse(&table,
			"# c\n[probe \"all\"]\nlevel = L2\nlibrary = liba.so* libb.so\nsymbol = f g* h?\nedge = call\n"
			"event = alloc\nargs = reg(1) deref(2,-8,4) s32(3) u32(6) cstring(4)\nresult = yes\n"
			"symbols_all = yes\noptional = yes\nhelp = a line\n",
			error, sizeof(error)),
		0);
	assert_string_equal(error, "");
	assert_int_equal(table.count, 1);
	p = table.probe;
	assert_string_equal(p->name, "all");
	assert_string_equal(p->file, "x.conf");
	assert_int_equal(p->line, 2);
	assert_int_equal(p->level, LEVEL_L2);
	assert_int_equal(p->libraries, 2);
	assert_string_equal(p->library[1], "libb.so");
	assert_int_equal(p->symbols, 3);
	assert_string_equal(p->symbol[2], "h?");
	assert_true(p->symbols_all);
	assert_true(p->optional);
	assert_int_equal(p->edge, RT_EDGE_CALL);
	assert_int_equal(p->spec.edge, RT_EDGE_CALL);
	assert_int_equal(p->spec.flags,
		RT_CALL_NEEDS_RETURN | RT_CALL_HAS_TEXT | RT_CALL_RESULT | RT_CALL_OUTERMOST | RT_CALL_STACK);
	assert_int_equal(p->spec.args, 5);
	assert_int_equal(p->spec.arg[1].read, RT_READ_DEREF);
	assert_int_equal(p->spec.arg[1].reg, 2);
	assert_int_equal(p->spec.arg[1].offset[0], -8);
	assert_int_equal(p->spec.arg[1].size_bytes, 4);
	assert_true(p->spec.arg[2].is_signed);
	assert_int_equal(p->spec.arg[3].size_bytes, 4);
	assert_int_equal(p->spec.arg[4].read, RT_READ_CSTRING);
	assert_true(probe_matches_library(p, "liba.so.1.2"));
	assert_true(probe_matches_library(p, "libb.so"));
	assert_false(probe_matches_library(p, "libb.so.1"));
	probe_table_free(&table);
}

TEST(reads_copies)
{
	struct probe_table table = {0};
	const struct rt_call_spec *spec;
	char error[512] = "";

	assert_int_equal(
		parse(&table,
			"[probe \"c\"]\nlevel = L2\nlibrary = liba.so\nsymbol = f\nedge = call\nevent = copy_async\n"
			"args = bytes:reg(3) direction:const(2)\nresult = yes\n",
			error, sizeof(error)),
		0);
	spec = &table.probe[0].spec;
	assert_int_equal(spec->flags,
		RT_CALL_NEEDS_RETURN | RT_CALL_RESULT | RT_CALL_OUTERMOST | RT_CALL_SUMMED | RT_CALL_ASYNC);
	assert_int_equal(spec->arg[1].read, RT_READ_CONST);
	assert_int_equal(spec->arg[1].offset[0], 2);
	assert_int_equal(table.probe[0].field[1], OP_FIELD_DIRECTION);
	probe_table_free(&table);
}

TEST(reads_usdt_and_return)
{
	struct probe_table table = {0};
	char error[512] = "";

	assert_int_equal(
		parse(&table,
			"[probe \"u\"]\nlevel = L0\nlibrary = python3*\nusdt = python:gc__start\nedge = begin\nstage = "
			"gc\n"
			"args = usdt(2) usdt(1)\nset = gc/2\n"
			"[probe \"e\"]\nlevel = L0\nlibrary = l\nsymbol = f\nedge = end\nat = return\nstage = s\n",
			error, sizeof(error)),
		0);
	assert_string_equal(table.probe[0].usdt_provider, "python");
	assert_string_equal(table.probe[0].usdt_name, "gc__start");
	assert_int_equal(table.probe[0].usdt_operand[0], 2);
	assert_int_equal(table.probe[0].usdt_operand[1], 1);
	assert_string_equal(table.probe[0].set, "gc");
	assert_int_equal(table.probe[0].variant, 2);
	assert_int_equal(table.probe[0].spec.flags, 0);
	assert_true(table.probe[1].at_return);
	assert_int_equal(table.probe[1].spec.flags, RT_CALL_NEEDS_RETURN);
	probe_table_free(&table);
}

TEST(reads_events)
{
	static const char text[] =
		"[probe \"all_reduce\"]\nlevel = L1\nlibrary = libnccl.so*\nsymbol = ncclAllReduce\nedge = call\nevent "
		"= op\n"
		"family = nccl\nop = AllReduce\nmember = yes\n"
		"args = count:reg(3) dtype:u32(4) comm:reg(6) stream:reg(7) member(6,ncclCommUserRank,4) "
		"members:member(6,ncclCommCount,4,-8) member:member(6,ncclCommUserRank,4,4)\n"
		"[probe \"init\"]\nlevel = L1\nlibrary = libnccl.so*\nsymbol = ncclCommInitRank\nedge = call\nevent = "
		"comm\n"
		"args = comm:out(1,8) identity:hash(stack,128) digest(3,128) path(4,8,-16,24,4) path(4,1,2,8) "
		"cstring(4,32,0)\n"
		"[probe \"open\"]\nlevel = L1\nlibrary = libnccl.so*\nsymbol = ncclGroupStart\nedge = open\n"
		"[probe \"close\"]\nlevel = L1\nlibrary = libnccl.so*\nsymbol = ncclGroupEnd\nedge = close\nevent = "
		"group\n"
		"return = probe\n";
	struct probe_table table = {0};
	char error[512] = "";
	const struct probe *p;

	if (parse(&table, text, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	assert_int_equal(table.count, 4);
	p = &table.probe[0];
	assert_string_equal(p->event, "op");
	assert_string_equal(p->family, "nccl");
	assert_string_equal(p->op, "AllReduce");
	assert_int_equal(p->spec.flags, RT_CALL_NEEDS_RETURN | RT_CALL_MEMBER);
	assert_int_equal(p->spec.args, 7);
	assert_int_equal(p->field[0], OP_FIELD_COUNT);
	assert_int_equal(p->field[3], OP_FIELD_STREAM);
	assert_int_equal(p->spec.arg[3].reg, 7);
	assert_int_equal(p->field[4], OP_FIELD_MAX);
	assert_int_equal(p->field[7], OP_FIELD_MAX);
	assert_int_equal(p->accessors, 2);
	assert_string_equal(p->accessor[1], "ncclCommCount");
	assert_int_equal(p->accessor_of[3], 0);
	assert_int_equal(p->accessor_of[4], 1);
	assert_int_equal(p->accessor_of[5], 2);
	assert_int_equal(p->spec.arg[5].offset[0], -8);
	assert_int_equal(p->accessor_of[6], 1);
	p = &table.probe[1];
	assert_int_equal(p->spec.arg[0].read, RT_READ_OUT);
	assert_int_equal(p->spec.arg[1].read, RT_READ_HASH);
	assert_int_equal(p->spec.arg[1].reg, RT_CALL_REG_STACK_BASE);
	assert_int_equal(p->spec.arg[1].size_bytes, 128);
	assert_int_equal(p->spec.arg[2].read, RT_READ_DIGEST);
	assert_int_equal(p->spec.arg[3].hops, 2);
	assert_int_equal(p->spec.arg[3].offset[1], -16);
	assert_int_equal(p->spec.arg[3].offset[2], 24);
	assert_int_equal(p->spec.arg[4].hops, 1);
	assert_int_equal(p->spec.arg[5].read, RT_READ_CSTRING);
	assert_int_equal(p->spec.arg[5].hops, 1);
	assert_int_equal(p->spec.arg[5].offset[0], 32);
	assert_int_equal(table.probe[2].edge, RT_EDGE_OPEN);
	assert_int_equal(table.probe[2].spec.flags, 0);
	assert_int_equal(table.probe[3].edge, RT_EDGE_CLOSE);
	assert_int_equal(table.probe[3].spec.flags, RT_CALL_NEEDS_RETURN);
	probe_table_free(&table);
}

/* Rows for another machine are checked and then gone, with what they replace. */
TEST(forgets_other_machines)
{
	struct probe_table table = {0};
	char error[512] = "";

	assert_int_equal(
		parse(&table,
			ROW "arch = x86_64\n[probe \"q\"]\nlevel = L0\nlibrary = l\nsymbol = g\nedge = span\n"
			    "arch = aarch64\n[probe \"r\"]\nlevel = L0\nlibrary = l\nsymbol = g\nedge = span\n",
			error, sizeof(error)),
		0);
	assert_int_equal(table.count, 2);
#if defined(__x86_64__)
	assert_string_equal(table.probe[0].name, "p");
#else
	assert_string_equal(table.probe[0].name, "q");
#endif
	assert_string_equal(table.probe[1].name, "r");
	assert_int_equal(parse(&table,
				 "[probe \"r\"]\nlevel = L0\nlibrary = l\nsymbol = g\nedge = span\narch = "
#if defined(__x86_64__)
				 "aarch64\n",
#else
				 "x86_64\n",
#endif
				 error, sizeof(error)),
		0);
	assert_int_equal(table.count, 1);
	probe_table_free(&table);
}

/* Rows have what [defaults] before them says, unless they say it themselves. A row's name is its symbol. */
TEST(rows_share_defaults)
{
	struct probe_table table = {0};
	char error[512] = "";

	assert_int_equal(parse(&table,
				 "[defaults]\nlevel = L2\nlibrary = la lb\nedge = call\nevent = copy\nresult = yes\n"
				 "[probe \"f\"]\nargs = count:reg(1)\n"
				 "[probe \"g\"]\nlibrary = lc\nevent = op\nresult = no\nsymbol = h\n"
				 "[defaults]\nlevel = L0\nedge = span\n"
				 "[probe \"i\"]\nlibrary = l\n",
				 error, sizeof(error)),
		0);
	assert_int_equal(table.count, 3);
	assert_int_equal(table.probe[0].level, LEVEL_L2);
	assert_int_equal(table.probe[0].libraries, 2);
	assert_string_equal(table.probe[0].symbol[0], "f");
	assert_int_equal(table.probe[0].symbols, 1);
	assert_int_equal(table.probe[0].spec.args, 1);
	assert_int_equal(
		table.probe[0].spec.flags, RT_CALL_NEEDS_RETURN | RT_CALL_OUTERMOST | RT_CALL_SUMMED | RT_CALL_RESULT);
	assert_int_equal(table.probe[1].libraries, 1);
	assert_string_equal(table.probe[1].library[0], "lc");
	assert_string_equal(table.probe[1].symbol[0], "h");
	assert_string_equal(table.probe[1].event, "op");
	assert_int_equal(table.probe[1].spec.args, 0);
	assert_int_equal(table.probe[1].spec.flags, RT_CALL_NEEDS_RETURN);
	assert_int_equal(table.probe[2].level, LEVEL_L0);
	assert_string_equal(table.probe[2].event, "");
	assert_int_equal(table.probe[2].spec.flags, RT_CALL_NEEDS_RETURN);
	probe_table_free(&table);
}

static const struct {
	const char *text, *sentence;
} refused[] = {
	{ROW "colour = red\n", "dir/x.conf:6: unknown key \"colour\""},
	{ROW "level = L0\n", "dir/x.conf:6: duplicate key level"},
	{"level = L0\n", "dir/x.conf:1: \"level\" precedes the first section"},
	{"[prob \"p\"]\n", "dir/x.conf:1: expected a section [probe \"NAME\"]"},
	{"[probe]\n", "dir/x.conf:1: expected a section [probe \"NAME\"]"},
	{ROW ROW, "dir/x.conf:6: probe \"p\" is already defined in line 1"},
	{"[probe \"p\"]\nlevel = L4\n", "dir/x.conf:2: \"L4\" is not a level"},
	{"[probe \"p\"]\nedge = spam\n", "dir/x.conf:2: \"spam\" is not an edge"},
	{"[probe \"p\"]\nlibrary = a b c d e\n", "dir/x.conf:2: more than 4 patterns"},
	{"[probe \"p\"]\nusdt = python\n", "dir/x.conf:2: \"python\" is not a USDT probe"},
	{"[probe \"p\"]\nset = a\n", "dir/x.conf:2: \"a\" is not a set"},
	{"[probe \"p\"]\nset = a/0\n", "dir/x.conf:2: \"a/0\" is not a set"},
	{"[probe \"p\"]\nset = a/17\n", "dir/x.conf:2: \"a/17\" is not a set"},
	{"[probe \"p\"]\nsymbol_reg = 7\n", "dir/x.conf:2: bad value \"7\" of symbol_reg"},
	{"[probe \"p\"]\nat = end\n", "dir/x.conf:2: bad value \"end\" of at"},
	{"[probe \"p\"]\noptional = maybe\n", "dir/x.conf:2: bad value \"maybe\" of optional"},
	{"[probe \"p\"]\nresult = maybe\n", "dir/x.conf:2: bad value \"maybe\" of result"},
	{"[probe \"p\"]\nargs = reg(0)\n", "dir/x.conf:2: \"reg(0)\": number out of range"},
	{"[probe \"p\"]\nargs = reg(9)\n", "dir/x.conf:2: \"reg(9)\": number out of range"},
	{"[probe \"p\"]\nargs = reg(1,2)\n", "dir/x.conf:2: \"reg(1,2)\" is not an argument reader"},
	{"[probe \"p\"]\nargs = reg\n", "dir/x.conf:2: \"reg\" is not an argument reader"},
	{"[probe \"p\"]\nargs = reg(1\n", "dir/x.conf:2: \"reg(1\" is not an argument reader"},
	{"[probe \"p\"]\nargs = deref(1,0,3)\n", "dir/x.conf:2: \"deref(1,0,3)\" has a bad offset or size"},
	{"[probe \"p\"]\nargs = deref(1,9999999,8)\n", "dir/x.conf:2: \"deref(1,9999999,8)\" has a bad offset or size"},
	{"[probe \"p\"]\nargs = cstring(1) reg(2)\n", "dir/x.conf:2: nothing may follow the reader of a text"},
	{"[probe \"p\"]\nargs = cstring(1) pystring(2)\n", "dir/x.conf:2: nothing may follow the reader of a text"},
	{"[probe \"p\"]\nargs = reg(1) reg(1) reg(1) reg(1) reg(1) reg(1) reg(1) reg(1) reg(1)\n",
		"dir/x.conf:2: more than 8"},
	{"[probe \"p\"]\nargs = reg(stack)\n", "dir/x.conf:2: \"reg(stack)\": number"},
	{"[probe \"p\"]\nargs = path(1,8,8)\n", "dir/x.conf:2: \"path(1,8,8)\" is not an argument reader"},
	{"[probe \"p\"]\nargs = path(1,8,8,8,8,8)\n", "dir/x.conf:2: \"path(1,8,8,8,8,8)\" is not an argument reader"},
	{"[probe \"p\"]\nargs = path(1,8,8,3)\n", "dir/x.conf:2: \"path(1,8,8,3)\" has a bad offset or size"},
	{"[probe \"p\"]\nargs = out(1,0)\n", "dir/x.conf:2: \"out(1,0)\" has a bad offset or size"},
	{"[probe \"p\"]\nargs = hash(1,129)\n", "dir/x.conf:2: \"hash(1,129)\" has a bad offset or size"},
	{"[probe \"p\"]\nargs = digest(1,0)\n", "dir/x.conf:2: \"digest(1,0)\" has a bad offset or size"},
	{"[probe \"p\"]\nargs = member(1,,8)\n", "dir/x.conf:2: \"member(1,,8)\" has a bad function"},
	{"[probe \"p\"]\nargs = member(1,f,8,x)\n", "dir/x.conf:2: \"member(1,f,8,x)\" has a bad function"},
	{"[probe \"p\"]\nargs = member(1,a,8) member(1,b,8) member(1,c,8) member(1,d,8) member(1,e,8)\n",
		"dir/x.conf:2: \"member(1,e,8)\" has a bad function"},
	{"[probe \"p\"]\nargs = colour:reg(1)\n", "dir/x.conf:2: \"colour:reg(1)\" has a name that is no field"},
	{"[probe \"p\"]\nargs = :reg(1)\n", "dir/x.conf:2: \":reg(1)\" has a name that is no field"},
	{"[probe \"p\"]\nargs = count:reg(1) count:reg(2)\n", "dir/x.conf:2: \"count:reg(2)\" repeats a name"},
	{"[probe \"p\"]\nevent = ops\n", "dir/x.conf:2: \"ops\" is not an event"},
	{"[probe \"p\"]\narch = amd64\n", "dir/x.conf:2: \"amd64\" is not a machine"},
	{"[probe \"p\"]\nfamily = a-long-name\n", "dir/x.conf:2: family is empty or longer"},
	{"[probe \"p\"]\nmember = perhaps\n", "dir/x.conf:2: bad value \"perhaps\" of member"},
	{"[probe \"p\"]\nlevel = L0\nlibrary = l\nsymbol = f\n", "dir/x.conf:1: probe \"p\" needs a level and an edge"},
	{"[probe \"p\"]\nlevel = L0\nedge = span\nsymbol = f\n", "dir/x.conf:1: probe \"p\" needs a library"},
	{ROW "usdt = a:b\n", "dir/x.conf:1: probe \"p\" has a symbol and a usdt"},
	{"[defaults \"p\"]\n", "dir/x.conf:1: expected a section [probe \"NAME\"]"},
	{"[defaults]\nlevel = L0\nlevel = L0\n", "dir/x.conf:3: duplicate key level"},
	{"[defaults]\nargs = reg(1)\n", "dir/x.conf:2: args belongs to one probe"},
	{"[defaults]\nsymbol = f\n", "dir/x.conf:2: symbol belongs to one probe"},
	{"[defaults]\nlibrary = l\nedge = span\n[defaults]\nlevel = L0\n[probe \"p\"]\nedge = span\n",
		"dir/x.conf:6: probe \"p\" needs a library"},
	{ROW "event = op\n", "dir/x.conf:1: probe \"p\" has an event"},
	{ROW "family = nccl\n", "dir/x.conf:1: probe \"p\" has a family"},
	{ROW "args = count:reg(1)\n", "dir/x.conf:1: probe \"p\" has a family, an op or a named argument"},
	{ROW "member = yes\n", "dir/x.conf:1: probe \"p\" has member"},
	{ROW "args = out(1,8)\n", "dir/x.conf:1: probe \"p\" has a reader out()"},
	{GROUP("close"), "dir/x.conf:1: probe \"p\" needs an event"},
	{GROUP("open") "event = group\n", "dir/x.conf:1: probe \"p\" has an event"},
	{GROUP("open") "args = reg(1)\n", "dir/x.conf:1: probe \"p\" has args"},
	{ROW "at = return\n", "dir/x.conf:1: probe \"p\" has at = return"},
	{GROUP("entry") "event = op\nresult = yes\n", "dir/x.conf:1: probe \"p\" has a result"},
	{ROW "symbol_reg = 1\n", "dir/x.conf:1: probe \"p\" needs symbol_reg"},
	{ROW "args = usdt(1)\n", "dir/x.conf:1: probe \"p\" must read usdt(N)"},
	{"[probe \"p\"]\nlevel = L1\nlibrary = l\nsymbol = f\nedge = entry\n",
		"dir/x.conf:1: probe \"p\" needs an event"},
	{"[probe \"p\"]\nlevel = L0\nlibrary = l\nsymbol = f\nedge = stash\n",
		"dir/x.conf:1: probe \"p\" needs a text reader"},
	{"[probe \"p\"]\nlevel = L0\nlibrary = l\nusdt = a:b\nedge = span\n",
		"dir/x.conf:1: probe \"p\" has an edge that"},
	{"[probe \"p\"]\nlevel = L0\nlibrary = l\nusdt = a:b\nedge = begin\nargs = reg(1)\n",
		"dir/x.conf:1: probe \"p\" must"},
};

TEST(refuses_with_one_sentence)
{
	struct probe_table table = {0};
	char error[512] = "";

	assert_int_equal(parse(&table, "[probe \"keep\"]\nlevel = L0\nlibrary = l\nsymbol = f\nedge = span\n", error,
				 sizeof(error)),
		0);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		memset(error, 0, sizeof(error));
		assert_true(parse(&table, refused[i].text, error, sizeof(error)) < 0);
		if (strncmp(error, refused[i].sentence, strlen(refused[i].sentence)) != 0)
			fail_msg("expected \"%s\", got \"%s\"", refused[i].sentence, error);
		assert_int_equal(table.count, 1);
		assert_string_equal(table.probe[0].name, "keep");
	}
	probe_table_free(&table);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

TEST(later_row_replaces_at_same_index)
{
	char dir[] = "/tmp/ranktrace-table-XXXXXX", a[64], b[64], other[64], error[512] = "";
	struct probe_table table = {0};

	assert_non_null(mkdtemp(dir));
	snprintf(a, sizeof(a), "%s/a.conf", dir);
	snprintf(b, sizeof(b), "%s/b.conf", dir);
	snprintf(other, sizeof(other), "%s/b.conf.old", dir);
	write_file(a, ROW "[probe \"q\"]\nlevel = L0\nlibrary = l\nsymbol = g\nedge = span\n");
	write_file(b, "[probe \"p\"]\nlevel = L3\nlibrary = l\nsymbol = g\nedge = span\n");
	write_file(other, "nonsense");
	assert_int_equal(probe_table_load_dir(&table, "/nonexistent/probes.d", error, sizeof(error)), 0);
	assert_int_equal(table.count, 0);
	assert_int_equal(probe_table_load_dir(&table, dir, error, sizeof(error)), 0);
	assert_int_equal(table.count, 2);
	assert_string_equal(table.probe[0].name, "p");
	assert_int_equal(table.probe[0].level, LEVEL_L3);
	assert_string_equal(table.probe[0].file, "b.conf");
	assert_string_equal(table.probe[1].name, "q");

	/* The second file is bad: the first one's rows do not come in either. */
	probe_table_free(&table);
	write_file(b, "[probe \"p\"]\nlevel = L9\n");
	assert_true(probe_table_load_dir(&table, dir, error, sizeof(error)) < 0);
	assert_int_equal(table.count, 0);
	assert_non_null(strstr(error, "b.conf:2: \"L9\""));
	unlink(a);
	unlink(b);
	unlink(other);
	rmdir(dir);
}

TEST(chooses_the_lowest_whole_variant)
{
	static const char text[] = "[probe \"two.a\"]\nlevel=L0\nlibrary=l\nsymbol=f\nedge=span\nset = s/2\n"
				   "[probe \"one.a\"]\nlevel=L0\nlibrary=l\nsymbol=f\nedge=span\nset = s/1\n"
				   "[probe \"one.b\"]\nlevel=L0\nlibrary=l\nsymbol=f\nedge=span\nset = s/1\n"
				   "[probe \"free\"]\nlevel=L0\nlibrary=l\nsymbol=f\nedge=span\n"
				   "[probe \"other\"]\nlevel=L0\nlibrary=l\nsymbol=f\nedge=span\nset = t/2\n";
	static const struct {
		bool found[5], use[5];
	} cases[] = {
		{{1, 1, 1, 1, 1}, {0, 1, 1, 1, 1}},
		{{1, 1, 0, 1, 1}, {1, 0, 0, 1, 1}},
		{{0, 1, 0, 1, 0}, {0, 0, 0, 1, 0}},
		{{0, 1, 1, 0, 1}, {0, 1, 1, 0, 1}},
		{{1, 0, 0, 0, 0}, {1, 0, 0, 0, 0}},
		{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}},
	};
	struct probe_table table = {0};
	char error[512] = "";

	assert_int_equal(parse(&table, text, error, sizeof(error)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool use[5];

		probe_table_choose(&table, cases[i].found, use);
		for (size_t k = 0; k < ARRAY_SIZE(use); k++)
			if (use[k] != cases[i].use[k])
				fail_msg("case %zu row %zu: %d", i, k, use[k]);
	}
	probe_table_free(&table);
}

TEST(shipped_tables_are_read)
{
	struct probe_table table = {0};
	char error[512] = "";
	unsigned stages = 0, frees = 0;

	if (probe_table_load_dir(&table, SOURCE_DIR "/bpf/probes.d", error, sizeof(error)) < 0)
		fail_msg("%s", error);
	for (size_t i = 0; i < table.count; i++) {
		if (!*table.probe[i].help)
			fail_msg("probe %s has no help", table.probe[i].name);
		frees += streq(table.probe[i].symbol[0], "cudaFree");
		stages |= streq(table.probe[i].stage, "gc") | streq(table.probe[i].stage, "backward") << 1 |
			  streq(table.probe[i].stage, "checkpoint") << 2 | streq(table.probe[i].stage, "sync") << 3;
	}
	assert_int_equal(stages, 15);
	/* A row of a later file would replace that of an earlier one: that cudaFree waits, and that it frees, are
	 * two. */
	assert_int_equal(frees, 2);
	probe_table_free(&table);
}

/* A step of a job makes a copy for each gradient: how often its functions are hit is what L2 costs there. */
TEST(a_copy_of_cuda_is_hit_once_or_twice)
{
	bool found[PROBES_MAX] = {0}, use[PROBES_MAX];
	struct probe_table table = {0};
	char error[512] = "", runtime[512] = "", driver[512] = "";

	if (probe_table_load_dir(&table, SOURCE_DIR "/bpf/probes.d", error, sizeof(error)) < 0)
		fail_msg("%s", error);
	for (unsigned both = 0; both < 2; both++) {
		for (size_t i = 0; i < table.count; i++)
			found[i] = probe_matches_library(&table.probe[i], "libcudart.so.13") ||
				   (both && probe_matches_library(&table.probe[i], "libcuda.so.1"));
		probe_table_choose(&table, found, use);
		for (size_t i = 0; i < table.count; i++) {
			const struct probe *probe = &table.probe[i];
			char *to = both ? driver : runtime;

			if (use[i] && probe->spec.flags & RT_CALL_SUMMED && !strstr(probe->op, "Peer"))
				snprintf(to + strlen(to), 512 - strlen(to), "%s %d\n", probe->op,
					1 + !!(probe->spec.flags & RT_CALL_NEEDS_RETURN));
		}
	}
	assert_string_equal(runtime, "cudaMemcpy 2\ncudaMemcpyAsync 2\n");
	assert_string_equal(driver,
		"cuMemcpy 2\ncuMemcpyAsync 2\ncuMemcpyHtoD_v2 2\ncuMemcpyHtoDAsync_v2 2\ncuMemcpyDtoH_v2 2\n"
		"cuMemcpyDtoHAsync_v2 2\ncuMemcpyDtoD_v2 2\ncuMemcpyDtoDAsync_v2 1\n");
	probe_table_free(&table);
}

TEST_MAIN(NULL, NULL)
