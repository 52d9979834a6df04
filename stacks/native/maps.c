/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of a process and the files behind them. A file is opened by its path below the process's root and refused
 * unless it is the one that is mapped; where that fails, by its entry in map_files, which needs more rights and works
 * for files that were removed, too.
 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "analyzers/base/proc_maps.h"
#include "analyzers/base/array.h"
#include "stacks/native/native_internal.h"

#define MAPS_MODULES_MAX 4096u
#define MAPS_OVERLAY_MAGIC 0x794c7630 /* OVERLAYFS_SUPER_MAGIC: its device differs from that in maps */
#define MAPS_VDSO_BYTES_MAX (64u << 10)

void native_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 32 || *text == 127)
			*text = '?';
}

ssize_t native_read_proc(const struct native_process *process, const char *name, char *ret, size_t size)
{
	char path[192];
	_cleanup_close_ int fd = -1;
	size_t used = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%d/%s", process->root, (int)process->pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (used + 1 < size && (n = read(fd, ret + used, size - 1 - used)) != 0) {
		if (n < 0)
			return -errno;
		used += (size_t)n;
	}
	ret[used] = 0;
	return (ssize_t)used;
}

ssize_t native_memory(const struct native_process *process, uint64_t address, void *ret, size_t size_bytes)
{
	struct iovec here = {ret, size_bytes}, there = {(void *)(uintptr_t)address, size_bytes};
	ssize_t n = process_vm_readv(process->pid, &here, 1, &there, 1, 0);

	return n < 0 ? -errno : n;
}

/* The module that the line continues, or a new one; -1: none. */
static int32_t maps_module(struct native_process *process, const struct proc_map *line)
{
	struct native_module *last = process->modules ? &process->module[process->modules - 1] : NULL;
	uint64_t device = makedev(line->device_major, line->device_minor);
	bool vdso = streq(line->path, "[vdso]");

	if (!vdso && (line->path[0] != '/' || !line->inode))
		return -1;
	if (last && !vdso && line->offset && last->inode == line->inode && last->device == device &&
		streq(last->path, line->path)) {
		last->end = line->end;
		return (int32_t)(process->modules - 1);
	}
	if (line->offset || process->modules == MAPS_MODULES_MAX)
		return -1;
	last = &process->module[process->modules];
	*last = (struct native_module){.start = line->start,
		.end = line->end,
		.device = device,
		.inode = line->inode,
		.path = strdup(line->path),
		.shown = strdup(line->path),
		.fd = -1,
		.vdso = vdso};
	if (!last->path || !last->shown) {
		free(last->path);
		free(last->shown);
		return -1;
	}
	native_printable(last->shown);
	return (int32_t)process->modules++;
}

static bool native_maps_on_map(void *arg, const struct proc_map *line)
{
	struct native_process *process = arg;
	int32_t module = maps_module(process, line);

	if (streq(line->path, "[uprobes]")) {
		process->probe_start = line->start;
		process->probe_end = line->end;
	}
	if (module >= 0 && line->executable)
		process->map[process->maps++] =
			(struct native_map){line->start, line->end, line->offset, (uint32_t)module};
	return process->maps < NATIVE_MAPS_MAX;
}

int native_maps_read(struct native_process *process)
{
	int r;

	process->module = calloc(MAPS_MODULES_MAX, sizeof(*process->module));
	process->map = calloc(NATIVE_MAPS_MAX, sizeof(*process->map));
	if (!process->module || !process->map)
		return -ENOMEM;
	r = proc_maps_each(process->root, (uint32_t)process->pid, native_maps_on_map, process);
	return r == -EFBIG ? 0 : r;
}

const struct native_map *native_map_of(const struct native_process *process, uint64_t address)
{
	size_t low = array_first_not(i, process->maps, process->map[i].end <= address);

	return low < process->maps && process->map[low].start <= address ? &process->map[low] : NULL;
}

static bool maps_is_same(const struct native_module *module, int fd)
{
	struct statfs file_system;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_ino != module->inode)
		return false;
	return st.st_dev == module->device ||
	       (fstatfs(fd, &file_system) == 0 && (uint64_t)file_system.f_type == MAPS_OVERLAY_MAGIC);
}

