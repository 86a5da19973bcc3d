/* SPDX-License-Identifier: MIT */
/*
 * For libFuzzer, with small programs in seeds/elf to begin with: whatever the bytes of a file are,
 * sennit-run's reader of ELF files reads nothing outside of its buffers, and ends. What it accepts
 * can be printed and searched. scripts/fuzz runs it.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each name of the table is found, and so is its beginning. */
static void check_names(const struct run_elf *elf)
{
	static const char *const names[] = {"pthread_cancel", "setfsuid", "libsennit.so", "",
					    "nothing"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (run_elf_names(elf, names[i]) && !run_elf_names_beginning(elf, names[i]))
			abort();
	for (size_t i = 0, n = 0; i < elf->size && n < 8; i += strlen(elf->names + i) + 1, n++)
		if (!run_elf_names(elf, elf->names + i))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct run_elf elf;

	if (fd < 0)
		fd = memfd_create("elf", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (run_elf_read(fd, &elf) == RUN_ELF_OK) {
		if (strnlen(elf.interpreter, sizeof elf.interpreter) == sizeof elf.interpreter)
			abort();
		for (const char *c = elf.interpreter; *c; c++)
			if (*c <= ' ' || *c > '~')
				abort();
		if (elf.size && !elf.dynamic)
			abort();
		check_names(&elf);
	}
	run_elf_free(&elf);
	return 0;
}
