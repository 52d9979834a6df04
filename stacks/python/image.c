/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/python/image.h"

#include <elf.h>

#include "analyzers/base/proc_maps.h"
#include "daemon/base/util.h"

#define FILES_MAX 1024u	 /* mapped files that are searched; PyTorch maps 200 */
#define HEADERS_MAX 64u	 /* program headers */
#define DYNAMIC_MAX 256u /* entries of .dynamic */
#define CHAIN_MAX 4096u	 /* symbols of a bucket */
#define NAME_MAX_BYTES 32u
#define PTHREAD_BYTES_MAX 65536u /* glibc 2.36 on x86-64: 2,368 */

struct pyimage_symbols {
	uint64_t bias, names, symbols, hash;
};

static bool pyimage_header(struct pymem *memory, uint64_t base, Elf64_Ehdr *ret)
{
	return pymem_read(memory, base, ret, sizeof(*ret)) == 0 && memcmp(ret->e_ident, ELFMAG, SELFMAG) == 0 &&
	       ret->e_ident[EI_CLASS] == ELFCLASS64 && ret->e_phentsize == sizeof(Elf64_Phdr) &&
	       ret->e_phnum <= HEADERS_MAX;
}

/* Some C libraries leave offsets in the table, others make them addresses. */
static uint64_t pyimage_address(uint64_t bias, uint64_t value)
{
	return value < bias ? value + bias : value;
}

static int pyimage_dynamic(struct pymem *memory, uint64_t at, struct pyimage_symbols *symbols)
{
	for (unsigned i = 0; i < DYNAMIC_MAX; i++) {
		Elf64_Dyn entry;
		int r = pymem_read(memory, at + i * sizeof(entry), &entry, sizeof(entry));

		if (r < 0)
			return r;
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_SYMTAB)
			symbols->symbols = pyimage_address(symbols->bias, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_STRTAB)
			symbols->names = pyimage_address(symbols->bias, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_GNU_HASH)
			symbols->hash = pyimage_address(symbols->bias, entry.d_un.d_ptr);
	}
	return symbols->symbols && symbols->names && symbols->hash ? 0 : -ENOENT;
}

static int pyimage_symbols(struct pymem *memory, uint64_t base, struct pyimage_symbols *ret)
{
	Elf64_Ehdr header;
	uint64_t dynamic = 0;
	bool loaded = false;

	*ret = (struct pyimage_symbols){0};
	if (!pyimage_header(memory, base, &header))
		return -ENOENT;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr part;
		int r = pymem_read(memory, base + header.e_phoff + i * sizeof(part), &part, sizeof(part));

		if (r < 0)
			return r;
		if (part.p_type == PT_LOAD && !loaded) {
			ret->bias = base - (part.p_vaddr - part.p_offset);
			loaded = true;
		}
		if (part.p_type == PT_DYNAMIC)
			dynamic = part.p_vaddr;
	}
	if (!loaded || !dynamic)
		return -ENOENT;
	return pyimage_dynamic(memory, ret->bias + dynamic, ret);
}

static uint32_t pyimage_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static bool pyimage_named(struct pymem *memory, uint64_t address, const char *name)
{
	char text[NAME_MAX_BYTES];
	size_t size = strlen(name) + 1;

	return size <= sizeof(text) && pymem_read(memory, address, text, size) == 0 && memcmp(text, name, size) == 0;
}

/* Address of a defined symbol, through the table of DT_GNU_HASH. */
static int pyimage_symbol(struct pymem *memory, const struct pyimage_symbols *table, const char *name, uint64_t *ret)
{
	uint32_t head[4], hash = pyimage_hash(name), index; /* buckets, first symbol, bloom words, bloom shift */
	uint64_t buckets, chains;
	int r = pymem_read(memory, table->hash, head, sizeof(head));

	if (r < 0)
		return r;
	if (!head[0])
		return -ENOENT;
	buckets = table->hash + sizeof(head) + head[2] * sizeof(uint64_t);
	chains = buckets + head[0] * sizeof(uint32_t);
	r = pymem_read(memory, buckets + hash % head[0] * sizeof(uint32_t), &index, sizeof(index));
	if (r < 0)
		return r;
	if (index < head[1])
		return -ENOENT;
	for (unsigned i = 0; i < CHAIN_MAX; i++, index++) {
		uint32_t value;
		Elf64_Sym symbol;

		r = pymem_read(memory, chains + (uint64_t)(index - head[1]) * sizeof(value), &value, sizeof(value));
		if (r < 0)
			return r;
		if ((value | 1) == (hash | 1)) {
			r = pymem_read(
				memory, table->symbols + (uint64_t)index * sizeof(symbol), &symbol, sizeof(symbol));
			if (r < 0)
				return r;
			if (symbol.st_shndx != SHN_UNDEF &&
				pyimage_named(memory, table->names + symbol.st_name, name)) {
				*ret = table->bias + symbol.st_value;
				return 0;
			}
		}
		if (value & 1)
			break;
	}
	return -ENOENT;
}

/* "python3.9", "libpython3.9.so.1.0": the version in a file's name. */
static bool pyimage_version_of_name(const char *path, unsigned *ret_minor)
{
	const char *name = strrchr(path, '/'), *at;
	char *end;
	unsigned long minor;

	at = strstr(name ? name : path, "python3.");
	if (!at)
		return false;
	minor = strtoul(at + strlen("python3."), &end, 10);
	if (end == at + strlen("python3.") || minor > 99)
		return false;
	*ret_minor = (unsigned)minor;
	return true;
}

