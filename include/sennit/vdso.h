/* SPDX-License-Identifier: MIT */
/*
 * Finds functions in the vDSO, the small ELF image that the kernel maps into every process so that
 * clocks can be read without a system call. It also reads such an image from a file or a dump, of
 * any architecture on any other; functions found in those must not be called.
 *
 * None of these calls parks, allocates or makes a system call, except that sn_vdso_self() makes
 * some in a program without a C library.
 *
 * Threads outside the runtime: all calls. Signal handlers: all calls.
 */
#ifndef SENNIT_VDSO_H
#define SENNIT_VDSO_H

#include <sennit/base.h>

SN_BEGIN

/*
 * An image that was parsed. The caller owns this structure and may copy it; the fields are the
 * library's. It refers to the image, which must outlive it.
 */
struct sn_vdso {
	const unsigned char *image; /* its first byte */
	size_t size;                /* in bytes */
	/* Offsets into the image, 0 where the image lacks the table. */
	uint64_t strings;     /* DT_STRTAB */
	uint64_t symbols;     /* DT_SYMTAB */
	uint64_t gnu_hash;    /* DT_GNU_HASH */
	uint64_t hash;        /* DT_HASH */
	uint64_t versions;    /* DT_VERSYM */
	uint64_t definitions; /* DT_VERDEF */

	uint64_t shift; /* an address in the image plus this is its offset; wraps */
	int wide;       /* 64-bit ELF */
	int big;        /* big-endian */
};

/*
 * Reads the headers of the ELF image at `image`, of which `size` bytes may be read. Whatever those
 * bytes are, nothing outside them is touched, by this call or by sn_vdso_find() later.
 *
 * Returns 0, or -ENOEXEC if it is not an ELF image with a loadable and a dynamic segment and with
 * symbols that can be looked up.
 */
SN_API SN_CHECK_RESULT int sn_vdso_open(struct sn_vdso *vdso, const void *image, size_t size);

/*
 * Opens the running process's vDSO, found by AT_SYSINFO_EHDR in the auxiliary vector.
 *
 * Returns 0; -ENOENT if the process has none: a kernel without one, one that was booted with
 * vdso=0, or a tool between the kernel and the program that hides it on purpose, such as valgrind;
 * -ENOEXEC as above.
 */
SN_API SN_CHECK_RESULT int sn_vdso_self(struct sn_vdso *vdso);

/*
 * Returns the address of a defined symbol, or NULL if there is none of that name and version, or if
 * it does not lie inside the image. `version` is the symbol's version, such as "LINUX_2.6"; NULL
 * takes any. An image that defines no versions has every symbol in every version.
 */
SN_API void *sn_vdso_find(const struct sn_vdso *vdso, const char *version, const char *name);

SN_END

#endif
