/* SPDX-License-Identifier: MIT */
#include "stack/stack_size.h"

#include <stdatomic.h>
#include <unistd.h>

#include "arch/compiler.h"

static int default_class; /* constant while a runtime runs */

/* Kept, because each spawn asks for it, and sysconf() is 5 % of a spawn that is immediately joined
 * (bench-tasks). */
size_t sn_page_size(void)
{
	static _Atomic size_t kept;
	size_t size = atomic_load_explicit(&kept, memory_order_relaxed);

	if (sn_unlikely(size == 0)) {
		size = (size_t)sysconf(_SC_PAGESIZE);
		atomic_store_explicit(&kept, size, memory_order_relaxed);
	}
	return size;
}

int sn_stack_class(size_t size)
{
	/* A stack is at least one page, which may be larger than the smallest class (64 KiB on some
	 * aarch64 kernels). */
	size_t page = sn_page_size();
	int class = 0;

	if (size > SN_STACK_MAX_SIZE)
		return -1;
	if (size < page)
		size = page;
	while (sn_stack_class_size(class) < size)
		class ++;
	return class;
}

void sn_stack_set_default(int class)
{
	default_class = class;
}

int sn_stack_default_class(void)
{
	return default_class;
}
