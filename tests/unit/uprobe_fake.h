/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs of uprobes over a kernel that attaches and detaches when the test lets it: uprobe_job.c with other system
 * calls. A target's file is its name; fake_log has what the kernel did, in order: "+1" attached file 1, "-1" detached
 * it.
 */
#ifndef RANKTRACE_TESTS_UPROBE_FAKE_H
#define RANKTRACE_TESTS_UPROBE_FAKE_H

#define uprobe_attach fake_attach
#define uprobe_detach fake_detach
#include "daemon/kernel/uprobe_job.c" /* NOLINT */

#define FAKE_REFUSED 77 /* a file that cannot be probed */

struct uprobe_link {
	uint64_t file;
};

static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
static bool fake_holds;	    /* the kernel finishes nothing */
static unsigned fake_begun; /* orders that it has begun */
static char fake_log[256];

static void fake_do(char what, uint64_t file)
{
	size_t used;

	pthread_mutex_lock(&fake_lock);
	fake_begun++;
	pthread_cond_broadcast(&fake_changed);
	while (fake_holds)
		pthread_cond_wait(&fake_changed, &fake_lock);
	used = strlen(fake_log);
	snprintf(fake_log + used, sizeof(fake_log) - used, "%c%lu ", what, (unsigned long)file);
	pthread_mutex_unlock(&fake_lock);
}

int fake_attach(const struct uprobe_target *target, struct uprobe_link **ret)
{
	fake_do('+', target->file);
	if (target->file == FAKE_REFUSED)
		return -EINVAL;
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	(*ret)->file = target->file;
	return 0;
}

void fake_detach(struct uprobe_link *link)
{
	if (link)
		fake_do('-', link->file);
	free(link);
}

static inline void fake_hold(bool holds)
{
	pthread_mutex_lock(&fake_lock);
	fake_holds = holds;
	fake_begun = 0;
	if (holds)
		fake_log[0] = 0;
	pthread_cond_broadcast(&fake_changed);
	pthread_mutex_unlock(&fake_lock);
}

/* Until the kernel, which is held, is at work on an order. */
static inline void fake_await(void)
{
	pthread_mutex_lock(&fake_lock);
	while (fake_begun == 0)
		pthread_cond_wait(&fake_changed, &fake_lock);
	pthread_mutex_unlock(&fake_lock);
}

#endif