static int pyimage_version(struct pymem *memory, const struct pyimage_symbols *symbols, struct pyimage *image,
	enum pystack_refusal *ret_why)
{
	uint64_t at;
	int r = pyimage_symbol(memory, symbols, "Py_Version", &at);

	if (r == 0) {
		r = pymem_u64(memory, at, &image->version);
		image->major = image->version >> 24 & 0xff;
		image->minor = image->version >> 16 & 0xff;
		image->micro = image->version >> 8 & 0xff;
		return r;
	}
	*ret_why = PYSTACK_NO_VERSION;
	image->major = 3;
	/* 3.11 and later have the symbol. */
	return pyimage_version_of_name(image->path, &image->minor) && image->minor < 11 ? 0 : -ENOTSUP;
}

int pyimage_read(
	struct pymem *memory, uint64_t base, const char *path, struct pyimage *ret, enum pystack_refusal *ret_why)
{
	struct pyimage image = {.base = base};
	const struct {
		const char *name;
		uint64_t *address;
	} needed[] = {
		{"PyCode_Type", &image.code_type},
		{"PyFrame_Type", &image.frame_type},
		{"PyUnicode_Type", &image.text_type},
		{"PyBytes_Type", &image.bytes_type},
	};
	struct pyimage_symbols symbols;
	int r = pyimage_symbols(memory, base, &symbols);

	if (r == 0)
		r = pyimage_symbol(memory, &symbols, "_PyRuntime", &image.runtime);
	if (r < 0)
		return r == -EFAULT ? -ENOENT : r;
	(void)copy_text(image.path, sizeof(image.path), path);
	*ret_why = PYSTACK_LAYOUT;
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		r = pyimage_symbol(memory, &symbols, needed[i].name, needed[i].address);
		if (r < 0)
			return r == -ENOENT || r == -EFAULT ? -ENOTSUP : r;
	}
	r = pyimage_version(memory, &symbols, &image, ret_why);
	if (r < 0)
		return r == -EFAULT ? -ENOTSUP : r;
	*ret = image;
	return 0;
}

/* Whether the name is the one of an interpreter; others are searched if there is none. */
static bool pyimage_likely(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	return strncmp(name, "python", strlen("python")) == 0 || strncmp(name, "libpython", strlen("libpython")) == 0;
}

struct pyimage_search {
	struct pymem *memory;
	bool likely;
	unsigned files;
	struct pyimage *image;
	enum pystack_refusal *why;
	int found;
};

/* Mappings that begin with their file's first byte. */
static bool pyimage_on_map(void *arg, const struct proc_map *map)
{
	struct pyimage_search *search = arg;
	int r;

	if (map->offset || !map->readable || map->path[0] != '/' || pyimage_likely(map->path) != search->likely)
		return true;
	pymem_forget(search->memory);
	r = pyimage_read(search->memory, map->start, map->path, search->image, search->why);
	if (r != -ENOENT && r != -ENOBUFS)
		search->found = r;
	return (r == -ENOENT || r == -ENOTSUP || r == -ENOBUFS) && ++search->files < FILES_MAX;
}

int pyimage_find(struct pymem *memory, const char *root, pid_t pid, struct pyimage *ret, enum pystack_refusal *ret_why)
{
	struct pyimage_search search = {memory, true, 0, ret, ret_why, -ENOENT};
	int r = proc_maps_each(root, (uint32_t)pid, pyimage_on_map, &search);

	if (search.found == -ENOENT && (r == 0 || r == -EFBIG)) {
		search.likely = false;
		search.files = 0;
		r = proc_maps_each(root, (uint32_t)pid, pyimage_on_map, &search);
	}
	if (r < 0 && r != -EFBIG)
		return r == -ENOENT ? -ESRCH : r == -EACCES ? -EPERM : r;
	if (search.found != -ENOENT)
		return search.found;
	*ret_why = PYSTACK_NO_PYTHON;
	return -ENOTSUP;
}

struct pyimage_libc {
	struct pymem *memory;
	uint32_t bytes;
};

static bool pyimage_on_libc(void *arg, const struct proc_map *map)
{
	struct pyimage_libc *libc = arg;
	const char *name = strrchr(map->path, '/');
	struct pyimage_symbols symbols;
	uint64_t at;

	if (map->offset || !map->readable || !name || strncmp(name, "/libc.so", strlen("/libc.so")) != 0)
		return true;
	pymem_forget(libc->memory);
	if (pyimage_symbols(libc->memory, map->start, &symbols) < 0 ||
		pyimage_symbol(libc->memory, &symbols, "_thread_db_sizeof_pthread", &at) < 0 ||
		pymem_read(libc->memory, at, &libc->bytes, sizeof(libc->bytes)) < 0 || libc->bytes > PTHREAD_BYTES_MAX)
		libc->bytes = 0;
	return !libc->bytes;
}

int pyimage_pthread_bytes(struct pymem *memory, const char *root, pid_t pid, uint32_t *ret)
{
	struct pyimage_libc libc = {.memory = memory};
	int r = proc_maps_each(root, (uint32_t)pid, pyimage_on_libc, &libc);

	if (!libc.bytes && r < 0 && r != -EFBIG)
		return r == -ENOENT ? -ESRCH : r == -EACCES ? -EPERM : r;
	*ret = libc.bytes;
	return libc.bytes ? 0 : -ENOENT;
}
