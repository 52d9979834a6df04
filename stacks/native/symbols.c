/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions: one pass over the symbols of each file answers all addresses asked of it, so that a table of a
 * million symbols is read once and not kept. The file's own .symtab or .dynsym; else the .symtab of its debug file,
 * found by build id or by the name in .gnu_debuglink; both must have the same build id. A symbol names an address only
 * if it covers it.
 *
 * C++ names are demangled by __cxa_demangle() of the C++ library, if one can be loaded.
 */
#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include "stacks/native/native_internal.h"
#include "analyzers/base/array.h"

#define SYMBOLS_MAX (32u << 20) /* of a table: libtorch has 1 million */
#define SYMBOLS_CHUNK 8192u	/* read at once: 192 KiB */
#define SYMBOLS_NAME_BYTES 1024u
#define SYMBOLS_DEMANGLED_BYTES_MAX 4096u
#define SYMBOLS_BUILD_ID_BYTES_MAX 64u

struct symbols_wish {
	uint64_t address;
	struct native_frame *frame;
	uint64_t start; /* of the best symbol so far, in the file's addresses */
	uint64_t name;	/* offset in the file; 0: none */
	unsigned grade; /* global before local, function before other */
};

struct symbols_wishes {
	struct symbols_wish *wish; /* by address */
	size_t count;
	int fd;
	uint64_t names, names_bytes; /* the string table, offsets in the file */
};

static int symbols_order(const void *a, const void *b)
{
	const struct symbols_wish *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* First wish at or after the address. */
static size_t symbols_first(const struct symbols_wishes *wishes, uint64_t address)
{
	return array_first_not(i, wishes->count, wishes->wish[i].address < address);
}

static void symbols_offer(struct symbols_wishes *wishes, const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	unsigned grade = 1 + (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL) + 2 * (type != STT_NOTYPE);

	if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) || symbol->st_shndx == SHN_UNDEF ||
		!symbol->st_size || symbol->st_name >= wishes->names_bytes)
		return;
	for (size_t i = symbols_first(wishes, symbol->st_value);
		i < wishes->count && wishes->wish[i].address - symbol->st_value < symbol->st_size; i++) {
		struct symbols_wish *wish = &wishes->wish[i];

		/* Of several names the closest start, then the better grade. */
		if (wish->name &&
			(wish->start > symbol->st_value || (wish->start == symbol->st_value && wish->grade >= grade)))
			continue;
		wish->start = symbol->st_value;
		wish->grade = grade;
		wish->name = wishes->names + symbol->st_name;
	}
}

static void symbols_pass(struct symbols_wishes *wishes, uint64_t offset, uint64_t count)
{
	_cleanup_free_ Elf64_Sym *chunk = malloc(SYMBOLS_CHUNK * sizeof(*chunk));

	if (!chunk || count > SYMBOLS_MAX)
		return;
	for (uint64_t done = 0; done < count;) {
		size_t want = count - done < SYMBOLS_CHUNK ? (size_t)(count - done) : SYMBOLS_CHUNK;
		ssize_t n = pread(wishes->fd, chunk, want * sizeof(*chunk), (off_t)(offset + done * sizeof(*chunk)));

		if (n != (ssize_t)(want * sizeof(*chunk)))
			return;
		for (size_t i = 0; i < want; i++)
			symbols_offer(wishes, &chunk[i]);
		done += want;
	}
}

/* Goes over the tables of one type; false where there is none. */
static bool symbols_tables(struct symbols_wishes *wishes, Elf *elf, int fd, GElf_Word type)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header, names;
	bool found = false;

	wishes->fd = fd;
	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || header.sh_type != type ||
			header.sh_entsize != sizeof(Elf64_Sym) ||
			!gelf_getshdr(elf_getscn(elf, header.sh_link), &names) || names.sh_type != SHT_STRTAB)
			continue;
		wishes->names = names.sh_offset;
		wishes->names_bytes = names.sh_size;
		symbols_pass(wishes, header.sh_offset, header.sh_size / sizeof(Elf64_Sym));
		found = true;
	}
	return found;
}

typedef char *(*symbols_demangler)(const char *name, char *buffer, size_t *length, int *status);

static symbols_demangler symbols_demangle(void)
{
	static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
	static symbols_demangler found;
	static bool tried;

	for (size_t i = 0; !tried && !found && i < ARRAY_SIZE(libraries); i++) {
		void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);

		*(void **)&found = library ? dlsym(library, "__cxa_demangle") : NULL;
	}
	tried = true;
	return found;
}

/* Takes the versions of dynamic symbols off, and demangles. */
static char *symbols_text(const char *name)
{
	symbols_demangler demangle = name[0] == '_' && name[1] == 'Z' ? symbols_demangle() : NULL;
	int status = 0;
	char *text = demangle ? demangle(name, NULL, NULL, &status) : NULL;

	if (text && strlen(text) > SYMBOLS_DEMANGLED_BYTES_MAX)
		text[SYMBOLS_DEMANGLED_BYTES_MAX] = 0;
	if (!text)
		text = strdup(name);
	if (text)
		native_printable(text);
	return text;
}

static void symbols_take(struct symbols_wishes *wishes)
{
	char name[SYMBOLS_NAME_BYTES];

	for (size_t i = 0; i < wishes->count; i++) {
		struct symbols_wish *wish = &wishes->wish[i];
		ssize_t n = wish->name && !wish->frame->function
				    ? pread(wishes->fd, name, sizeof(name) - 1, (off_t)wish->name)
				    : 0;

		if (n > 0) {
			name[n] = 0;
			if (name[0])
				wish->frame->function = symbols_text(name);
		}
		wish->name = 0;
		wish->grade = 0;
	}
}

