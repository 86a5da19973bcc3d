// SPDX-License-Identifier: MIT
//
// While the address space is limited, the test's own small allocations wait until they succeed, so
// that only the library's are refused. The runtime sees such a wait as a task that blocks without a
// bracket.
#include <cstdlib>
#include <new>

#include <unistd.h>

#include "hostile/bounds.hpp"

#if !HOSTILE_ASAN && !HOSTILE_TSAN

void *operator new(size_t size)
{
	void *memory;

	while (!(memory = malloc(size ? size : 1)))
		usleep(1000);
	return memory;
}

void operator delete(void *memory) noexcept
{
	free(memory);
}

void operator delete(void *memory, size_t) noexcept
{
	free(memory);
}

#endif
