/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of /proc/PID/{stat,exe,cmdline,environ,cgroup,maps,task}. The traced process controls their content: every
 * read is bounded, every number checked.
 */
#include "daemon/base/procfs.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>

#include "analyzers/base/proc_maps.h"

#define STAT_BYTES_MAX 2048
/* The user is within the first 600 bytes; memory follows the groups, some hundred of which fit */
#define STATUS_BYTES_MAX 4096
#define CHILDREN_BYTES_MAX (64u << 10)
#define VMSTAT_BYTES_MAX (16u << 10) /* some 180 lines of 30 bytes */

/* File names (without folder) that identify a process's kind. */
static const struct {
	const char *pattern;
	enum procfs_library library;
} libraries[] = {
	{"libtorch*.so*", PROCFS_LIBRARY_TRAINING},
	{"libmindspore*.so*", PROCFS_LIBRARY_TRAINING},
	{"libnccl.so*", PROCFS_LIBRARY_TRAINING},
	{"librccl.so*", PROCFS_LIBRARY_TRAINING},
	{"libhccl*.so*", PROCFS_LIBRARY_TRAINING},
	{"libc10.so*", PROCFS_LIBRARY_COMPANION},
	{"libascendcl.so*", PROCFS_LIBRARY_COMPANION},
	{"libpython*.so*", PROCFS_LIBRARY_PYTHON},
};

void procfs_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

