/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a library file. libelf decodes the headers (ELF_C_READ uses pread and maps nothing, and reads no section
 * content unless asked); contents are read here with pread, so truncation during a read is an error instead of a
 * SIGBUS.
 */
#include <libelf.h>
#include <sys/stat.h>
#include "daemon/probes/elf_private.h"

/*
 * A real library has below a hundred sections and a dozen segments; the file says how many, and libelf allocates for
 * all of them when it opens the file.
 */
#define SECTIONS_MAX 4096
#define SEGMENTS_MAX 1024
#define NAMES_BYTES_MAX (1u << 20) /* of sections */

static void elf_endp(Elf **elf)
{
	if (*elf)
		elf_end(*elf);
}

static int elf_file_read_all(int fd, uint8_t *buffer, size_t size_bytes, uint64_t offset)
{
	size_t done = 0;

	while (done < size_bytes) {
		ssize_t n = pread(fd, buffer + done, size_bytes - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EBADMSG;
		done += (size_t)n;
	}
	return 0;
}

int elf_read_range(const struct elf_file *file, const struct elf_range *range, uint64_t max_bytes, uint8_t **ret)
{
	_cleanup_free_ uint8_t *buffer = NULL;
	int r;

	if (range->size_bytes > max_bytes)
		return -EFBIG;
	buffer = malloc(range->size_bytes + 1);
	if (!buffer)
		return -ENOMEM;
	r = elf_file_read_all(file->fd, buffer, range->size_bytes, range->offset);
	if (r < 0)
		return r;
	buffer[range->size_bytes] = 0;
	*ret = TAKE_PTR(buffer);
	return 0;
}

static bool range_of(const struct elf_file *file, const Elf64_Shdr *header, struct elf_range *ret)
{
	if (header->sh_type == SHT_NOBITS || header->sh_flags & SHF_COMPRESSED || !header->sh_size ||
		header->sh_offset > file->size_bytes || header->sh_size > file->size_bytes - header->sh_offset)
		return false;
	*ret = (struct elf_range){header->sh_offset, header->sh_size};
	return true;
}

static int read_segments(struct elf_file *file, Elf *elf)
{
	const Elf64_Phdr *header;
	size_t count;

	if (elf_getphdrnum(elf, &count) < 0)
		return -EBADMSG;
	header = count ? elf64_getphdr(elf) : NULL;
	if (count && !header)
		return -EBADMSG;
	for (size_t i = 0; i < count && file->segments < ELF_SEGMENTS_MAX; i++) {
		const Elf64_Phdr *p = &header[i];

		if (p->p_type != PT_LOAD || p->p_offset > file->size_bytes ||
			p->p_filesz > file->size_bytes - p->p_offset || p->p_vaddr + p->p_filesz < p->p_vaddr)
			continue;
		file->segment[file->segments++] = (struct elf_segment){p->p_vaddr, p->p_offset, p->p_filesz};
	}
	return 0;
}

static void take_table(struct elf_file *file, Elf *elf, const Elf64_Shdr *header, struct elf_table *table)
{
	Elf_Scn *linked = elf_getscn(elf, header->sh_link);
	const Elf64_Shdr *names = linked ? elf64_getshdr(linked) : NULL;
	struct elf_range symbol_range, name_range;

	if (table->symbols.size_bytes || header->sh_entsize != sizeof(Elf64_Sym) || !names ||
		names->sh_type != SHT_STRTAB || !range_of(file, header, &symbol_range) ||
		!range_of(file, names, &name_range))
		return;
	table->symbols = symbol_range;
	table->names = name_range;
}

static void take_section(struct elf_file *file, Elf *elf, const Elf64_Shdr *header, const char *name)
{
	struct elf_range range;

	if (streq(name, ".stapsdt.base"))
		file->usdt_base = header->sh_addr;
	if (header->sh_type == SHT_DYNSYM)
		take_table(file, elf, header, &file->dynamic);
	if (header->sh_type == SHT_SYMTAB)
		take_table(file, elf, header, &file->full);
	if (!range_of(file, header, &range))
		return;
	if (header->sh_type == SHT_PROGBITS && header->sh_flags & SHF_EXECINSTR && file->codes < ELF_CODES_MAX)
		file->code[file->codes++] = range;
	if (header->sh_type == SHT_NOTE && streq(name, ".note.stapsdt"))
		file->usdt_notes = range;
}

static int read_sections(struct elf_file *file, Elf *elf)
{
	_cleanup_free_ uint8_t *names = NULL;
	struct elf_range range = {0};
	size_t names_index, count = 0;
	Elf_Scn *section = NULL;
	int r;

	if (elf_getshdrstrndx(elf, &names_index) < 0)
		return -EBADMSG;
	if (names_index != SHN_UNDEF) {
		Elf_Scn *scn = elf_getscn(elf, names_index);
		const Elf64_Shdr *header = scn ? elf64_getshdr(scn) : NULL;

		if (!header || header->sh_type != SHT_STRTAB || !range_of(file, header, &range))
			return -EBADMSG;
		r = elf_read_range(file, &range, NAMES_BYTES_MAX, &names);
		if (r < 0)
			return r;
	}
	while ((section = elf_nextscn(elf, section))) {
		const Elf64_Shdr *header = elf64_getshdr(section);

		if (!header || ++count > SECTIONS_MAX)
			return -EBADMSG;
		take_section(
			file, elf, header, header->sh_name < range.size_bytes ? (char *)names + header->sh_name : "");
	}
	return 0;
}

static int read_headers(struct elf_file *file, Elf *elf)
{
	const Elf64_Ehdr *header;
	int r;

	if (elf_kind(elf) != ELF_K_ELF)
		return -ENOEXEC;
	header = elf64_getehdr(elf);
	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
		(header->e_type != ET_DYN && header->e_type != ET_EXEC) ||
		(header->e_machine != EM_X86_64 && header->e_machine != EM_AARCH64))
		return -ENOEXEC;
	file->machine = header->e_machine == EM_X86_64 ? ELF_MACHINE_X86_64 : ELF_MACHINE_AARCH64;
	r = read_segments(file, elf);
	return r < 0 ? r : read_sections(file, elf);
}

