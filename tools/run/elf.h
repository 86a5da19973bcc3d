/* SPDX-License-Identifier: MIT */
/*
 * What sennit-run has to know of an ELF file.
 *
 * Contract. Reads the headers, at most MOST_HEADERS of them, and the dynamic section with its
 * names, at most MOST_BYTES each. Offsets and sizes are checked against each other and by pread(),
 * which never reads beyond the file. Only files of this program's own class and byte order are read
 * further than the first header.
 */
#ifndef SENNIT_RUN_ELF_H
#define SENNIT_RUN_ELF_H

#include <stdbool.h>
#include <stddef.h>

/* Why a file is not read, or 0. */
enum run_elf_error {
	RUN_ELF_OK,
	RUN_ELF_NOT_ELF,
	RUN_ELF_FOREIGN,
	RUN_ELF_BROKEN,
	RUN_ELF_NO_MEMORY
};

struct run_elf {
	char interpreter[256]; /* PT_INTERP; empty: none */
	bool dynamic;          /* it has a dynamic section */
	bool locals;           /* PT_TLS: it has thread-local variables of its own */
	char *names;           /* DT_STRTAB: names with a zero before and after each, or NULL */
	size_t size;
};

enum run_elf_error run_elf_read(int fd, struct run_elf *elf);
void run_elf_free(struct run_elf *elf);

/* The path of this program's own dynamic linker, by which its C library is known; empty: none. */
const char *run_elf_own_linker(void);

/* Whether the name is among the dynamic names: it imports that symbol, or needs that library. */
bool run_elf_names(const struct run_elf *elf, const char *name);

/* The same for a name that begins so. */
bool run_elf_names_beginning(const struct run_elf *elf, const char *beginning);

#endif
