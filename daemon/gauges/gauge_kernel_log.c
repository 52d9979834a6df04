/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel and its drivers say of cards, links, memory and disks: /dev/kmsg from the daemon's start on. Only the
 * kernel's own records: others may write there, too. A kind is a row.
 */
#include <fcntl.h>

#include "daemon/gauges/gauge.h"

#define RECORD_BYTES 8192 /* the kernel gives no longer ones */
#define RECORDS_MAX 1000  /* read a second; the others next time */

/*
 * In order, the first that fits counts. part: where it begins (begins: the message begins with it). after: what the
 * number follows, "": none. object: what the object follows, "": none; it ends before `ends`. pci: no message without a
 * PCI address there: programs' names are in messages of the kernel, too, and they can be anything.
 */
static const struct kernel_word {
	const char *kind, *part;
	bool begins, pci;
	const char *after, *object, *ends;
} words[] = {
	{"oom_kill", "Memory cgroup out of memory", true, false, "process ", "(", ")"},
	{"oom_kill", "Out of memory: Killed", true, false, "process ", "(", ")"},
	{"oom_group", " are going to be killed due to memory.oom.group set", false, false, "", "Tasks in ",
		" are going"},
	{"hung_task", "INFO: task ", true, false, "", "task ", " blocked"},
	{"soft_lockup", "watchdog: BUG: soft lockup", true, false, "CPU#", "", ""},
	{"xid", "NVRM: Xid (PCI:", true, true, "): ", "(PCI:", ")"},
	{"card_lost", "NVRM: GPU at ", true, true, "", "GPU at ", " has fallen off the bus"},
	{"card_lost", "NVRM: GPU ", true, true, "", "NVRM: GPU ", ": GPU has fallen off the bus"},
	{"card_driver", "NVRM: ", true, false, "", "", ""},
	{"card_driver", "nvidia-nvswitch", true, false, "", "", ""},
	{"card_driver", "davinci", true, false, "", "", ""},
	{"pcie_error", "pcieport ", true, true, "", "pcieport ", ": "},
	{"machine_check", "mce: ", true, false, "", "", ""},
	{"machine_check", "EDAC ", true, false, "", "", ""},
	{"network_driver", "mlx5_core ", true, true, "", "mlx5_core ", " "},
	{"disk_error", "I/O error, dev ", false, false, "", "dev ", ","},
	{"link", "Link is Down", false, false, "", "", ""},
	{"link", "Link is Up", false, false, "", "", ""},
	{"link", "link down", false, false, "", "", ""},
	{"link", "link up", false, false, "", "", ""},
};

#define OOM_LIMIT "oom-kill:constraint="

/* What had no memory left, by what follows OOM_LIMIT. NULL: a control group. */
static const struct {
	const char *constraint, *object;
} oom_limits[] = {
	{"CONSTRAINT_NONE,", "node"},
	{"CONSTRAINT_CPUSET,", "cpuset"},
	{"CONSTRAINT_MEMORY_POLICY,", "memory policy"},
	{"CONSTRAINT_MEMCG,", NULL},
};

struct kernel_log {
	int fd;
};

static const struct gauge kernel_log_gauges[] = {{0}};