/* Counts that extended headers move to section 0: their real values. */
static int real_counts(int fd, const Elf64_Ehdr *header, uint64_t *ret_sections, uint64_t *ret_segments)
{
	Elf64_Shdr first;
	int r;

	*ret_sections = header->e_shnum;
	*ret_segments = header->e_phnum;
	if (!header->e_shoff || (header->e_shnum && header->e_phnum != PN_XNUM))
		return 0;
	r = elf_file_read_all(fd, (uint8_t *)&first, sizeof(first), header->e_shoff);
	if (r < 0)
		return r;
	if (!header->e_shnum)
		*ret_sections = first.sh_size;
	if (header->e_phnum == PN_XNUM)
		*ret_segments = first.sh_info;
	return 0;
}

/* Before libelf sees the file. -EFBIG: more than a library has. */
static int check_sizes(int fd, uint64_t file_bytes)
{
	uint64_t sections, segments;
	Elf64_Ehdr header;
	int r;

	if (file_bytes < sizeof(header))
		return -ENOEXEC;
	r = elf_file_read_all(fd, (uint8_t *)&header, sizeof(header), 0);
	if (r < 0)
		return r;
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
		header.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	r = real_counts(fd, &header, &sections, &segments);
	if (r < 0)
		return r;
	if (sections > SECTIONS_MAX || segments > SEGMENTS_MAX)
		return -EFBIG;
	if (sections && (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > file_bytes ||
				sections * sizeof(Elf64_Shdr) > file_bytes - header.e_shoff))
		return -EBADMSG;
	if (segments && (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > file_bytes ||
				segments * sizeof(Elf64_Phdr) > file_bytes - header.e_phoff))
		return -EBADMSG;
	return 0;
}

int elf_file_open(int fd, struct elf_file **ret)
{
	_cleanup_(elf_file_closep) struct elf_file *file = NULL;
	_cleanup_(elf_endp) Elf *elf = NULL;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || elf_version(EV_CURRENT) == EV_NONE)
		return -ENOEXEC;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->fd = fd;
	file->size_bytes = (uint64_t)st.st_size;
	r = check_sizes(fd, file->size_bytes);
	if (r < 0)
		return r;
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf)
		return -ENOEXEC;
	r = read_headers(file, elf);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(file);
	return 0;
}

struct elf_file *elf_file_close(struct elf_file *file)
{
	if (!file)
		return NULL;
	elf_table_free(&file->dynamic);
	elf_table_free(&file->full);
	free(file);
	return NULL;
}

enum elf_machine elf_file_machine(const struct elf_file *file)
{
	return file->machine;
}

bool elf_file_offset(const struct elf_file *file, uint64_t vaddr, uint64_t *ret)
{
	for (size_t i = 0; i < file->segments; i++) {
		const struct elf_segment *segment = &file->segment[i];

		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->size_bytes) {
			*ret = vaddr - segment->vaddr + segment->offset;
			return true;
		}
	}
	return false;
}

bool elf_is_code(const struct elf_file *file, uint64_t file_offset, uint64_t *ret_left_bytes)
{
	for (size_t i = 0; i < file->codes; i++) {
		const struct elf_range *range = &file->code[i];

		if (file_offset >= range->offset && file_offset - range->offset < range->size_bytes) {
			*ret_left_bytes = range->size_bytes - (file_offset - range->offset);
			return true;
		}
	}
	return false;
}

int elf_file_bytes(struct elf_file *file, uint64_t file_offset, uint8_t *ret, size_t max)
{
	uint64_t left;
	int r;

	if (!elf_is_code(file, file_offset, &left))
		return -ENOENT;
	if (max > left)
		max = left;
	if (max > INT32_MAX)
		max = INT32_MAX;
	r = elf_file_read_all(file->fd, ret, max, file_offset);
	return r < 0 ? r : (int)max;
}
