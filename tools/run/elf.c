/* SPDX-License-Identifier: MIT */
/*
 * Names are looked for in the table of strings, not in that of symbols, because the length of
 * the table of symbols is only in the hash tables, of which there are two kinds. Linkers store a
 * name as the end of a longer one where they can, and such a name is not found. No longer name is
 * known that ends in one that is asked for here.
 */
#include "elf.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_HEADERS 256
#define MOST_BYTES ((size_t)64 << 20)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#	define OWN_DATA ELFDATA2LSB
#else
#	define OWN_DATA ELFDATA2MSB
#endif

static bool read_at(int fd, void *to, size_t size, uint64_t offset)
{
	ssize_t n;

	if (offset > (uint64_t)INT64_MAX - size)
		return false;
	do
		n = pread(fd, to, size, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)size;
}

/* Where this program begins in memory, with its header. There may be no /proc with its file. */
extern const char __ehdr_start[] __attribute__((visibility("hidden"))); // NOLINT: the linker's

static const ElfW(Ehdr) * own_header(void)
{
	return (const ElfW(Ehdr) *)(const void *)__ehdr_start;
}

static const ElfW(Phdr) * find(const ElfW(Phdr) * headers, size_t n, uint32_t type)
{
	for (size_t i = 0; i < n; i++)
		if (headers[i].p_type == type)
			return &headers[i];
	return NULL;
}

/* The offset in the file of an address, or -1. */
static int64_t offset_of(const ElfW(Phdr) * headers, size_t n, uint64_t address)
{
	for (size_t i = 0; i < n; i++)
		if (headers[i].p_type == PT_LOAD && address >= headers[i].p_vaddr &&
		    address - headers[i].p_vaddr < headers[i].p_filesz)
			return (int64_t)(headers[i].p_offset + (address - headers[i].p_vaddr));
	return -1;
}

static enum run_elf_error read_names(int fd, struct run_elf *elf, const ElfW(Phdr) * headers,
				     size_t n, const ElfW(Phdr) * dynamic)
{
	const size_t entries = dynamic->p_filesz / sizeof(ElfW(Dyn));
	uint64_t table = 0, size = 0;
	ElfW(Dyn) * entry;
	int64_t offset;

	if (dynamic->p_filesz > MOST_BYTES)
		return RUN_ELF_BROKEN;
	entry = calloc(entries + 1, sizeof *entry);
	if (!entry)
		return RUN_ELF_NO_MEMORY;
	if (!read_at(fd, entry, entries * sizeof *entry, dynamic->p_offset)) {
		free(entry);
		return RUN_ELF_BROKEN;
	}
	for (size_t i = 0; entry[i].d_tag != DT_NULL; i++) {
		if (entry[i].d_tag == DT_STRTAB)
			table = entry[i].d_un.d_ptr;
		else if (entry[i].d_tag == DT_STRSZ)
			size = entry[i].d_un.d_val;
	}
	free(entry);
	offset = offset_of(headers, n, table);
	if (size == 0 || size > MOST_BYTES || offset < 0)
		return RUN_ELF_BROKEN;
	elf->names = calloc(1, size + 1);
	if (!elf->names)
		return RUN_ELF_NO_MEMORY;
	elf->size = size;
	return read_at(fd, elf->names, size, (uint64_t)offset) ? RUN_ELF_OK : RUN_ELF_BROKEN;
}

static enum run_elf_error read_headers(int fd, struct run_elf *elf, const ElfW(Phdr) * headers,
				       size_t n)
{
	const ElfW(Phdr) *interpreter = find(headers, n, PT_INTERP);
	const ElfW(Phdr) *dynamic = find(headers, n, PT_DYNAMIC);

	elf->locals = find(headers, n, PT_TLS) != NULL;
	elf->dynamic = dynamic != NULL;
	if (interpreter &&
	    (interpreter->p_filesz >= sizeof elf->interpreter ||
	     !read_at(fd, elf->interpreter, interpreter->p_filesz, interpreter->p_offset)))
		return RUN_ELF_BROKEN;
	/* It is printed in a message. */
	for (const char *c = elf->interpreter; *c; c++)
		if (*c <= ' ' || *c > '~')
			return RUN_ELF_BROKEN;
	return dynamic ? read_names(fd, elf, headers, n, dynamic) : RUN_ELF_OK;
}

enum run_elf_error run_elf_read(int fd, struct run_elf *elf)
{
	ElfW(Phdr) headers[MOST_HEADERS];
	ElfW(Ehdr) header;

	memset(elf, 0, sizeof *elf);
	if (!read_at(fd, &header, EI_NIDENT, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return RUN_ELF_NOT_ELF;
	if (header.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
	    header.e_ident[EI_DATA] != OWN_DATA)
		return RUN_ELF_FOREIGN;
	if (!read_at(fd, &header, sizeof header, 0))
		return RUN_ELF_BROKEN;
	if (header.e_machine != own_header()->e_machine)
		return RUN_ELF_FOREIGN;
	if (header.e_phentsize != sizeof *headers || header.e_phnum > MOST_HEADERS ||
	    !read_at(fd, headers, header.e_phnum * sizeof *headers, header.e_phoff))
		return RUN_ELF_BROKEN;
	return read_headers(fd, elf, headers, header.e_phnum);
}

const char *run_elf_own_linker(void)
{
	const size_t n = own_header()->e_phnum;
	const ElfW(Phdr) *headers = (const void *)(__ehdr_start + own_header()->e_phoff);
	const ElfW(Phdr) *interpreter = find(headers, n, PT_INTERP),
			 *first = find(headers, n, PT_LOAD);

	return interpreter && first ? __ehdr_start + (interpreter->p_vaddr - first->p_vaddr) : "";
}

void run_elf_free(struct run_elf *elf)
{
	free(elf->names);
	elf->names = NULL;
}

/* The byte after the table is zero (calloc). */
bool run_elf_names_beginning(const struct run_elf *elf, const char *beginning)
{
	const size_t length = strlen(beginning);

	for (size_t i = 0; i < elf->size; i += strlen(elf->names + i) + 1)
		if (strncmp(elf->names + i, beginning, length) == 0)
			return true;
	return false;
}

bool run_elf_names(const struct run_elf *elf, const char *name)
{
	for (size_t i = 0; i < elf->size; i += strlen(elf->names + i) + 1)
		if (strcmp(elf->names + i, name) == 0)
			return true;
	return false;
}
