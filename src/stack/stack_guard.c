/* SPDX-License-Identifier: MIT */
#include "stack/stack_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "stack/sanitizer.h"
#include "stack/stack_size.h"

#ifndef MADV_GUARD_INSTALL
#	define MADV_GUARD_INSTALL 102
#endif
#ifndef SYS_process_madvise
#	define SYS_process_madvise 440
#endif
#ifndef PIDFD_SELF
#	define PIDFD_SELF (-10000)
#endif

enum sn_stack_guard sn_stack_guard_chosen;
static bool several_work; /* one process_madvise() can install several guards */
static bool initialised;
static uint64_t mappings_left; /* for guards by mprotect() */

/* True if the kernel itself cannot write to the page: then the page works as a guard. */
static bool kernel_refuses(void *page)
{
	return syscall(SYS_uname, page) < 0 && errno == EFAULT;
}

static long guard_alone(char *page, size_t size)
{
	return madvise(page, size, MADV_GUARD_INSTALL);
}

static long guard_among_several(char *page, size_t size)
{
	const struct iovec guard = {page, size};

	return syscall(SYS_process_madvise, PIDFD_SELF, &guard, 1L, MADV_GUARD_INSTALL, 0);
}

static bool guards_work(long (*install)(char *page, size_t size))
{
	size_t page = sn_page_size();
	char *probe = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool works;

	if (probe == MAP_FAILED)
		return false;
	works = install(probe, page) >= 0 && kernel_refuses(probe);
	munmap(probe, page);
	return works;
}

static uint64_t max_map_count(void)
{
	char text[32] = "";
	int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 ? strtoull(text, NULL, 10) : 65530; /* the kernel's default */
}

void sn_stack_guards_choose(void)
{
	const char *wish = getenv("SENNIT_STACK_GUARD");
	bool forced = wish && strcmp(wish, "mprotect") == 0;

	if (initialised)
		return;
	sn_stack_guard_chosen = !forced && guards_work(guard_alone) ? SN_STACK_GUARD_MADVISE
								    : SN_STACK_GUARD_MPROTECT;
	/* valgrind does not know process_madvise(), and prints a warning at each call. */
	several_work = !SN_VALGRIND && sn_stack_guard_chosen == SN_STACK_GUARD_MADVISE &&
		       guards_work(guard_among_several);
	/* A guard takes two mappings. Half of all mappings is left to the program's own libraries
	 * and heaps. */
	mappings_left = max_map_count() / 2 / 2;
	initialised = true;
}

bool sn_stack_guards_at_once(void)
{
	return several_work;
}

/*
 * The kernel refuses MADV_GUARD_INSTALL with EINVAL where memory is locked. The guard is then made
 * by mprotect(), and its pages, which nothing can touch, are unlocked and given back.
 */
bool sn_stack_guard_install(char *at, int *mprotected)
{
	if (sn_stack_guard_chosen == SN_STACK_GUARD_MADVISE) {
		if (madvise(at, SN_STACK_GUARD_SIZE, MADV_GUARD_INSTALL) == 0)
			return true;
		if (errno != EINVAL)
			return false;
		munlock(at, SN_STACK_GUARD_SIZE);
		madvise(at, SN_STACK_GUARD_SIZE, MADV_DONTNEED);
	}
	if (mappings_left == 0) {
		errno = ENOMEM;
		return false;
	}
	if (mprotect(at, SN_STACK_GUARD_SIZE, PROT_NONE) < 0)
		return false;
	mappings_left--;
	(*mprotected)++;
	return true;
}

/* Installs guards by one system call. Returns how many it has installed; 0 also if the kernel does
 * not have the call. */
static int guards_at_once(const struct iovec *guards, int n)
{
	long size =
		syscall(SYS_process_madvise, PIDFD_SELF, guards, (long)n, MADV_GUARD_INSTALL, 0);
	long done = size / (long)SN_STACK_GUARD_SIZE;

	return done < 0 || done > n ? 0 : (int)done;
}

int sn_stack_guards_install(char *at, size_t slot_size, int n)
{
	struct iovec guards[SN_STACK_GUARDS_AT_ONCE];
	int saved = errno, done = 0;

	for (int i = 0; i < n; i++)
		guards[i] = (struct iovec){at + slot_size * (size_t)i, SN_STACK_GUARD_SIZE};
	if (several_work)
		done = guards_at_once(guards, n);
	if (done == 0)
		done = madvise(at, SN_STACK_GUARD_SIZE, MADV_GUARD_INSTALL) == 0 ? 1 : -errno;
	errno = saved;
	return done;
}

void sn_stack_guards_unmapped(int mprotected)
{
	mappings_left += (uint64_t)mprotected;
}
