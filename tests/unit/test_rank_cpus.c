/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs that a rank may use, and those near its card. */
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/ranks/ranks_internal.h"

#include "tests/test.h"

#define CARD "0000:3b:00.0"

static char devices[64];

static void put_list(const char *list)
{
	char path[128];
	FILE *f;

	snprintf(devices, sizeof(devices), "/tmp/ranktrace-cpus-%d", (int)getpid());
	(void)mkdir(devices, 0700);
	snprintf(path, sizeof(path), "%s/" CARD, devices);
	(void)mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/" CARD "/local_cpulist", devices);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(list, f);
	fclose(f);
}

static void remove_list(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/" CARD "/local_cpulist", devices);
	(void)unlink(path);
	snprintf(path, sizeof(path), "%s/" CARD, devices);
	(void)rmdir(path);
	(void)rmdir(devices);
}

static struct rank_cpus cpus_of(const char *list, uint32_t pid, const char *pci)
{
	struct rank_cpus ret;

	put_list(list);
	rank_cpus_read(devices, pid, pci, &ret);
	remove_list();
	return ret;
}

static void assert_list(const char *list, int error, int count)
{
	cpu_set_t set;

	assert_int_equal(rank_cpus_parse(list, &set), error);
	if (!error)
		assert_int_equal(CPU_COUNT(&set), count);
}

TEST(lists_of_cpus)
{
	cpu_set_t set;

	assert_list("0-3,8\n", 0, 5);
	assert_list("0\n", 0, 1);
	assert_list("\n", 0, 0);
	assert_list("", 0, 0);
	assert_list("1023", 0, 1);
	assert_list("0-1024", -ERANGE, 0);
	assert_list("99999999999999999999999", -ERANGE, 0);
	assert_list("3-1", -ERANGE, 0);
	assert_list("1,x", -EINVAL, 0);
	assert_list("-1", -EINVAL, 0);
	assert_int_equal(rank_cpus_parse("2,4-5\n", &set), 0);
	assert_true(CPU_ISSET(2, &set) && !CPU_ISSET(3, &set) && CPU_ISSET(4, &set) && CPU_ISSET(5, &set));
}

TEST(far_is_what_is_known_to_be)
{
	uint32_t own = (uint32_t)getpid();
	struct rank_cpus cpus;
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	cpus = cpus_of("0-1023\n", own, CARD);
	assert_int_equal(cpus.usable, CPU_COUNT(&set));
	assert_true(cpus.near_known && cpus.near == cpus.usable && !rank_cpus_are_far(&cpus));
	cpus = cpus_of("1023\n", own, CARD);
	assert_true(rank_cpus_are_far(&cpus));
	/* A list that is empty or torn, no card, another one, a name that leads elsewhere; a process that is gone. */
	cpus = cpus_of("\n", own, CARD);
	assert_true(!cpus.near_known && cpus.usable);
	cpus = cpus_of("1,,\n", own, CARD);
	assert_false(cpus.near_known);
	cpus = cpus_of("1023\n", own, "");
	assert_false(cpus.near_known);
	cpus = cpus_of("1023\n", own, "0000:3c:00.0");
	assert_false(cpus.near_known);
	cpus = cpus_of("1023\n", own, "./" CARD);
	assert_false(cpus.near_known);
	cpus = cpus_of("1023\n", 0x7ffffff0, CARD);
	assert_true(!cpus.usable && !cpus.near_known);
}

TEST_MAIN(NULL, NULL)
