/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launchers by name, as one table. Only the program itself counts (argv[0], or the script or module that an interpreter
 * runs), never a word further on: a training script may well have an argument called "torchrun".
 */
#include "daemon/rank_command.h"

#include "daemon/procfs.h"

#define ARGS_MAX 16

static const struct {
	const char *name; /* of the program, script or module */
	const char *verb; /* its first argument must be this, if not NULL */
} launchers[] = {
	{"torchrun", NULL},
	{"torch.distributed.run", NULL},
	{"torch.distributed.launch", NULL},
	{"accelerate", "launch"},
	{"accelerate.commands.accelerate_cli", "launch"},
	{"accelerate.commands.launch", NULL},
	{"deepspeed", NULL},
	{"deepspeed.launcher.runner", NULL},
	{"deepspeed.launcher.launch", NULL},
	{"horovodrun", NULL},
	{"mpirun", NULL},
	{"mpiexec", NULL},
	{"mpiexec.hydra", NULL},
	{"orterun", NULL},
	{"prterun", NULL},
	{"srun", NULL},
	{"msrun", NULL},
};

/* Options of the Python interpreter that take the next word as their value. */
static const char *const valued_options[] = {"-W", "-X", "--check-hash-based-pycs"};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool rank_command_is_interpreter(const char *exe)
{
	const char *name = base_name(exe);

	return strncmp(name, "python", 6) == 0 || strncmp(name, "pypy", 4) == 0;
}

static unsigned rank_command_split(const char *block, size_t size_bytes, const char **args)
{
	unsigned count = 0;
	size_t at = 0;

	while (at < size_bytes && count < ARGS_MAX) {
		size_t length = strnlen(block + at, size_bytes - at);

		/* The block's last word may lack its end where it was cut. */
		if (at + length == size_bytes)
			break;
		args[count++] = block + at;
		at += length + 1;
	}
	return count;
}

/* Index of the script or module that an interpreter runs; count if there is none. */
static unsigned find_script(const char **args, unsigned count)
{
	unsigned i = 1;

	for (; i < count && args[i][0] == '-'; i++) {
		if (streq(args[i], "-m"))
			return i + 1 < count ? i + 1 : count;
		if (streq(args[i], "-c") || streq(args[i], "-"))
			return count;
		for (size_t k = 0; k < ARRAY_SIZE(valued_options); k++)
			if (streq(args[i], valued_options[k])) {
				i++;
				break;
			}
	}
	return i < count ? i : count;
}

bool rank_command_is_launcher(const char *block, size_t size_bytes)
{
	const char *args[ARGS_MAX];
	unsigned count = rank_command_split(block, size_bytes, args), program = 0;

	if (count == 0)
		return false;
	if (rank_command_is_interpreter(args[0]))
		program = find_script(args, count);
	if (program >= count)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(launchers); i++) {
		if (!streq(base_name(args[program]), launchers[i].name))
			continue;
		if (!launchers[i].verb || (program + 1 < count && streq(args[program + 1], launchers[i].verb)))
			return true;
	}
	return false;
}

void rank_command_join(const char *block, size_t size_bytes, char *ret, size_t size)
{
	size_t n;

	/* The block ends in a NUL, which is no blank. */
	while (size_bytes > 0 && block[size_bytes - 1] == 0)
		size_bytes--;
	n = size_bytes < size ? size_bytes : size - 1;
	for (size_t i = 0; i < n; i++)
		ret[i] = block[i] ? block[i] : ' ';
	ret[n] = 0;
	procfs_printable(ret);
}
