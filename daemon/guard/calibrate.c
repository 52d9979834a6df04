/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calibration: functions of this program are called with and without a probe, in turn. Once warm, in a loop; once after
 * each call has lost its place in the caches, as the calls of a training have when milliseconds lie between them.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include "analyzers/base/robust.h"
#include "calibrate.skel.h"
#include "daemon/guard/guard_internal.h"
#include "daemon/kernel/kernel.h"
#include "daemon/kernel/uprobe.h"

#define ROUNDS 5	       /* with and without probe, in turn: the median counts */
#define BATCHES_HOT 25	       /* of a round: others take the CPU during some of them */
#define CALLS_HOT 16	       /* of a batch: long beside a reading of the clock */
#define CALLS_COLD 24	       /* each moves EVICT_BYTES */
#define EVICT_BYTES (4u << 20) /* more than the second level cache of a core */
#define LINE_BYTES 64

/* In assembly, because a compiler's first instruction changes with its options. The last one evicts instructions. */
#define TARGET(name, body) \
	__asm__(".text\n.p2align 6\n.globl guard_target_" #name "\n.type guard_target_" #name \
		", %function\nguard_target_" #name ":\n" body "\n.size guard_target_" #name \
		", . - guard_target_" #name "\n")
#ifdef __x86_64__
TARGET(emulated, "nop\n ret");
TARGET(stepped, "lea 1(%rdi), %rax\n ret");
TARGET(long, ".rept 8192\n .byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n .endr\n ret");
#else
TARGET(emulated, "nop\n ret");
TARGET(stepped, "add x0, x0, #1\n ret");
TARGET(long, ".rept 16384\n nop\n .endr\n ret");
#endif
extern void guard_target_emulated(void);
extern void guard_target_stepped(void);
extern void guard_target_long(void);

static void calibrate_system_call(void)
{
	(void)syscall(SYS_getppid);
}

struct calibration {
	struct calibrate_bpf *skeleton;
	bool multi;
	int file_fd;
	uint8_t *memory; /* EVICT_BYTES */
	struct uprobe_link *uprobe;
	struct bpf_link *tracepoint;
};

static const struct calibrated {
	void (*call)(void);
	bool on_return;
} kinds[RT_COST_KINDS] = {
	[RT_COST_EMULATED] = {guard_target_emulated, false},
	[RT_COST_STEPPED] = {guard_target_stepped, false},
	[RT_COST_RETURN] = {guard_target_emulated, true},
	[RT_COST_TRACEPOINT] = {calibrate_system_call, false},
};

static void calibrate_free(struct calibration *c)
{
	uprobe_detach(c->uprobe);
	bpf_link__destroy(c->tracepoint);
	calibrate_bpf__destroy(c->skeleton);
	closep(&c->file_fd);
	free(c->memory);
}

static int calibrate_attach(struct calibration *c, enum rt_cost_kind kind)
{
	struct uprobe_target target = {.program_fd = bpf_program__fd(c->skeleton->progs.calibrate_uprobe),
		.multi = c->multi,
		.on_return = kinds[kind].on_return,
		.file_fd = c->file_fd,
		.count = 1};
	uint64_t offset;
	int r;

	if (kind == RT_COST_TRACEPOINT) {
		c->tracepoint = bpf_program__attach(c->skeleton->progs.calibrate_tracepoint);
		return c->tracepoint ? 0 : -errno;
	}
	r = uprobe_offset((const void *)(uintptr_t)kinds[kind].call, &offset);
	target.offsets = &offset;
	return r < 0 ? r : uprobe_attach(&target, &c->uprobe);
}

static void calibrate_detach(struct calibration *c)
{
	uprobe_detach(c->uprobe);
	c->uprobe = NULL;
	bpf_link__destroy(c->tracepoint);
	c->tracepoint = NULL;
}

/* Sums of the program's, since the last time. */
static struct rt_cost calibrate_take(const struct calibration *c)
{
	int map = bpf_map__fd(c->skeleton->maps.calibration);
	struct rt_costs all = {0}, none = {0};
	uint32_t key = 0;

	(void)bpf_map_lookup_elem(map, &key, &all);
	(void)bpf_map_update_elem(map, &key, &none, BPF_ANY);
	return all.at[0][0];
}

static double calibrate_hot(void (*call)(void))
{
	double took[BATCHES_HOT];

	for (int batch = 0; batch < BATCHES_HOT; batch++) {
		uint64_t start_ns = monotonic_ns();

		for (int i = 0; i < CALLS_HOT; i++)
			call();
		took[batch] = (double)(monotonic_ns() - start_ns) / CALLS_HOT;
	}
	return robust_median(took, BATCHES_HOT);
}

static void calibrate_evict(uint8_t *memory)
{
	for (size_t i = 0; i < EVICT_BYTES; i += LINE_BYTES)
		((volatile uint8_t *)memory)[i]++;
	guard_target_long();
}

/* The clock is read before, so that it is warm; an interrupt during a call is no part of its cost: the median. */
static double calibrate_cold(const struct calibration *c, void (*call)(void))
{
	double took[CALLS_COLD];

	for (int i = 0; i < CALLS_COLD; i++) {
		uint64_t start_ns;

		calibrate_evict(c->memory);
		(void)monotonic_ns();
		start_ns = monotonic_ns();
		call();
		took[i] = (double)(monotonic_ns() - start_ns);
	}
	return robust_median(took, CALLS_COLD);
}

static int calibrate_kind(struct calibration *c, enum rt_cost_kind kind, bool cold, struct guard_outside *ret)
{
	struct guard_round round[ROUNDS];

	for (size_t i = 0; i < ROUNDS; i++) {
		int r;

		round[i].without_ns = cold ? calibrate_cold(c, kinds[kind].call) : calibrate_hot(kinds[kind].call);
		r = calibrate_attach(c, kind);
		if (r < 0)
			return r;
		(void)calibrate_take(c);
		round[i].with_ns = cold ? calibrate_cold(c, kinds[kind].call) : calibrate_hot(kinds[kind].call);
		round[i].inside = calibrate_take(c);
		calibrate_detach(c);
	}
	return guard_model_outside(round, ROUNDS, ret);
}

static int calibrate_open(struct kernel *kernel, struct calibration *c)
{
	const struct kernel_features *features = kernel_features(kernel);

	c->multi = features->uprobe_multi;
	if (!features->uprobe_multi && !features->perf_uprobe)
		return -EOPNOTSUPP;
	c->file_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	c->memory = calloc(1, EVICT_BYTES);
	c->skeleton = calibrate_bpf__open();
	if (c->file_fd < 0 || !c->memory || !c->skeleton)
		return -errno;
	c->skeleton->rodata->own_pid = (uint32_t)getpid();
	if (c->multi)
		bpf_program__set_expected_attach_type(c->skeleton->progs.calibrate_uprobe, UPROBE_MULTI_ATTACH_TYPE);
	return kernel_load(kernel, c->skeleton->skeleton);
}

int guard_calibrate(struct kernel *kernel, struct guard_model *ret)
{
	_cleanup_(calibrate_free) struct calibration c = {.file_fd = -1};
	struct guard_outside warm[RT_COST_KINDS] = {0}, cold = {0};
	int r = calibrate_open(kernel, &c);

	for (enum rt_cost_kind kind = 0; r == 0 && kind < RT_COST_KINDS; kind++)
		r = calibrate_kind(&c, kind, false, &warm[kind]);
	if (r == 0)
		r = calibrate_kind(&c, RT_COST_EMULATED, true, &cold);
	if (r == 0)
		guard_model_fill(warm, &cold, ret);
	return r;
}
