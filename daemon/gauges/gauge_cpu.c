/* SPDX-License-Identifier: Apache-2.0 */
/* Each CPU's share of time: /proc/stat. */
#include "daemon/gauges/gauge.h"

#define LINE_BYTES 512

enum { CPU_BUSY, CPU_STEAL, CPU_IRQ, CPU_SOFTIRQ, CPU_IOWAIT, CPU_MAX };

/* Read in ticks of USER_HZ, of which every architecture that Linux shows has 100 a second. */
#define TICKS 0.01

static const struct gauge cpu_gauges[] = {
	[CPU_BUSY] = {"busy", "ratio", GAUGE_RATE, TICKS, 0.5,
		"time in programs and in the kernel, interrupts included"},
	[CPU_STEAL] = {"steal", "ratio", GAUGE_RATE, TICKS, 0.1, "time that the hypervisor gave to others"},
	[CPU_IRQ] = {"irq", "ratio", GAUGE_RATE, TICKS, 0.1, "time in interrupts"},
	[CPU_SOFTIRQ] = {"softirq", "ratio", GAUGE_RATE, TICKS, 0.1, "time in soft interrupts"},
	[CPU_IOWAIT] = {"iowait", "ratio", GAUGE_RATE, TICKS, 0.5, "idle time while a task waited for a disk"},
	[CPU_MAX] = {0},
};

struct cpu {
	FILE *stat;
	char line[LINE_BYTES];
};

static int gauge_cpu_open(const struct gauge_roots *roots, void **ret, char *why, size_t why_size)
{
	struct cpu *cpu = calloc(1, sizeof(*cpu));
	char path[256];

	if (!cpu)
		return -ENOMEM;
	snprintf(path, sizeof(path), "%s/stat", roots->proc);
	cpu->stat = fopen(path, "re");
	if (!cpu->stat) {
		int r = -errno;

		snprintf(why, why_size, "cannot read %s: %s", path, strerror(-r));
		free(cpu);
		return r;
	}
	*ret = cpu;
	return 0;
}

static int gauge_cpu_read(void *state, struct gauge_batch *batch)
{
	struct cpu *cpu = state;

	rewind(cpu->stat);
	if (fflush(cpu->stat) != 0)
		return -errno;
	while (fgets(cpu->line, sizeof(cpu->line), cpu->stat)) {
		unsigned long long user, nice_ticks, system, idle, iowait, irq, softirq, steal;
		char name[16];

		if (sscanf(cpu->line, "%15s %llu %llu %llu %llu %llu %llu %llu %llu", name, &user, &nice_ticks, &system,
			    &idle, &iowait, &irq, &softirq, &steal) != 9 ||
			strncmp(name, "cpu", 3) != 0)
			break;
		if (!name[3]) /* the sum of all */
			continue;
		gauge_sample(batch, &cpu_gauges[CPU_BUSY], name, (double)(user + nice_ticks + system + irq + softirq));
		gauge_sample(batch, &cpu_gauges[CPU_STEAL], name, (double)steal);
		gauge_sample(batch, &cpu_gauges[CPU_IRQ], name, (double)irq);
		gauge_sample(batch, &cpu_gauges[CPU_SOFTIRQ], name, (double)softirq);
		gauge_sample(batch, &cpu_gauges[CPU_IOWAIT], name, (double)iowait);
	}
	return 0;
}

static void gauge_cpu_close(void *state)
{
	struct cpu *cpu = state;

	fclose(cpu->stat);
	free(cpu);
}

const struct gauge_source gauge_source_cpu = {
	.name = "cpu",
	.summary = "time of each CPU",
	.gauges = cpu_gauges,
	.rows_per_second = 8,
	.open = gauge_cpu_open,
	.group = {{.name = "cpu", .read = gauge_cpu_read}},
	.close = gauge_cpu_close,
};
