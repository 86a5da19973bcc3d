// SPDX-License-Identifier: MIT
//
// A lack of memory for timers: their heaps cannot grow. A program that includes this, in one of its
// files, is linked with --wrap=sn_pages_grow.
#ifndef SENNIT_TESTS_SUPPORT_NO_TIMERS_H
#define SENNIT_TESTS_SUPPORT_NO_TIMERS_H

#include <atomic>
#include <cstddef>

namespace test
{

// While it is set, there is no memory.
inline std::atomic<bool> no_timers{false};

} // namespace test

extern "C" {
void *__real_sn_pages_grow(void *pages, std::size_t size, std::size_t larger);
void *__wrap_sn_pages_grow(void *pages, std::size_t size, std::size_t larger);

void *__wrap_sn_pages_grow(void *pages, std::size_t size, std::size_t larger)
{
	return test::no_timers ? nullptr : __real_sn_pages_grow(pages, size, larger);
}
}

#endif