static int procfs_open_file(const char *root, uint32_t pid, const char *name)
{
	char path[PATH_MAX];
	int fd, n = snprintf(path, sizeof(path), "%s/%u/%s", root, pid, name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

/* Reads to the end or to size; returns the bytes read. */
static ssize_t read_up_to(int fd, char *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = read(fd, buffer + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/*
 * The first bytes of a file that the kernel writes in one piece, terminated: one read. *fd: open since a call before, or
 * -1. Negative errno, with *fd closed; -ESRCH also if there is nothing to read.
 */
static int procfs_read_again(const char *root, uint32_t pid, const char *name, int *fd, char *ret, size_t size)
{
	_cleanup_close_ int file = *fd >= 0 ? TAKE_FD(*fd) : procfs_open_file(root, pid, name);
	ssize_t n;

	if (file < 0)
		return TAKE_FD(file);
	n = pread(file, ret, size - 1, 0);
	if (n <= 0)
		return n < 0 ? -errno : -ESRCH;
	ret[n] = 0;
	if (file < PROCFS_FILES_KEPT)
		*fd = TAKE_FD(file);
	return 0;
}

/* The file's first bytes, terminated. 0 or negative errno. */
static int procfs_read_text(const char *root, uint32_t pid, const char *name, char *ret, size_t size)
{
	_cleanup_close_ int fd = procfs_open_file(root, pid, name);
	ssize_t n = fd < 0 ? fd : read_up_to(fd, ret, size - 1);

	if (n < 0)
		return (int)n;
	ret[n] = 0;
	return 0;
}

/* The file's first max bytes in a new buffer, terminated. */
static int procfs_read_file(
	const char *root, uint32_t pid, const char *name, size_t max, char **ret, size_t *ret_size_bytes, bool *ret_cut)
{
	_cleanup_close_ int fd = procfs_open_file(root, pid, name);
	_cleanup_free_ char *buffer = NULL;
	size_t size = 0, capacity = 0;
	bool cut = false;

	if (fd < 0)
		return fd;
	for (;;) {
		size_t wanted = capacity ? capacity * 4 : 4096;
		char *bigger;
		ssize_t n;

		/* One byte above the limit distinguishes "fits" from "truncated". */
		capacity = wanted > max + 1 ? max + 1 : wanted;
		bigger = realloc(buffer, capacity + 1);
		if (!bigger)
			return -ENOMEM;
		buffer = bigger;
		n = read_up_to(fd, buffer + size, capacity - size);
		if (n < 0)
			return (int)n;
		size += (size_t)n;
		if (size < capacity)
			break;
		if (capacity == max + 1) {
			cut = true;
			size = max;
			break;
		}
	}
	buffer[size] = 0;
	*ret = TAKE_PTR(buffer);
	*ret_size_bytes = size;
	*ret_cut = cut;
	return 0;
}

static uint64_t ns_per_tick(void)
{
	long hz = sysconf(_SC_CLK_TCK);

	return NSEC_PER_SEC / (uint64_t)(hz > 0 ? hz : 100);
}

int procfs_stat(const char *root, uint32_t pid, struct procfs_stat *ret)
{
	unsigned long long start, faults, user, system, pages = 0;
	char text[STAT_BYTES_MAX];
	unsigned parent;
	const char *p;
	char state;
	int n, r;

	r = procfs_read_text(root, pid, "stat", text, sizeof(text));
	if (r < 0)
		return r;
	/* The name may hold blanks and parentheses; the rest may not. */
	p = strrchr(text, ')');
	if (!p)
		return -EBADMSG;
	n = sscanf(p + 1, " %c %u %*d %*d %*d %*d %*u %*u %*u %llu %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu %*u %llu",
		&state, &parent, &faults, &user, &system, &start, &pages);
	if (n < 6 || start > UINT64_MAX / ns_per_tick() || user > UINT64_MAX / 2 / ns_per_tick() ||
		system > UINT64_MAX / 2 / ns_per_tick())
		return -EBADMSG;
	ret->state = state;
	ret->parent_pid = parent;
	ret->start_time_ns = start * ns_per_tick();
	ret->cpu_ns = (user + system) * ns_per_tick();
	ret->major_faults = faults;
	ret->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

#define KTHREADD_PID 2 /* and parent of the kernel's other threads, in the initial namespace */

/* Of a line "WORD   NUMBER kB"; UINT64_MAX: there is none. */
static uint64_t procfs_status_bytes(const char *text, const char *word)
{
	const char *line = strstr(text, word);
	unsigned long long kib;

	return line && sscanf(line + strlen(word), "%llu kB", &kib) == 1 && kib < UINT64_MAX / 1024 ? kib * 1024
												    : UINT64_MAX;
}

/* The kernel escapes line breaks in the name, the only text of the file that the process chooses. */
static int procfs_parse_status(const char *text, uint32_t pid, struct procfs_status *ret)
{
	const char *line = strstr(text, "\nUid:\t");
	struct procfs_status status = {0};
	unsigned value;

	if (!line || sscanf(line, "\nUid:\t%u", &value) != 1)
		return -EBADMSG;
	status.uid = value;
	line = strstr(text, "\nState:\t");
	status.state = line ? line[sizeof("\nState:\t") - 1] : 0;
	line = strstr(text, "\nPPid:\t");
	if (line && sscanf(line, "\nPPid:\t%u", &value) == 1)
		status.parent_pid = value;
	status.resident_bytes = procfs_status_bytes(text, "\nVmRSS:");
	status.swapped_bytes = procfs_status_bytes(text, "\nVmSwap:");
	status.is_kernel = (pid == KTHREADD_PID || status.parent_pid == KTHREADD_PID) && !strstr(text, "\nVmSize:");
	*ret = status;
	return 0;
}

int procfs_status_again(const char *root, uint32_t pid, int *fd, struct procfs_status *ret)
{
	char text[STATUS_BYTES_MAX];
	int r = procfs_read_again(root, pid, "status", fd, text, sizeof(text));

	return r < 0 ? r : procfs_parse_status(text, pid, ret);
}

int procfs_status(const char *root, uint32_t pid, struct procfs_status *ret)
{
	_cleanup_close_ int fd = procfs_open_file(root, pid, "status");
	char text[STATUS_BYTES_MAX];
	struct procfs_status status;
	struct stat file;
	ssize_t n = fd < 0 ? fd : read_up_to(fd, text, sizeof(text) - 1);
	int r;

	if (n < 0)
		return (int)n;
	text[n] = 0;
	r = procfs_parse_status(text, pid, &status);
	if (r < 0)
		return r;
	if (fstat(fd, &file) < 0)
		return -errno;
	status.inode = (uint64_t)file.st_ino;
	*ret = status;
	return 0;
}

int procfs_cpu_time(uint32_t pid, uint64_t *ret_ns)
{
	struct timespec cpu;
	clockid_t clock;
	int error = clock_getcpuclockid((pid_t)pid, &clock);

	if (error)
		return -error;
	if (clock_gettime(clock, &cpu) < 0)
		return -errno;
	*ret_ns = (uint64_t)cpu.tv_sec * NSEC_PER_SEC + (uint64_t)cpu.tv_nsec;
	return 0;
}

uint64_t procfs_own_resident(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages;

	return f && fscanf(f, "%*u %lu", &pages) == 1 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static int procfs_parse_schedstat(const char *text, uint64_t *ret_run_ns, uint64_t *ret_delay_ns)
{
	char *space, *end;
	uint64_t run_ns = strtoull(text, &space, 10), delay_ns = strtoull(space, &end, 10);

	if (space == text || end == space)
		return -EBADMSG;
	*ret_run_ns = run_ns;
	*ret_delay_ns = delay_ns;
	return 0;
}

int procfs_schedstat_again(
	const char *root, uint32_t pid, uint32_t thread_id, int *fd, uint64_t *ret_run_ns, uint64_t *ret_delay_ns)
{
	char name[64], text[128];
	int r;

	snprintf(name, sizeof(name), "task/%u/schedstat", thread_id);
	r = procfs_read_again(root, pid, name, fd, text, sizeof(text));
	return r < 0 ? r : procfs_parse_schedstat(text, ret_run_ns, ret_delay_ns);
}

int procfs_schedstat_of(int fd, uint64_t *ret_run_ns, uint64_t *ret_delay_ns)
{
	char text[128];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return -errno;
	text[n] = 0;
	return procfs_parse_schedstat(text, ret_run_ns, ret_delay_ns);
}

int procfs_wait_channel(const char *root, uint32_t pid, uint32_t thread_id, char *ret, size_t size)
{
	char name[64];
	int r;

	snprintf(name, sizeof(name), "task/%u/wchan", thread_id);
	r = procfs_read_text(root, pid, name, ret, size);
	if (r < 0)
		return r;
	procfs_printable(ret);
	return !ret[0] || streq(ret, "0") ? -ENODATA : 0;
}

int procfs_exe(const char *root, uint32_t pid, char *ret, size_t size)
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t n = snprintf(path, sizeof(path), "%s/%u/exe", root, pid);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	target[n] = 0;
	procfs_printable(target);
	(void)copy_text(ret, size, target);
	return 0;
}

int procfs_command(const char *root, uint32_t pid, char **ret, size_t *ret_size_bytes)
{
	bool cut;

	return procfs_read_file(root, pid, "cmdline", PROCFS_COMMAND_BYTES_MAX, ret, ret_size_bytes, &cut);
}

int procfs_environ(const char *root, uint32_t pid, char **ret, size_t *ret_size_bytes, bool *ret_cut)
{
	return procfs_read_file(root, pid, "environ", PROCFS_ENVIRON_BYTES_MAX, ret, ret_size_bytes, ret_cut);
}

int procfs_cgroup(const char *root, uint32_t pid, char **ret)
{
	_cleanup_close_ int fd = -1;

	return procfs_cgroup_again(root, pid, &fd, ret);
}

int procfs_cgroup_again(const char *root, uint32_t pid, int *fd, char **ret)
{
	_cleanup_free_ char *text = malloc(PROCFS_CGROUP_BYTES_MAX + 1);
	int r;

	if (!text)
		return -ENOMEM;
	r = procfs_read_again(root, pid, "cgroup", fd, text, PROCFS_CGROUP_BYTES_MAX + 1);
	if (r == 0)
		*ret = TAKE_PTR(text);
	return r;
}

int procfs_major_faults_again(const char *root, int *fd, uint64_t *ret)
{
	static const char key[] = "\npgmajfault ";
	char path[PATH_MAX], text[VMSTAT_BYTES_MAX];
	const char *line;
	ssize_t n;

	if (*fd < 0) {
		snprintf(path, sizeof(path), "%s/vmstat", root);
		*fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (*fd < 0)
		return -errno;
	n = lseek(*fd, 0, SEEK_SET) < 0 ? -errno : read_up_to(*fd, text, sizeof(text) - 1);
	if (n < 0)
		return (int)n;
	text[n] = 0;
	line = strstr(text, key);
	return line && sscanf(line + sizeof(key) - 1, "%" SCNu64, ret) == 1 ? 0 : -EBADMSG;
}

/* A replaced library is still mapped. */
static bool procfs_on_map(void *arg, const struct proc_map *map)
{
	const char *name = strrchr(map->path, '/');
	uint32_t *found = arg;

	if (!name || strncmp(name, "/lib", 4) != 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++) {
		if (fnmatch(libraries[i].pattern, name + 1, 0) != 0)
			continue;
		*found |= libraries[i].library;
		break;
	}
	return !(*found & PROCFS_LIBRARY_TRAINING);
}

int procfs_libraries(const char *root, uint32_t pid, uint32_t *ret)
{
	uint32_t found = 0;
	int r = proc_maps_each(root, pid, procfs_on_map, &found);

	if (r < 0 && r != -EFBIG)
		return r;
	*ret = found;
	return 0;
}

static bool parse_pid(const char *text, uint32_t *ret)
{
	unsigned long value;
	char *end;

	if (*text < '1' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || value > INT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

int procfs_each(const char *root, bool (*callback)(void *arg, uint32_t pid), void *arg)
{
	_cleanup_closedir_ DIR *folder = opendir(root);
	struct dirent *entry;
	uint32_t pid;

	if (!folder)
		return -errno;
	while ((entry = readdir(folder)))
		if (parse_pid(entry->d_name, &pid) && !callback(arg, pid))
			break;
	return 0;
}

static void children_of_thread(
	const char *root, uint32_t pid, uint32_t thread_id, void (*callback)(void *arg, uint32_t pid), void *arg)
{
	_cleanup_free_ char *text = NULL;
	char name[64], *save = NULL;
	size_t size;
	bool cut;

	snprintf(name, sizeof(name), "task/%u/children", thread_id);
	if (procfs_read_file(root, pid, name, CHILDREN_BYTES_MAX, &text, &size, &cut) < 0)
		return;
	for (char *word = strtok_r(text, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
		uint32_t child;

		/* A truncated list may end in a partial number: at worst one useless check. */
		if (parse_pid(word, &child))
			callback(arg, child);
	}
}

int procfs_children(const char *root, uint32_t pid, unsigned threads, uint32_t *cursor,
	void (*callback)(void *arg, uint32_t pid), void *arg)
{
	_cleanup_closedir_ DIR *folder = NULL;
	char path[PATH_MAX];
	struct dirent *entry;
	uint32_t thread_id, last = 0;
	int n = snprintf(path, sizeof(path), "%s/%u/task", root, pid);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	children_of_thread(root, pid, pid, callback, arg);
	folder = opendir(path);
	if (!folder)
		return -errno;
	while (threads > 0 && (entry = readdir(folder))) {
		if (!parse_pid(entry->d_name, &thread_id) || thread_id == pid || thread_id <= *cursor)
			continue;
		children_of_thread(root, pid, thread_id, callback, arg);
		last = thread_id;
		threads--;
	}
	*cursor = threads == 0 ? last : 0;
	return 0;
}
