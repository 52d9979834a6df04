/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs that are programs: libexec/ranktrace/VERB, run in place of tracectl with the rest of the arguments as they
 * stand. They read the store; where it is stands in RANKTRACE_STATE_DIR, from --state-dir, from the environment, or
 * from the daemon; where the installed daemon is down, it is where that one keeps it.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>
#include "ctl/client.h"

/* Beside the installed place, a build tree's own: tracectl runs from there with nothing installed. */
static const char *folder(void)
{
	static char near[PATH_MAX];
	const char *set = getenv("RANKTRACE_LIBEXEC");
	char self[PATH_MAX / 2];
	ssize_t n;

	if (set && *set)
		return set;
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = 0;
	if (strrchr(self, '/')) {
		*strrchr(self, '/') = 0;
		snprintf(near, sizeof(near), "%s/../libexec/ranktrace", self);
		if (access(near, X_OK) == 0)
			return near;
	}
	return RANKTRACE_LIBEXECDIR;
}

static bool program_path(const char *verb, char path[PATH_MAX])
{
	struct stat st;

	/* A verb is a name, never a way to somewhere else. */
	if (!*verb || *verb == '.' || strchr(verb, '/'))
		return false;
	if (snprintf(path, PATH_MAX, "%s/%s", folder(), verb) >= PATH_MAX)
		return false;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool external_exists(const char *verb)
{
	char path[PATH_MAX];

	return program_path(verb, path);
}

void external_list(FILE *f)
{
	struct dirent **entry = NULL;
	int count = scandir(folder(), &entry, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		const char *name = entry[i]->d_name, *help = program_help(name);

		if (external_exists(name))
			fprintf(f, "  %-10s %s%s\n", name, help ? help : "a program of its own: tracectl help ",
				help ? "" : name);
		free(entry[i]);
	}
	free(entry);
}

static int state_dir_from_daemon(const struct options *options)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__Response *response = NULL;
	bool usual;
	int code;

	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_WHERE;
	code = client_ask_quietly(options, &request, &response);
	usual = strcmp(options->socket, RANKTRACE_SOCKET) == 0;
	errno = 0;
	if (code == EXIT_UNREACHABLE && usual && access(RANKTRACE_STATEDIR "/db", R_OK | X_OK) == 0) {
		fprintf(stderr, "tracectl: no daemon answers; this is what is stored in %s\n", RANKTRACE_STATEDIR);
		return setenv("RANKTRACE_STATE_DIR", RANKTRACE_STATEDIR, 1) < 0 ? fail(EXIT_REFUSED, "out of memory")
										: EXIT_DONE;
	}
	if (code == EXIT_UNREACHABLE && usual && errno == EACCES)
		return fail(EXIT_REFUSED,
			"no daemon answers, and only root and members of group ranktrace may read the store in %s",
			RANKTRACE_STATEDIR);
	if (code == EXIT_UNREACHABLE)
		return fail(code, "no daemon answers on %s to say where the store is; --state-dir D says it instead",
			options->socket);
	if (code == EXIT_DONE && response->body_case != RANKTRACE__RESPONSE__BODY_WHERE)
		code = fail(EXIT_REFUSED, "the daemon answered something else than was asked");
	if (code == EXIT_DONE && setenv("RANKTRACE_STATE_DIR", response->where->state_dir, 1) < 0)
		code = fail(EXIT_REFUSED, "out of memory");
	client_free(response);
	return code;
}

/* Options of programs with which they read something else than this node's store, or nothing. */
static bool reads_elsewhere(int argc, char **argv)
{
	static const char *const elsewhere[] = {"--dir", "--from-systrace", "--help", "-h", "--version", "--tables"};

	for (int i = 0; i < argc; i++)
		for (size_t j = 0; j < ARRAY_SIZE(elsewhere); j++) {
			size_t length = strlen(elsewhere[j]);

			if (strncmp(argv[i], elsewhere[j], length) == 0 &&
				(argv[i][length] == 0 || argv[i][length] == '='))
				return true;
		}
	return false;
}

/* Our own programs know long options only, and -h is one of every verb. What follows "--" is no option. */
static void long_help(char **args)
{
	for (; *args && strcmp(*args, "--") != 0; args++)
		if (strcmp(*args, "-h") == 0)
			*args = (char *)"--help";
}

int external_run(const struct options *options, const char *verb, int argc, char **argv)
{
	const char *known = getenv("RANKTRACE_STATE_DIR");
	char path[PATH_MAX], **args;
	int code = EXIT_DONE;

	if (!program_path(verb, path))
		return fail(EXIT_USAGE, "unknown verb '%s'; tracectl help shows what there is", verb);
	args = calloc((size_t)argc + 2, sizeof(*args));
	if (!args)
		return fail(EXIT_REFUSED, "out of memory");
	args[0] = path;
	memcpy(args + 1, argv, (size_t)argc * sizeof(*args));
	if (program_help(verb))
		long_help(args + 1);
	if (options->state_dir)
		code = setenv("RANKTRACE_STATE_DIR", options->state_dir, 1) < 0 ? fail(EXIT_REFUSED, "out of memory")
										: EXIT_DONE;
	else if ((!known || !*known) && !reads_elsewhere(argc, argv))
		code = state_dir_from_daemon(options);
	if (code == EXIT_DONE) {
		execv(path, args);
		code = fail(EXIT_REFUSED, "cannot run %s: %s", path, strerror(errno));
	}
	free(args);
	return code;
}
