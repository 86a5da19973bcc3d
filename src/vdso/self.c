/* SPDX-License-Identifier: MIT */
/*
 * Where this process's vDSO is, and how much of it may be read.
 *
 * The address comes from the auxiliary vector's AT_SYSINFO_EHDR, through libc where there is one.
 * What libc says is final. A tool that removed the entry, as valgrind does, did so because the code
 * there must not be called. /proc/self/auxv, which shows the kernel's own vector, is therefore read
 * only where there is no libc (SENNIT_NO_LIBC). Where /proc is not mounted, prctl(PR_GET_AUXV) of
 * Linux 6.4 returns the same.
 *
 * No call returns the size, so the image's own first PT_LOAD is trusted, within limits. The kernel
 * maps whole pages, so the first 4096 bytes are there, and the headers must lie in them; and no
 * image reaches MOST_BYTES. Asking the kernel which pages are mapped (mincore, or /proc/self/maps)
 * was rejected: system calls at first use can kill a program in a sandbox, and the image comes from
 * the same kernel that would answer.
 */
#include <sennit/vdso.h>

#include <elf.h>
#include <errno.h>

#ifdef SENNIT_NO_LIBC
#	include <linux/fcntl.h>

#	include "arch/machine_clock.h"
#else
#	include <sys/auxv.h>
#endif

/* The images of Linux 6.18 have 2 to 4 pages (`example-clocks` prints the size). */
#define LEAST_BYTES ((size_t)4096)
#define MOST_BYTES ((size_t)1 << 20)

#ifdef SENNIT_NO_LIBC
#	define PR_GET_AUXV_ 0x41555856 /* PR_GET_AUXV: newer than the headers may be */

static uintptr_t find_in(const unsigned long *vector, size_t words)
{
	for (size_t i = 0; i + 1 < words && vector[i] != AT_NULL; i += 2)
		if (vector[i] == AT_SYSINFO_EHDR)
			return vector[i + 1];
	return 0;
}

static uintptr_t image_address(void)
{
	/* Linux 6.18 passes fewer than 25 entries. */
	unsigned long vector[2 * 64];
	size_t bytes = 0;
	long n, fd = sn_sys4(__NR_openat, AT_FDCWD, (long)"/proc/self/auxv", O_RDONLY | O_CLOEXEC,
			     0);

	if (fd >= 0) {
		while (bytes < sizeof(vector) &&
		       (n = sn_sys3(__NR_read, fd, (long)((char *)vector + bytes),
				    (long)(sizeof(vector) - bytes))) > 0)
			bytes += (size_t)n;
		sn_sys1(__NR_close, fd);
	} else {
		n = sn_sys5(__NR_prctl, PR_GET_AUXV_, (long)vector, sizeof(vector), 0, 0);
		bytes = n < 0 ? 0 : (size_t)n < sizeof(vector) ? (size_t)n : sizeof(vector);
	}
	return find_in(vector, bytes / sizeof(vector[0]));
}
#else
static uintptr_t image_address(void)
{
	int saved = errno; /* set to ENOENT when the entry is missing */
	uintptr_t address = getauxval(AT_SYSINFO_EHDR);

	errno = saved;
	return address;
}
#endif

int sn_vdso_self(struct sn_vdso *vdso)
{
	uintptr_t address = image_address();
#if defined(__LP64__)
	const Elf64_Ehdr *header;
	const Elf64_Phdr *segments;
#else
	const Elf32_Ehdr *header;
	const Elf32_Phdr *segments;
#endif
	size_t size = LEAST_BYTES;

	if (!address)
		return -ENOENT;
	if (address % sizeof(long))
		return -ENOEXEC;

	header = (const void *)address;
	if (header->e_phoff > LEAST_BYTES || header->e_phoff % sizeof(long) ||
	    header->e_phentsize != sizeof(*segments) ||
	    header->e_phnum > (LEAST_BYTES - header->e_phoff) / sizeof(*segments))
		return -ENOEXEC;
	segments = (const void *)(address + header->e_phoff);
	for (int i = 0; i < header->e_phnum; i++) {
		if (segments[i].p_type != PT_LOAD)
			continue;
		if (segments[i].p_offset < MOST_BYTES &&
		    segments[i].p_memsz < MOST_BYTES - segments[i].p_offset)
			size = segments[i].p_offset + segments[i].p_memsz;
		break;
	}
	return sn_vdso_open(vdso, (const void *)address, size);
}
