// SPDX-License-Identifier: MIT
//
// A lack of memory for timers: replaces realloc() of the C library, also for the library under
// test, which grows its heaps of timers with it. Include it in one file of a program. A sanitizer
// has a realloc() of its own, so the file's tests exist without one only.
#ifndef SENNIT_TESTS_SUPPORT_NO_REALLOC_H
#define SENNIT_TESTS_SUPPORT_NO_REALLOC_H

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include <dlfcn.h>

namespace test
{

// While it is set, realloc() fails.
inline std::atomic<bool> no_realloc{false};

} // namespace test

extern "C" void *realloc(void *memory, std::size_t size) noexcept
{
	static const auto real =
		reinterpret_cast<void *(*)(void *, std::size_t)>(dlsym(RTLD_NEXT, "realloc"));

	if (test::no_realloc) {
		errno = ENOMEM;
		return nullptr;
	}
	return real(memory, size);
}

#endif
