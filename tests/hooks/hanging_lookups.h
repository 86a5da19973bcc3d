// SPDX-License-Identifier: MIT
//
// A resolver in place of the C library's, for tests of hooked lookups: those of "hangs.test" hang
// until the test ends them, and all others fail.
#ifndef SENNIT_TESTS_HOOKS_HANGING_LOOKUPS_H
#define SENNIT_TESTS_HOOKS_HANGING_LOOKUPS_H

#include <atomic>
#include <string>

#include <netdb.h>
#include <unistd.h>

#include "hooks.h"

#define _Noreturn [[noreturn]] // the header is C
#include "hooks/real.h"

namespace test
{

inline int look_up(const char *node)
{
	struct addrinfo *found = nullptr;

	return getaddrinfo(node, nullptr, nullptr, &found);
}

// While it exists, lookups go to it.
class HangingLookups
{
public:
	HangingLookups()
	{
		hanging_ = 0;
		over_ = false;
		sn_real.getaddrinfo = resolve;
	}
	~HangingLookups() { sn_real.getaddrinfo = real_; }
	HangingLookups(const HangingLookups &) = delete;
	HangingLookups &operator=(const HangingLookups &) = delete;

	static int hanging() { return hanging_; }
	void end() { over_ = true; }

private:
	static int resolve(const char *node, const char *, const struct addrinfo *,
			   struct addrinfo **)
	{
		if (node != std::string("hangs.test"))
			return EAI_FAIL;
		hanging_++;
		while (!over_)
			usleep(1000);
		return EAI_AGAIN;
	}

	static inline std::atomic<int> hanging_{0};
	static inline std::atomic<bool> over_{false};
	const decltype(sn_real.getaddrinfo) real_ = sn_real.getaddrinfo;
};

} // namespace test

#endif