static size_t symbols_build_id(Elf *elf, uint8_t ret[SYMBOLS_BUILD_ID_BYTES_MAX])
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		Elf_Data *data;
		GElf_Nhdr note;
		size_t at = 0, name, text;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE || header.sh_size > 4096 ||
			!(data = elf_getdata(section, NULL)))
			continue;
		while ((at = gelf_getnote(data, at, &note, &name, &text)) > 0)
			if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
				memcmp((char *)data->d_buf + name, "GNU", 4) == 0 && note.n_descsz >= 2 &&
				note.n_descsz <= SYMBOLS_BUILD_ID_BYTES_MAX) {
				memcpy(ret, (char *)data->d_buf + text, note.n_descsz);
				return note.n_descsz;
			}
	}
	return 0;
}

/* Names from the file at this path below the process's root, if it has the build id; false: it is not such a file. */
static bool symbols_debug_at(const struct native_process *process, struct symbols_wishes *wishes, const uint8_t *id,
	size_t bytes, const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .resolve = RESOLVE_IN_ROOT};
	_cleanup_close_ int folder = -1, fd = -1;
	uint8_t its[SYMBOLS_BUILD_ID_BYTES_MAX];
	char root[160];
	bool right;
	Elf *elf;

	snprintf(root, sizeof(root), "%s/%d/root", process->root, (int)process->pid);
	folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = folder < 0 ? -1 : (int)syscall(SYS_openat2, folder, path, &how, sizeof(how));
	elf = fd >= 0 ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
	right = elf && elf_kind(elf) == ELF_K_ELF && symbols_build_id(elf, its) == bytes && memcmp(id, its, bytes) == 0;
	if (right) {
		symbols_tables(wishes, elf, fd, SHT_SYMTAB);
		symbols_take(wishes);
	}
	elf_end(elf);
	return right;
}

static bool symbols_debug_by_id(
	const struct native_process *process, struct symbols_wishes *wishes, const uint8_t *id, size_t bytes)
{
	char path[64 + 2 * SYMBOLS_BUILD_ID_BYTES_MAX];
	size_t used = (size_t)snprintf(path, sizeof(path), "usr/lib/debug/.build-id/%02x/", id[0]);

	for (size_t i = 1; i < bytes; i++)
		used += (size_t)snprintf(path + used, sizeof(path) - used, "%02x", id[i]);
	snprintf(path + used, sizeof(path) - used, ".debug");
	return symbols_debug_at(process, wishes, id, bytes, path);
}

/* By the name that the file has for it: beside it, in .debug there, or in the same folder below /usr/lib/debug. */
static void symbols_debug_by_link(const struct native_process *process, struct symbols_wishes *wishes,
	const struct native_module *module, const uint8_t *id, size_t bytes)
{
	static const char *const formats[] = {"%.*s/%s", "%.*s/.debug/%s", "/usr/lib/debug%.*s/%s"};
	GElf_Word ignored;
	const char *name = dwelf_elf_gnu_debuglink(module->elf, &ignored), *end = strrchr(module->path, '/');
	char path[PATH_MAX];

	if (!name || !*name || strchr(name, '/') || !end)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		int used = snprintf(path, sizeof(path), formats[i], (int)(end - module->path), module->path, name);

		if (used < (int)sizeof(path) && symbols_debug_at(process, wishes, id, bytes, path))
			return;
	}
}

static void symbols_debug_file(
	const struct native_process *process, struct symbols_wishes *wishes, const struct native_module *module)
{
	uint8_t id[SYMBOLS_BUILD_ID_BYTES_MAX];
	size_t bytes = symbols_build_id(module->elf, id);

	if (bytes && !symbols_debug_by_id(process, wishes, id, bytes))
		symbols_debug_by_link(process, wishes, module, id, bytes);
}

static bool symbols_missing(const struct symbols_wishes *wishes)
{
	for (size_t i = 0; i < wishes->count; i++)
		if (!wishes->wish[i].frame->function)
			return true;
	return false;
}

static void symbols_of_module(
	const struct native_process *process, struct symbols_wishes *wishes, const struct native_module *module)
{
	bool complete;

	qsort(wishes->wish, wishes->count, sizeof(*wishes->wish), symbols_order);
	complete = symbols_tables(wishes, module->elf, module->fd, SHT_SYMTAB);
	symbols_take(wishes);
	if (complete)
		return;
	symbols_tables(wishes, module->elf, module->fd, SHT_DYNSYM);
	symbols_take(wishes);
	if (symbols_missing(wishes))
		symbols_debug_file(process, wishes, module);
}

void native_symbolize(struct native_process *process)
{
	struct symbols_wishes wishes = {.fd = -1};
	size_t frames = 0;

	for (size_t i = 0; i < process->threads; i++)
		frames += process->thread[i].frames;
	wishes.wish = frames ? calloc(frames, sizeof(*wishes.wish)) : NULL;
	for (size_t m = 0; wishes.wish && m < process->modules; m++) {
		const struct native_module *module = &process->module[m];

		wishes.count = 0;
		if (!module->elf || module->vdso)
			continue;
		for (size_t i = 0; i < process->threads; i++)
			for (size_t j = 0; j < process->thread[i].frames; j++) {
				struct native_frame *frame = &process->thread[i].frame[j];

				if (frame->module == (int32_t)m && frame->file_address && !frame->function)
					wishes.wish[wishes.count++] =
						(struct symbols_wish){.address = frame->file_address, .frame = frame};
			}
		if (wishes.count)
			symbols_of_module(process, &wishes, module);
	}
	free(wishes.wish);
}