/* Below the process's root: a link in its file system leads nowhere else. */
static int maps_open_path(const struct native_process *process, const struct native_module *module)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .resolve = RESOLVE_IN_ROOT};
	_cleanup_close_ int root = -1, fd = -1;
	char path[160];

	snprintf(path, sizeof(path), "%s/%d/root", process->root, (int)process->pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, root, module->path, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	return maps_is_same(module, fd) ? TAKE_FD(fd) : -ESTALE;
}

static int maps_open_mapped(const struct native_process *process, const struct native_module *module)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	char path[192];

	/* The entry is named by its mapping, of which the first executable one is known. */
	for (size_t i = 0; i < process->maps; i++) {
		if (&process->module[process->map[i].module] != module)
			continue;
		snprintf(path, sizeof(path), "%s/%d/map_files/%lx-%lx", process->root, (int)process->pid,
			process->map[i].start, process->map[i].end);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		break;
	}
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ESTALE;
	return TAKE_FD(fd);
}

static bool maps_open_vdso(const struct native_process *process, struct native_module *module)
{
	size_t size_bytes = module->end - module->start;

	if (size_bytes > MAPS_VDSO_BYTES_MAX)
		return false;
	module->image = malloc(size_bytes);
	if (!module->image || native_memory(process, module->start, module->image, size_bytes) != (ssize_t)size_bytes)
		return false;
	module->elf = elf_memory(module->image, size_bytes);
	return module->elf != NULL;
}

static bool maps_refuse(struct native_module *module, const char *why)
{
	const char *base = strrchr(module->shown, '/');

	snprintf(module->reason, sizeof(module->reason), "%.60s %s", base ? base + 1 : module->shown, why);
	return false;
}

bool native_module_open(struct native_process *process, struct native_module *module)
{
	GElf_Ehdr header;

	if (module->tried)
		return module->elf != NULL;
	module->tried = true;
	if (module->vdso)
		return maps_open_vdso(process, module) || maps_refuse(module, "cannot be read");
	module->fd = maps_open_path(process, module);
	if (module->fd < 0 && module->fd != -EMFILE)
		module->fd = maps_open_mapped(process, module);
	if (module->fd == -EMFILE || module->fd == -ENOMEM)
		return maps_refuse(module, "cannot be opened: the worker has too many files open");
	if (module->fd < 0)
		return maps_refuse(module, "was replaced or removed since the process mapped it");
	/* Not mapped: a file that is truncated while it is read is an error then, and no signal. */
	module->elf = elf_begin(module->fd, ELF_C_READ, NULL);
	if (!module->elf || elf_kind(module->elf) != ELF_K_ELF || !gelf_getehdr(module->elf, &header) ||
		header.e_ident[EI_CLASS] != ELFCLASS64) {
		elf_end(module->elf);
		module->elf = NULL;
		return maps_refuse(module, "is no ELF file of 64 bits");
	}
	return true;
}

bool native_module_address(const struct native_module *module, uint64_t offset, uint64_t *ret)
{
	GElf_Phdr segment;
	size_t count = 0;

	if (elf_getphdrnum(module->elf, &count) < 0 || count > 256)
		return false;
	for (size_t i = 0; i < count; i++)
		if (gelf_getphdr(module->elf, (int)i, &segment) && segment.p_type == PT_LOAD &&
			offset >= segment.p_offset && offset - segment.p_offset < segment.p_filesz) {
			*ret = segment.p_vaddr + (offset - segment.p_offset);
			return true;
		}
	return false;
}

const char *native_module_path(const struct native_process *process, int32_t module)
{
	return module >= 0 && (size_t)module < process->modules ? process->module[module].shown : "";
}

int32_t native_module_of(const struct native_process *process, const char *path)
{
	for (size_t i = 0; i < process->maps; i++)
		if (streq(process->module[process->map[i].module].path, path))
			return (int32_t)process->map[i].module;
	return -1;
}
