/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_attach WHERE LIBRARY SYMBOL PID: holds one probe of the real call engine on a function while bench_call.sh
 * measures it in process PID. The site comes from daemon/probes, the program from bpf/call.bpf.c, and the ring is
 * drained as the daemon does it: when the kernel wakes us, and every 100 ms. Prints "attached", ends on SIGTERM, and
 * then prints the records and drops that it saw, to discard samples that measured something else.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "bpf/call.h"
#include "call.skel.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/probes/site.h"
#include "daemon/kernel/uprobe.h"

#define RING_BYTES (16u << 20)
#define DRAIN_MS 100

/* What is put where, and whether the process counts as a rank. */
static const struct mode {
	const char *name;
	const char *row; /* the rest of the table row */
	bool at_entry;	 /* on the first byte, whatever stands there */
	bool not_rank;
} modes[] = {
	{.name = "chosen", .row = "edge=entry\nevent=op\n"},
	{.name = "chosen-other", .row = "edge=entry\nevent=op\n", .not_rank = true},
	{.name = "entry", .row = "edge=entry\nevent=op\n", .at_entry = true},
	{.name = "span-insn", .row = "edge=span\nstage=bench\n"},
	{.name = "span-probe", .row = "edge=span\nstage=bench\nreturn=probe\n"},
	{.name = "call-insn", .row = "edge=call\nevent=op\nresult=yes\nargs=reg(1)\n"},
};

struct bench {
	struct context context;
	struct call_bpf *skeleton;
	struct probe_table table;
	struct library library;
	struct sites sites;
	struct uprobe_link *link[3];
	bool multi;
};

static volatile sig_atomic_t stopped;
static uint64_t records;

static void stop(int number)
{
	stopped = 1;
}

/* A record is only counted. */
static void count_record(void *arg, const void *data, size_t size_bytes)
{
	records += size_bytes >= sizeof(struct rt_call_event);
}

static int spec_new(void *arg, const struct site *site, const struct rt_call_spec *spec, uint32_t *ret)
{
	struct bench *bench = arg;

	*ret = 0;
	return bpf_map_update_elem(bpf_map__fd(bench->skeleton->maps.specs), ret, spec, BPF_ANY);
}

static int load(struct bench *bench)
{
	struct call_bpf *skeleton;
	int r;

	bench->context.config.ring_size_bytes = RING_BYTES;
	bench->context.config.ranks_max = 1024;
	r = kernel_open(&bench->context, &bench->context.kernel);
	if (r < 0)
		return r;
	kernel_deliver(bench->context.kernel, count_record, NULL);
	bench->multi = kernel_features(bench->context.kernel)->uprobe_multi;
	skeleton = bench->skeleton = call_bpf__open();
	if (!skeleton)
		return -errno;
	if (bench->multi) {
		bpf_program__set_expected_attach_type(skeleton->progs.call_enter, UPROBE_MULTI_ATTACH_TYPE);
		bpf_program__set_expected_attach_type(skeleton->progs.call_exit, UPROBE_MULTI_ATTACH_TYPE);
	}
	return kernel_load(bench->context.kernel, skeleton->skeleton);
}

static int find_site(struct bench *bench, const struct mode *mode, const char *library, const char *symbol)
{
	const char *slash = strrchr(library, '/'), *name = slash ? slash + 1 : library;
	struct attach_engine engine = {.table = &bench->table, .spec_new = spec_new, .arg = bench};
	char text[2048], error[512];
	int r;

	snprintf(text, sizeof(text), "[probe \"bench\"]\nlevel=L0\nlibrary=%s\nsymbol=%s\n%s", name, symbol, mode->row);
	r = probe_table_parse(&bench->table, "bench", text, strlen(text), error, sizeof(error));
	if (r < 0) {
		fprintf(stderr, "bench_attach: %s\n", error);
		return r;
	}
	bench->library.path = strdup(library);
	if (!bench->library.path)
		return -ENOMEM;
	bench->library.base_name = name;
	bench->library.fd = open(library, O_RDONLY | O_CLOEXEC);
	if (bench->library.fd < 0)
		return -errno;
	r = sites_find(&engine, &bench->library, &bench->sites);
	if (r < 0)
		return r;
	return bench->sites.count == 1 ? 0 : -ENOENT;
}

static int attach_part(struct bench *bench, unsigned part, const uint64_t *offsets, size_t count, bool on_return)
{
	const uint64_t cookies[RETURNS_MAX] = {0};
	struct bpf_program *program = part ? bench->skeleton->progs.call_exit : bench->skeleton->progs.call_enter;
	const struct uprobe_target target = {
		.program_fd = bpf_program__fd(program),
		.multi = bench->multi,
		.on_return = on_return,
		.file_fd = bench->library.fd,
		.count = count,
		.offsets = offsets,
		.cookies = cookies,
	};

	return count == 0 ? 0 : uprobe_attach(&target, &bench->link[part]);
}

static int attach(struct bench *bench, const struct mode *mode)
{
	const struct site *site = &bench->sites.site[0];
	const uint64_t *entry = mode->at_entry ? &site->function_offset : &site->entry_offset;
	int r = attach_part(bench, 0, entry, 1, false);

	if (r == 0)
		r = attach_part(bench, 1, site->return_offset, site->returns, false);
	if (r == 0)
		r = attach_part(bench, 2, &site->function_offset, site->return_probe, true);
	return r;
}

static void serve(struct bench *bench, const struct mode *mode)
{
	const struct site *site = &bench->sites.site[0];
	struct pollfd wait = {.fd = kernel_fd(bench->context.kernel), .events = POLLIN};

	printf("attached at +%lu, %s\n",
		mode->at_entry ? 0 : (unsigned long)(site->entry_offset - site->function_offset),
		site->emulated && !mode->at_entry ? "emulated" : "as it comes");
	fflush(stdout);
	while (!stopped) {
		(void)poll(&wait, 1, DRAIN_MS);
		(void)kernel_drain(bench->context.kernel);
	}
	printf("records %lu drops %lu\n", (unsigned long)records,
		(unsigned long)kernel_drops(bench->context.kernel, RT_KIND_CALL));
}

static void close_bench(struct bench *bench)
{
	for (size_t i = 0; i < ARRAY_SIZE(bench->link); i++)
		uprobe_detach(bench->link[i]);
	sites_free(&bench->sites);
	closep(&bench->library.fd);
	call_bpf__destroy(bench->skeleton);
	kernel_close(bench->context.kernel);
	probe_table_free(&bench->table);
}

int main(int argc, char **argv)
{
	struct bench bench = {.library.fd = -1};
	const struct mode *mode = NULL;
	uint32_t pid = argc == 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(modes) && argc == 5; i++)
		if (streq(modes[i].name, argv[1]))
			mode = &modes[i];
	if (!mode || !pid) {
		fprintf(stderr, "usage: bench_attach chosen|chosen-other|entry|span-insn|span-probe|call-insn LIBRARY "
				"SYMBOL PID\n");
		return 2;
	}
	signal(SIGTERM, stop);
	r = load(&bench);
	if (r == 0 && !mode->not_rank)
		r = kernel_rank_add(bench.context.kernel, pid, 0);
	if (r == 0)
		r = find_site(&bench, mode, argv[2], argv[3]);
	if (r == 0)
		r = attach(&bench, mode);
	if (r == 0)
		serve(&bench, mode);
	else
		fprintf(stderr, "bench_attach: cannot probe %s of %s: %s\n", argv[3], argv[2], strerror(-r));
	close_bench(&bench);
	return r < 0 ? 1 : 0;
}