static int gauge_kernel_log_open(const struct gauge_roots *roots, void **ret, char *why, size_t why_size)
{
	_cleanup_close_ int fd = open(roots->kernel_log, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct kernel_log *log;

	if (fd < 0) {
		int r = -errno;

		snprintf(why, why_size, "cannot read %s: %s; Xid errors and messages of drivers are not seen",
			roots->kernel_log, strerror(-r));
		return r == -ENOENT ? -EACCES : r;
	}
	(void)lseek(fd, 0, SEEK_END);
	log = calloc(1, sizeof(*log));
	if (!log)
		return -ENOMEM;
	log->fd = TAKE_FD(fd);
	*ret = log;
	return 0;
}

static void gauge_kernel_log_object(const struct kernel_word *word, const char *text, char *ret, size_t size)
{
	const char *begin = word->object[0] ? strstr(text, word->object) : NULL, *end;

	ret[0] = 0;
	begin = begin ? begin + strlen(word->object) : NULL;
	end = begin ? strstr(begin, word->ends) : NULL;
	if (end && (size_t)(end - begin) < size)
		snprintf(ret, size, "%.*s", (int)(end - begin), begin);
}

static bool gauge_kernel_log_fits(const struct kernel_word *word, const char *text, char *ret_object, size_t size)
{
	const char *part = strstr(text, word->part);

	if (!part || (word->begins && part != text))
		return false;
	gauge_kernel_log_object(word, text, ret_object, size);
	return !word->pci || (ret_object[0] && strspn(ret_object, "0123456789abcdefABCDEF:.") == strlen(ret_object));
}

/* The path; of one that is too long, its last name. */
static void gauge_kernel_log_control_group(const char *text, char *ret, size_t size)
{
	const char *begin = strstr(text, ",oom_memcg="), *end = begin ? strstr(begin, ",task_memcg=") : NULL, *name;

	ret[0] = 0;
	if (!end)
		return;
	begin += strlen(",oom_memcg=");
	name = memrchr(begin, '/', (size_t)(end - begin));
	if (name && (size_t)(end - begin) >= size)
		snprintf(ret, size, "...%.*s", (int)(end - name), name);
	else
		snprintf(ret, size, "%.*s", (int)(end - begin), begin);
}

/* The last: names before it can be anything. 0: the message is cut before it. */
static long gauge_kernel_log_victim(const char *text)
{
	const char *number = NULL;
	char *end;
	long pid;

	for (const char *at = text; (at = strstr(at, ",pid=")); number = at)
		at += strlen(",pid=");
	if (!number)
		return 0;
	pid = strtol(number, &end, 10);
	return strncmp(end, ",uid=", strlen(",uid=")) == 0 ? pid : 0;
}

/*
 * What the kernel says before a kill, since Linux 5.0: "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,
 * mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=python,pid=4712,uid=0".
 */
static void gauge_kernel_log_oom_limit(struct gauge_batch *batch, const char *text)
{
	const char *constraint = text + strlen(OOM_LIMIT);
	char object[GAUGE_OBJECT_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(oom_limits); i++) {
		if (strncmp(constraint, oom_limits[i].constraint, strlen(oom_limits[i].constraint)) != 0)
			continue;
		if (oom_limits[i].object)
			snprintf(object, sizeof(object), "%s", oom_limits[i].object);
		else
			gauge_kernel_log_control_group(text, object, sizeof(object));
		gauge_message(batch, "oom_limit", false, object, gauge_kernel_log_victim(text), text);
		return;
	}
}

/* A record is "PRIORITY,SEQUENCE,TIME,...;TEXT", then lines of its own that begin with a blank. */
static void gauge_kernel_log_record(struct gauge_batch *batch, char *record)
{
	unsigned long priority = strtoul(record, NULL, 10);
	char *text = strchr(record, ';'), object[GAUGE_OBJECT_BYTES];

	if (!text || priority >= 8) /* facility 0 is the kernel's */
		return;
	text++;
	text[strcspn(text, "\n")] = 0;
	if (strncmp(text, OOM_LIMIT, strlen(OOM_LIMIT)) == 0)
		gauge_kernel_log_oom_limit(batch, text);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const char *number;

		if (!gauge_kernel_log_fits(&words[i], text, object, sizeof(object)))
			continue;
		number = words[i].after[0] ? strstr(text, words[i].after) : NULL;
		gauge_message(batch, words[i].kind, words[i].pci, object,
			number ? strtol(number + strlen(words[i].after), NULL, 10) : 0, text);
		return;
	}
}

static int gauge_kernel_log_read(void *state, struct gauge_batch *batch)
{
	struct kernel_log *log = state;
	char record[RECORD_BYTES + 1];

	for (unsigned i = 0; i < RECORDS_MAX; i++) {
		ssize_t n = read(log->fd, record, RECORD_BYTES);

		/* EPIPE: the kernel has overwritten records; the next read goes on with the oldest. */
		if (n < 0 && (errno == EPIPE || errno == EINTR))
			continue;
		if (n <= 0)
			return n < 0 && errno != EAGAIN ? -errno : 0;
		record[n] = 0;
		gauge_kernel_log_record(batch, record);
	}
	return 0;
}

static void gauge_kernel_log_close(void *state)
{
	struct kernel_log *log = state;

	close(log->fd);
	free(log);
}

const struct gauge_source gauge_source_kernel_log = {
	.name = "kernel_log",
	.summary = "the kernel's messages of cards, links, memory and disks",
	.gauges = kernel_log_gauges,
	.rows_per_second = 0,
	.open = gauge_kernel_log_open,
	.group = {{.name = "kernel_log",
		.read = gauge_kernel_log_read,
		.is_urgent = true}}, /* the kernel overwrites what waits */
	.close = gauge_kernel_log_close,
};
