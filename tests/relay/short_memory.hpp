/* SPDX-License-Identifier: MIT */
/*
 * Operators that allocate nothing while the test says so, and count allocations of one size.
 * Include it once in a program. The sanitizers have operators of their own, with which
 * is_memory_short changes nothing, and nothing is counted.
 */
#ifndef RELAY_SHORT_MEMORY_HPP
#define RELAY_SHORT_MEMORY_HPP

#include "support/runtime.h"

#include <atomic>
#include <cstdlib>
#include <new>

/* Any thread may set it. allocations_refused counts. */
inline std::atomic<bool> is_memory_short{false};
inline std::atomic<int> allocations_refused{0};

/* The size whose allocations are counted. */
inline std::atomic<std::size_t> counted_size{0};
inline std::atomic<int> allocations_counted{0};

#if !TEST_ASAN && !TEST_TSAN
void *operator new(std::size_t size)
{
	if (size == counted_size)
		allocations_counted++;
	if (is_memory_short)
		allocations_refused++;
	else if (void *const memory = std::malloc(size ? size : 1))
		return memory;
	throw std::bad_alloc();
}

void operator delete(void *memory) noexcept
{
	std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept
{
	std::free(memory);
}
#endif

#endif
